"""What requests were answered is remembered for a day, and not more than so much of it (S6, S24)."""

from datetime import timedelta

import pytest

from duenotice.clock import Instant
from duenotice.domain import kept_answers
from duenotice.domain.apply import fold
from duenotice.domain.kept_answers import KEPT, KeptAnswer, kept_answer
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from duenotice.domain.transitions import ClockMarked, Record, RequestAnswered
from tests.unit.domain.build import DAY, HOUR, NOW
from tests.unit.domain.test_decide import MARK


def after(hours: float, set_by: int = 0) -> Instant:
    """So many hours after the beginning; somebody has set the clock by so many days meanwhile."""
    at, steady = NOW.after(round(hours * HOUR))
    return Instant(at + timedelta(days=set_by), steady)


def told(state: State, key: str, now: Instant = NOW, is_old: bool = False) -> None:
    """A request was answered, by us or by an older duenotice."""
    change = RequestAnswered(key, "f", now.at + KEPT, b"any bytes", 0 if is_old else now.steady + DAY)
    fold(state, Record(state.position + 1, now.at, "token/ci", change, now.steady))


def test_it_is_known_where_the_answer_is() -> None:
    state = State()
    fold(state, Record(1, NOW.at, "test", ClockMarked(MARK)))
    told(state, "k")
    assert state.answers == {"k": KeptAnswer("k", "f", 2, NOW.at + KEPT, NOW.steady + DAY)}


def test_a_snapshot_knows_it_too() -> None:
    state = State()
    for key in "abc":
        told(state, key)
    assert list(restore(take(state)).answers.items()) == list(state.answers.items())


@pytest.mark.parametrize("is_old", [False, True])
def test_what_is_older_than_a_day_is_forgotten_when_the_next_comes(is_old: bool) -> None:
    state = State()
    for key, hours in (("a", 0), ("b", 1), ("c", 24), ("d", 24.5)):
        told(state, key, after(hours), is_old)
    assert list(state.answers) == ["b", "c", "d"]


@pytest.mark.parametrize("days", [3, -3])
def test_a_clock_that_was_set_forgets_nothing_when_the_next_comes(days: int) -> None:
    state = State()
    for key, now in (("a", NOW), ("b", after(1, days)), ("c", after(23.9, days))):
        told(state, key, now)
    assert list(state.answers) == ["a", "b", "c"]
    told(state, "d", after(24))
    assert list(state.answers) == ["b", "c", "d"]


def test_of_too_many_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "MOST_KEPT", 3)
    state = State()
    for key in "abcde":
        told(state, key)
    assert list(state.answers) == ["c", "d", "e"]


def test_a_key_that_is_used_again_after_a_day_is_the_newest() -> None:
    """Else what is older stays behind it for ever, and what is newer is forgotten before it."""
    state = State()
    for key, hours in (("a", 0), ("b", 23), ("a", 24), ("c", 47)):
        told(state, key, after(hours))
    assert list(state.answers) == ["a", "c"]


@pytest.mark.parametrize(("days", "lasts"), [(0, 24), (3, 24), (-3, 4 * 24)])
def test_it_counts_as_answered_until_a_day_is_over_by_both_faces_of_time(days: int, lasts: int) -> None:
    """However the clock is set (S34)."""
    state = State()
    told(state, "k")
    (known,) = state.answers.values()
    for key, hours, found in (("k", 0, known), ("k", lasts - 0.1, known), ("k", lasts, None), ("other", 0, None)):
        assert kept_answer(state.answers, key, after(hours, days)) is found


def test_what_an_older_duenotice_has_answered_counts_by_the_time_of_day() -> None:
    """It did not write down any other."""
    state = State()
    told(state, "k", is_old=True)
    (known,) = state.answers.values()
    for now, found in ((NOW, known), (after(23.9), known), (after(24), None), (after(0, 1), None)):
        assert kept_answer(state.answers, "k", now) is found
