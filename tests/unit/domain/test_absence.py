"""Time in which nobody could be answered is no notice, and documents say so (S25)."""

from datetime import timedelta

import pytest

from duenotice.clock import Instant
from duenotice.domain.commands import EvictVm, MakeUpForDowntime
from duenotice.domain.event import EventType
from duenotice.domain.policy import Policy
from duenotice.domain.records import EventPostponed
from tests.unit.domain.build import HOUR, NOW, SECOND, approve, do, evict, id_of, listening, schedule, started, tick


def after_absence(away: int, steady: int = 0) -> Instant:
    """So long after the beginning, of which only so much was notice."""
    return Instant(NOW.after(away).at, NOW.steady + steady)


def test_what_waited_all_the_while_has_its_whole_notice_ahead() -> None:
    state, later = listening(), after_absence(HOUR)
    event = evict(state, "spot")
    assert event.not_before == NOW.after(30 * SECOND).at
    (change,) = do(state, MakeUpForDowntime(), later)
    assert isinstance(change, EventPostponed)
    assert change.event == event.with_(not_before=later.after(30 * SECOND).at, notice_ends=NOW.steady + 30 * SECOND)


def test_what_had_waited_a_while_has_the_rest_ahead() -> None:
    state, later = listening(), after_absence(HOUR, 600 * SECOND)
    event = schedule(state, "alone", type=EventType.REBOOT)
    do(state, MakeUpForDowntime(), later)
    assert state.events[event.id].not_before == later.after(300 * SECOND).at


def test_it_is_told_in_whole_seconds_and_never_less_than_the_rest() -> None:
    state, later = listening(), after_absence(HOUR + 1, 600 * SECOND)
    event = schedule(state, "alone")
    do(state, MakeUpForDowntime(), later)
    told = state.events[event.id]
    assert told.not_before == later.after(301 * SECOND - 1).at
    assert told.not_before.microsecond == 0
    assert told.notice_ends == event.notice_ends + SECOND - 1


def test_it_starts_when_that_is_over_and_no_sooner() -> None:
    state, later = listening(), after_absence(HOUR)
    event = evict(state, "spot")
    do(state, MakeUpForDowntime(), later)
    assert tick(state, later.after(30 * SECOND - 1)) == []
    tick(state, later.after(30 * SECOND))
    assert state.events[event.id].started_at == later.after(30 * SECOND).at


@pytest.mark.parametrize("away", [0, SECOND, 2 * SECOND])
def test_a_moment_is_not_worth_telling(away: int) -> None:
    state = listening()
    evict(state, "spot")
    assert do(state, MakeUpForDowntime(), after_absence(away + 1, steady=1)) == []


@pytest.mark.parametrize("away", [1, SECOND, 2 * SECOND])
def test_every_moment_is_when_nobody_can_have_seen_the_event(away: int) -> None:
    """Nothing of its notice has passed, and the minimum must be ahead when it is seen first (S2)."""
    state, later = listening(), after_absence(away)
    event = evict(state, "spot")
    assert len(do(state, MakeUpForDowntime(), later)) == 1
    assert state.events[event.id].not_before >= later.after(30 * SECOND).at
    assert do(state, MakeUpForDowntime(), later) == []


@pytest.mark.parametrize(("away", "moves"), [(SECOND, False), (2 * SECOND, True)])
def test_half_of_the_time_that_a_commit_may_take_must_be_left_when_nobody_has_seen_the_event(
    away: int, moves: bool
) -> None:
    """It was raised with 3 seconds more than its notice. A second less is enough, and two are not (S2)."""
    state, allowance = listening(), Policy(commit_allowance=3 * SECOND)
    do(state, EvictVm(id_of(1), "spot"), policy=allowance)
    assert bool(do(state, MakeUpForDowntime(), after_absence(away), allowance)) is moves


def test_time_until_it_is_seen_is_spared() -> None:
    state, later = listening(), after_absence(HOUR)
    event = evict(state, "spot")
    do(state, MakeUpForDowntime(spare=5 * SECOND), later)
    assert state.events[event.id].not_before == later.after(35 * SECOND).at


def test_more_than_a_moment_is() -> None:
    state = listening()
    evict(state, "spot")
    assert len(do(state, MakeUpForDowntime(), after_absence(2 * SECOND + 2, steady=1))) == 1


def test_a_wall_that_was_set_back_moves_nothing_earlier() -> None:
    """NotBefore never does (D02)."""
    state = listening()
    evict(state, "spot")
    assert do(state, MakeUpForDowntime(), Instant(NOW.at - timedelta(days=1), NOW.steady)) == []


def test_what_was_approved_has_started_or_was_told_in_full_is_left_alone() -> None:
    state, later = listening(), after_absence(HOUR, 30 * SECOND)
    started(state, schedule(state, "web-0", number=1))
    approve(state, schedule(state, "web-1", number=2))  # held back by the other update domain
    told = evict(state, "spot", number=3)
    assert (state.events[id_of(2)].approved_by, told.notice_ends) == ("operator", later.steady)
    assert do(state, MakeUpForDowntime(), later) == []
