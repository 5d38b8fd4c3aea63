"""When an event starts, and what it waits for: one update domain at a time, deletes together (C05, S1, S11)."""

from datetime import timedelta

import pytest

from duenotice.clock import Instant, micros, micros_of
from duenotice.domain.commands import CancelEvent
from duenotice.domain.event import Cause, Event, EventType, Phase
from duenotice.domain.policy import Policy
from duenotice.domain.records import EventStarted
from duenotice.domain.rules.due import next_due
from duenotice.domain.rules.timing import held_back, may_start
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from tests.unit.domain.build import (
    NOW,
    POLICY,
    SECOND,
    approve,
    degrade,
    do,
    evict,
    fail,
    listening,
    operate,
    schedule,
    started,
    tick,
)


class TestStarting:
    """An unapproved event starts when its notice has truly elapsed and the time of day has come (S1)."""

    def phase_at(self, now: Instant) -> Phase:
        state = listening()
        event = schedule(state, "alone")
        tick(state, now)
        return state.events[event.id].phase

    def test_not_a_moment_early(self) -> None:
        assert self.phase_at(NOW.after(micros(899.999))) is Phase.SCHEDULED

    def test_at_its_time(self) -> None:
        assert self.phase_at(NOW.after(900 * SECOND)) is Phase.STARTED

    @pytest.mark.parametrize("passed", [0, 60, 899])
    def test_a_wall_clock_that_jumped_forward_starts_nothing_early(self, passed: int) -> None:
        assert self.phase_at(Instant(NOW.at + timedelta(days=1), NOW.steady + passed * SECOND)) is Phase.SCHEDULED

    @pytest.mark.parametrize("back", [timedelta(days=1), timedelta(seconds=1)])
    def test_a_wall_clock_that_was_set_back_only_delays(self, back: timedelta) -> None:
        at_its_time = NOW.after(900 * SECOND)
        assert self.phase_at(Instant(at_its_time.at - back, at_its_time.steady)) is Phase.SCHEDULED
        assert self.phase_at(Instant(at_its_time.at, at_its_time.steady + micros_of(back))) is Phase.STARTED

    @pytest.mark.parametrize(
        ("steady", "at", "starts"), [(900, 900, True), (899, 900, False), (900, 899, False), (9000, 900, True)]
    )
    def test_both_faces_of_its_time_have_to_come_whoever_asks(self, steady: int, at: int, starts: bool) -> None:
        event = schedule(listening(), "alone")
        now = Instant(NOW.at + timedelta(seconds=at), NOW.steady + steady * SECOND)
        assert may_start(event, now) is starts

    def test_an_impact_that_a_driver_carries_out_has_no_end_of_its_own(self) -> None:
        state = listening()
        event = schedule(state, "alone")
        tick(state, NOW.after(900 * SECOND), Policy(simulated_impact=False))
        assert state.events[event.id].impact_ends is None

    def test_a_started_event_knows_when_it_began_and_when_it_will_be_over(self) -> None:
        state = listening()
        schedule(state, "alone")
        (change,) = tick(state, NOW.after(901 * SECOND))
        assert isinstance(change, EventStarted)
        assert change.event.started_at == NOW.after(901 * SECOND).at
        assert change.event.impact_ends == NOW.steady + 901 * SECOND + 600 * SECOND

    def test_an_approved_event_starts_whatever_the_wall_clock_says(self) -> None:
        state = listening()
        event = schedule(state, "alone")
        approve(state, event)
        tick(state, Instant(NOW.at - timedelta(days=1), NOW.steady))
        assert state.events[event.id].phase is Phase.STARTED


class TestOneUpdateDomainAtATime:
    """Of one set at most one update domain is under maintenance (G01, S11)."""

    def phases(self, state) -> dict[str, Phase]:
        return {event_id: event.phase for event_id, event in state.events.items()}

    def test_an_approved_event_of_another_update_domain_is_held_back_until_the_first_is_over(self) -> None:
        state = listening()
        first, second = schedule(state, "web-0", number=1), schedule(state, "web-1", number=2)
        approve(state, first, second)
        tick(state)
        assert self.phases(state) == {first.id: Phase.STARTED, second.id: Phase.SCHEDULED}
        tick(state, NOW.after(599 * SECOND))
        assert self.phases(state)[second.id] is Phase.SCHEDULED
        tick(state, NOW.after(600 * SECOND))
        assert self.phases(state) == {second.id: Phase.STARTED}

    def test_so_is_one_whose_notice_has_run_out(self) -> None:
        state = listening()
        schedule(state, "web-0", number=1)
        schedule(state, "web-1", number=2)
        tick(state, NOW.after(900 * SECOND))
        assert list(self.phases(state).values()) == [Phase.STARTED, Phase.SCHEDULED]
        tick(state, NOW.after(1500 * SECOND))
        assert list(self.phases(state).values()) == [Phase.STARTED]

    def test_cancelling_does_not_release_what_a_started_event_holds(self) -> None:
        state = listening()
        started(state, schedule(state, "web-0", number=1))
        approve(state, schedule(state, "web-1", number=2))
        do(state, CancelEvent(schedule(state, "web-2", number=3).id))
        assert tick(state) == []

    def test_the_same_update_domain_may_have_several_at_once(self) -> None:
        state = listening()
        started(state, schedule(state, "web-0", number=1))
        assert started(state, schedule(state, "web-2", number=2)).phase is Phase.STARTED

    def test_of_several_at_once_the_last_to_end_lets_go(self) -> None:
        state, later = listening(), NOW.after(300 * SECOND)
        started(state, schedule(state, "web-0", number=1))
        started(state, schedule(state, "web-2", number=2, now=later), later)
        held = schedule(state, "web-1", number=3)
        approve(state, held)
        for passed, phase in ((600, Phase.SCHEDULED), (900, Phase.STARTED)):
            tick(state, NOW.after(passed * SECOND))
            assert self.phases(state)[held.id] is phase

    def test_another_set_or_placement_group_is_no_obstacle(self) -> None:
        state = listening()
        started(state, schedule(state, "web-0", number=1))
        started(state, schedule(state, "batch_0", number=2))
        assert started(state, schedule(state, "Front_IN_1", number=3)).phase is Phase.STARTED
        assert started(state, schedule(state, "batch_101", number=4)).phase is Phase.STARTED

    @pytest.mark.parametrize("cause", [Cause.MAINTENANCE, Cause.LIVE_MIGRATION, Cause.DEGRADED_HOST])
    def test_all_planned_work_is_held_back(self, cause: Cause) -> None:
        state = listening()
        started(state, schedule(state, "web-0", number=1))
        assert held_back(state, schedule(state, "web-1", cause=cause, number=2), NOW, POLICY)

    def test_moves_away_from_a_degraded_host_go_one_update_domain_at_a_time(self) -> None:
        state = listening()
        degrade(state, "host-1")
        tick(state, NOW.after((7 * 86_400) * SECOND))
        begun = [event for event in state.document("set/web").events if event.phase is Phase.STARTED]
        assert {event.update_domain for event in begun} == {0}

    def test_a_users_own_operation_waits_for_nobody(self) -> None:
        state = listening()
        started(state, schedule(state, "web-0", number=1))
        assert not held_back(state, operate(state, "web-1", EventType.REBOOT, number=2), NOW, POLICY)

    def test_a_users_own_operation_holds_nobody(self) -> None:
        state = listening()
        started(state, operate(state, "web-0", EventType.REBOOT, number=1))
        assert not held_back(state, schedule(state, "web-1", number=2), NOW, POLICY)

    def test_a_failure_waits_for_nobody_but_holds_planned_work(self) -> None:
        state = listening()
        started(state, schedule(state, "web-0", number=1))
        (failure,) = fail(state, "host-2")
        assert (failure.resources, failure.phase) == (("web-1",), Phase.STARTED)
        tick(state, NOW.after(599 * SECOND))
        assert held_back(state, schedule(state, "web-2", number=2), NOW, POLICY)

    def test_an_eviction_waits_for_nobody_but_holds_planned_work(self) -> None:
        state = listening()
        started(state, schedule(state, "batch_100", number=1))
        eviction = evict(state, "batch_101", number=2)
        assert not held_back(state, eviction, NOW, POLICY)
        started(state, eviction)
        assert held_back(state, schedule(state, "batch_100", number=3), NOW, POLICY)

    def test_a_standalone_vm_has_no_update_domain_to_wait_for(self) -> None:
        state = listening()
        started(state, schedule(state, "alone", number=1))
        assert not held_back(state, schedule(state, "alone", number=2), NOW, POLICY)


class TestDeletesTogether:
    """An approved delete waits for the other deletes of its scope, but not beyond its own notice."""

    def two(self, later: int = 60) -> tuple[State, Event, Event]:
        """Two deletes of one placement group; the first is approved."""
        state = listening()
        first = operate(state, "batch_0", EventType.TERMINATE, number=1)
        second = operate(state, "batch_1", EventType.TERMINATE, NOW.after(later * SECOND), number=2)
        approve(state, first)
        return state, first, second

    def begun(self, state: State) -> set[str]:
        return {event.id for event in state.events.values() if event.phase is Phase.STARTED}

    def test_approved_alone_it_waits(self) -> None:
        state, _, _ = self.two()
        assert tick(state, NOW.after(61 * SECOND)) == []

    def test_when_all_are_approved_they_start_together(self) -> None:
        state, first, second = self.two()
        approve(state, second)
        tick(state, NOW.after(61 * SECOND))
        assert self.begun(state) == {first.id, second.id}

    def test_at_its_own_time_it_waits_no_longer(self) -> None:
        state, first, _ = self.two()
        tick(state, NOW.after(micros(419.9)))
        assert self.begun(state) == set()
        tick(state, NOW.after(420 * SECOND))
        assert self.begun(state) == {first.id}

    def test_when_the_other_starts_at_its_own_time_it_goes_along(self) -> None:
        state, first, second = self.two(later=60)
        third = operate(state, "batch_1", EventType.REBOOT, NOW.after(60 * SECOND), number=3)
        do(state, CancelEvent(first.id))
        first = operate(state, "batch_0", EventType.TERMINATE, NOW.after(300 * SECOND), number=4)
        approve(state, first)
        tick(state, NOW.after(479 * SECOND))
        assert self.begun(state) == set()
        tick(state, NOW.after(480 * SECOND))
        assert self.begun(state) == {first.id, second.id}
        assert state.events[third.id].phase is Phase.SCHEDULED

    def test_when_the_other_is_cancelled_it_waits_no_longer(self) -> None:
        state, first, second = self.two()
        do(state, CancelEvent(second.id))
        tick(state, NOW.after(61 * SECOND))
        assert self.begun(state) == {first.id}

    def test_a_stream_of_new_deletes_does_not_hold_it_for_ever(self) -> None:
        state, first, second = self.two(later=400)
        tick(state, NOW.after(420 * SECOND))
        assert self.begun(state) == {first.id}
        assert state.events[second.id].phase is Phase.SCHEDULED

    def test_with_the_setting_off_nobody_waits(self) -> None:
        state, first, _ = self.two()
        tick(state, NOW.after(61 * SECOND), Policy(deletes_together=False))
        assert self.begun(state) == {first.id}

    def test_deletes_of_another_placement_group_do_not_matter(self) -> None:
        state = listening()
        operate(state, "batch_100", EventType.TERMINATE, number=1)
        second = started(state, operate(state, "batch_0", EventType.TERMINATE, number=2))
        assert second.phase is Phase.STARTED

    def test_other_approved_work_does_not_wait_for_a_delete(self) -> None:
        state = listening()
        operate(state, "batch_1", EventType.TERMINATE, number=1)
        assert started(state, operate(state, "batch_0", EventType.REBOOT, number=2)).phase is Phase.STARTED

    def test_a_delete_does_not_wait_for_other_work(self) -> None:
        state = listening()
        operate(state, "batch_1", EventType.REBOOT, number=1)
        assert started(state, operate(state, "batch_0", EventType.TERMINATE, number=2)).phase is Phase.STARTED

    def test_it_is_known_when_it_will_start_also_after_a_restart(self) -> None:
        state, _, _ = self.two()
        after = NOW.steady + 61 * SECOND
        assert next_due(state, after) == next_due(restore(take(state)), after) == NOW.steady + 420 * SECOND
