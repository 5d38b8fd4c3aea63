"""Events that are gone are remembered for a day, and not more than so many of them (C03, S24)."""

from datetime import timedelta

import pytest

from duenotice.clock import Instant
from duenotice.domain.commands import CancelEvent
from duenotice.domain.event import ENDED_KEPT, EndedEvent
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from tests.unit.domain.build import DAY, HOUR, NOW, do, id_of, listening, schedule, started, tick


def goes(state: State, number: int, hours: float = 0.0, set_by: int = 0) -> None:
    """An event is taken back so many hours after the beginning; the time of day was set by so many days meanwhile."""
    at, steady = NOW.after(round(hours * HOUR))
    now = Instant(at + timedelta(days=set_by), steady)
    event = schedule(state, "alone", now=now, number=number)
    do(state, CancelEvent(event.id), now)


def test_it_is_known_which_scope_had_it_and_for_how_long() -> None:
    state = listening()
    goes(state, 1)
    assert state.ended == {id_of(1): EndedEvent(id_of(1), "vm/alone", *NOW.after(ENDED_KEPT))}


def test_an_event_that_is_over_is_gone_too() -> None:
    state = listening()
    event = started(state, schedule(state, "web-0"))
    assert not state.ended
    tick(state, NOW.after(HOUR))
    assert state.ended[event.id].until == NOW.after(HOUR + ENDED_KEPT).at


def test_a_snapshot_knows_it_too() -> None:
    state = listening()
    for number in (3, 1, 2):
        goes(state, number)
    restored = restore(take(state))
    assert (restored.ended, restored.ended_order) == (state.ended, state.ended_order)
    assert list(restored.ended) == [id_of(3), id_of(1), id_of(2)]


def test_what_is_older_than_a_day_is_forgotten_when_the_next_goes() -> None:
    state = listening()
    for number, hours in ((1, 0), (2, 1), (3, 24), (4, 24.5)):
        goes(state, number, hours)
    assert list(state.ended) == list(state.ended_order) == [id_of(2), id_of(3), id_of(4)]


@pytest.mark.parametrize("days", [2, -2])
def test_a_clock_that_is_wrong_for_a_moment_makes_nothing_forgotten(days: int) -> None:
    """S34: an event that goes in this moment does not take the others with it, and is kept for no less itself."""
    state = listening()
    for number, hours, set_by in ((1, 0, 0), (2, 1, days), (3, 1.1, 0), (4, 23.9, 0)):
        goes(state, number, hours, set_by)
    assert list(state.ended) == [id_of(1), id_of(2), id_of(3), id_of(4)]
    assert not state.ended[id_of(2)].is_over(NOW.after(DAY))


def test_an_id_that_goes_twice_is_remembered_once() -> None:
    state = listening()
    for hours in (0, 1):
        goes(state, 1, hours)
    assert list(state.ended_order) == [id_of(1)]
    assert state.ended[id_of(1)].until == NOW.after(HOUR + ENDED_KEPT).at


def test_of_too_many_the_first_to_go_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duenotice.domain.event.MOST_ENDED", 3)
    state = listening()
    for number in range(1, 6):
        goes(state, number)
    assert list(state.ended) == [id_of(3), id_of(4), id_of(5)]
