"""What requests were answered is remembered for a day, and not more than so much of it (S6, S24)."""

from datetime import timedelta

import pytest

from duenotice.clock import Instant
from duenotice.domain.apply import fold
from duenotice.domain.records import ClockMarked, Record, RequestAnswered
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import ANSWERS_KEPT, IdempotencyRecord, State, answered_before
from tests.unit.domain.build import DAY, HOUR, NOW
from tests.unit.domain.test_decide import MARK


def after(hours: float, set_by: int = 0) -> Instant:
    """So many hours after the beginning; somebody has set the clock by so many days meanwhile."""
    at, steady = NOW.after(round(hours * HOUR))
    return Instant(at + timedelta(days=set_by), steady)


def told(state: State, key: str, now: Instant = NOW) -> None:
    """A request was answered."""
    change = RequestAnswered(key, "f", now.at + ANSWERS_KEPT, b"any bytes", now.steady + DAY)
    fold(state, Record(state.position + 1, now.at, "token/ci", change, now.steady))


def test_it_is_known_where_the_answer_is() -> None:
    state = State()
    fold(state, Record(1, NOW.at, "test", ClockMarked(MARK)))
    told(state, "k")
    assert state.idempotency == {"k": IdempotencyRecord("k", "f", 2, NOW.at + ANSWERS_KEPT, NOW.steady + DAY)}


def test_a_snapshot_knows_it_too() -> None:
    state = State()
    for key in "abc":
        told(state, key)
    assert list(restore(take(state)).idempotency.items()) == list(state.idempotency.items())


def test_what_is_older_than_a_day_is_forgotten_when_the_next_comes() -> None:
    state = State()
    for key, hours in (("a", 0), ("b", 1), ("c", 24), ("d", 24.5)):
        told(state, key, after(hours))
    assert list(state.idempotency) == ["b", "c", "d"]


@pytest.mark.parametrize("days", [3, -3])
def test_a_clock_that_was_set_forgets_nothing_when_the_next_comes(days: int) -> None:
    state = State()
    for key, now in (("a", NOW), ("b", after(1, days)), ("c", after(23.9, days))):
        told(state, key, now)
    assert list(state.idempotency) == ["a", "b", "c"]
    told(state, "d", after(24))
    assert list(state.idempotency) == ["b", "c", "d"]


def test_of_too_many_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duenotice.domain.state.MOST_ANSWERS", 3)
    state = State()
    for key in "abcde":
        told(state, key)
    assert list(state.idempotency) == ["c", "d", "e"]


def test_a_key_that_is_used_again_after_a_day_is_the_newest() -> None:
    """Else what is older stays behind it for ever, and what is newer is forgotten before it."""
    state = State()
    for key, hours in (("a", 0), ("b", 23), ("a", 24), ("c", 47)):
        told(state, key, after(hours))
    assert list(state.idempotency) == ["a", "c"]


@pytest.mark.parametrize(("days", "lasts"), [(0, 24), (3, 24), (-3, 4 * 24)])
def test_it_counts_as_answered_until_a_day_is_over_by_both_faces_of_time(days: int, lasts: int) -> None:
    """However the clock is set (S34)."""
    state = State()
    told(state, "k")
    (known,) = state.idempotency.values()
    for key, hours, found in (("k", 0, known), ("k", lasts - 0.1, known), ("k", lasts, None), ("other", 0, None)):
        assert answered_before(state.idempotency, key, after(hours, days)) is found
