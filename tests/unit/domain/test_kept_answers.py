"""What requests were answered is remembered for a day, and not more than so much of it (S6, S24)."""

from datetime import timedelta

import pytest

from duenotice.domain import kept_answers
from duenotice.domain.apply import fold
from duenotice.domain.kept_answers import KEPT, KeptAnswer, kept_answer
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from duenotice.domain.transitions import ClockMarked, Record, RequestAnswered
from tests.unit.domain.build import NOW
from tests.unit.domain.test_decide import MARK


def told(state: State, key: str, hours: float = 0.0) -> None:
    """A request was answered so many hours after the beginning."""
    at = NOW.at + timedelta(hours=hours)
    change = RequestAnswered(key, "f", at + KEPT, b"any bytes")
    fold(state, Record(state.position + 1, at, "token/ci", change))


def test_it_is_known_where_the_answer_is() -> None:
    state = State()
    fold(state, Record(1, NOW.at, "test", ClockMarked(MARK)))
    told(state, "k")
    assert state.answers == {"k": KeptAnswer("k", "f", 2, NOW.at + KEPT)}


def test_a_snapshot_knows_it_too() -> None:
    state = State()
    for key in "abc":
        told(state, key)
    assert list(restore(take(state)).answers.items()) == list(state.answers.items())


def test_what_is_older_than_a_day_is_forgotten_when_the_next_comes() -> None:
    state = State()
    for key, hours in (("a", 0), ("b", 1), ("c", 24), ("d", 24.5)):
        told(state, key, hours)
    assert list(state.answers) == ["b", "c", "d"]


def test_of_too_many_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "MOST_KEPT", 3)
    state = State()
    for key in "abcde":
        told(state, key)
    assert list(state.answers) == ["c", "d", "e"]


def test_it_counts_as_answered_for_a_day() -> None:
    state = State()
    told(state, "k")
    (known,) = state.answers.values()
    for key, hours, found in (("k", 0.0, known), ("k", 23.9, known), ("k", 24.0, None), ("other", 0.0, None)):
        assert kept_answer(state.answers, key, NOW.at + timedelta(hours=hours)) is found
