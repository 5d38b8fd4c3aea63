"""What the passing of time brings: starts, ends, and one update domain at a time (C05, S1, S11)."""

from datetime import timedelta

import pytest

from duenotice.clock import Instant
from duenotice.domain.commands import CancelEvent, StartMaintenance, Tick
from duenotice.domain.event import EventType, Phase
from duenotice.domain.policy import Policy
from duenotice.domain.records import EventCompleted, EventStarted
from duenotice.domain.rules import due, maintenance
from duenotice.domain.rules.due import PLAN, PLANS, RuleFailed, due_actions, next_due
from tests.unit.domain.build import (
    NOW,
    POLICY,
    SECOND,
    approve,
    do,
    id_of,
    listening,
    maintain,
    operate,
    schedule,
    started,
    tick,
)


class TestEnding:
    """A started event is over when its impact is, measured in steady time."""

    def test_not_before(self) -> None:
        state = listening()
        started(state, schedule(state, "alone"))
        assert tick(state, NOW.after(599 * SECOND)) == []

    def test_when_it_is_over_the_event_is_gone(self) -> None:
        state = listening()
        event = started(state, schedule(state, "alone"))
        assert tick(state, NOW.after(600 * SECOND)) == [EventCompleted(event.id, "vm/alone")]
        assert state.document("vm/alone").events == ()

    def test_a_jump_of_the_wall_clock_does_not_end_it(self) -> None:
        state = listening()
        started(state, schedule(state, "alone"))
        assert tick(state, Instant(NOW.at + timedelta(days=9), NOW.steady + SECOND)) == []

    def test_a_late_look_starts_first_and_ends_a_whole_impact_later(self) -> None:
        """Nobody looked for a day: the event is hit now, not in the past."""
        state = listening()
        schedule(state, "alone")
        tick(state, NOW.after(86_400 * SECOND))
        assert state.events[id_of(1)].impact_ends == NOW.steady + 86_400 * SECOND + 600 * SECOND


class TestOneAfterAnother:
    """What is due happens one thing after another, each decided by what the one before has left."""

    def test_a_tick_is_the_next_thing(self) -> None:
        state = listening()
        approve(state, schedule(state, "alone", number=1), schedule(state, "zonal", number=2))
        assert [len(do(state, Tick())) for _ in range(3)] == [1, 1, 0]

    def test_what_was_due_first_comes_first(self) -> None:
        state = listening()
        for number, vm in ((2, "alone"), (3, "zonal"), (1, "adrift")):
            schedule(state, vm, number=number, now=NOW.after(number * SECOND))
        changes = tick(state, NOW.after(1000 * SECOND))
        begun = [change.event.id for change in changes if isinstance(change, EventStarted)]
        assert begun == [id_of(1), id_of(2), id_of(3)]

    def test_an_end_lets_go_what_was_due_before_others_that_became_due_with_it(self) -> None:
        """web-1 was approved first and is held back by web-0; web-2, of the domain that was hit, comes behind it."""
        state = listening()
        first = started(state, schedule(state, "web-0", number=1))
        approve(state, schedule(state, "web-1", number=2))
        schedule(state, "web-2", number=9, now=NOW.after(-300 * SECOND))
        tick(state, NOW.after(600 * SECOND))
        assert first.id not in state.events
        assert [state.events[id_of(number)].phase for number in (2, 9)] == [Phase.STARTED, Phase.SCHEDULED]

    def test_what_may_not_start_does_not_hold_up_its_scope(self) -> None:
        state = listening()
        started(state, schedule(state, "web-0", number=1))
        approve(state, schedule(state, "web-1", number=2), operate(state, "web-3", EventType.REBOOT, number=3))
        tick(state)
        assert [event.phase for event in state.document("set/web").events] == [
            Phase.STARTED,
            Phase.SCHEDULED,
            Phase.STARTED,
        ]


class TestWithout:
    """What a rule of ours has failed at is left alone, and the others go on."""

    def test_an_event_can_be_left_out(self) -> None:
        state = listening()
        approve(state, schedule(state, "alone", number=1), schedule(state, "zonal", number=2))
        assert next(due_actions(state, NOW, POLICY, {id_of(1)})).of == id_of(2)
        assert list(due_actions(state, NOW, POLICY, {id_of(1), id_of(2)})) == []

    def test_plans_can_be_left_out(self) -> None:
        state = listening()
        do(state, StartMaintenance(id_of(9), EventType.REBOOT, ("web-0",)))
        do(state, StartMaintenance(id_of(8), EventType.REBOOT, ("alone",)))
        assert next(due_actions(state, NOW, POLICY)).of == PLAN + id_of(9)
        assert next(due_actions(state, NOW, POLICY, {PLAN + id_of(9)})).of == PLAN + id_of(8)
        assert list(due_actions(state, NOW, POLICY, {PLAN + id_of(9), PLAN + id_of(8)})) == []
        assert list(due_actions(state, NOW, POLICY, {PLANS})) == []

    def test_a_fault_names_the_event_that_it_is_about(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(due, "started", None)
        state = listening()
        approve(state, schedule(state, "alone", number=1))
        with pytest.raises(RuleFailed) as fault:
            next(due_actions(state, NOW, POLICY))
        assert (fault.value.args, type(fault.value.__cause__)) == ((id_of(1),), TypeError)

    def test_a_fault_names_the_plan_that_it_is_about(self, monkeypatch: pytest.MonkeyPatch) -> None:
        state = listening()
        do(state, StartMaintenance(id_of(9), EventType.REBOOT, ("web-0",)))
        monkeypatch.setattr(maintenance, "_begun", None)
        with pytest.raises(RuleFailed) as fault:
            next(due_actions(state, NOW, POLICY))
        assert (fault.value.args, type(fault.value.__cause__)) == ((PLAN + id_of(9),), TypeError)

    def test_steps_that_have_ended_wait_while_their_plan_is_left_out(self) -> None:
        state = listening()
        do(state, StartMaintenance(id_of(9), EventType.REBOOT, ("web-0",)))
        tick(state)
        (event,) = state.events.values()
        do(state, CancelEvent(event.id))
        assert list(due_actions(state, NOW, POLICY, {PLAN + id_of(9)})) == []
        assert next(due_actions(state, NOW, POLICY)).of == PLAN + id_of(9)


class TestNextDue:
    """When the ticker has to look again."""

    def test_never_when_there_is_nothing(self) -> None:
        assert next_due(listening(), NOW.steady) is None

    def test_what_was_cancelled_is_not_due(self) -> None:
        """Not even while something before it is still held back."""
        state = listening()
        first, second = (
            schedule(state, "alone", number=1),
            schedule(state, "zonal", number=2, now=NOW.after(60 * SECOND)),
        )
        do(state, CancelEvent(second.id))
        assert next_due(state, first.notice_ends) is None

    def test_at_the_soonest_start_or_end(self) -> None:
        state = listening()
        schedule(state, "alone", number=1)
        started(state, schedule(state, "zonal", number=2))
        assert next_due(state, NOW.steady) == NOW.steady + 600 * SECOND

    def test_what_is_due_already_and_held_back_hides_nothing_that_comes_later(self) -> None:
        state = listening()
        started(state, schedule(state, "web-0", number=1))
        approve(state, schedule(state, "web-1", number=2))
        tick(state)
        assert next_due(state, NOW.steady) == NOW.steady + 600 * SECOND

    def test_at_the_end_of_a_settle_time(self) -> None:
        state = listening()
        maintain(state, "web-0", "web-1", settle=60 * SECOND)
        started(state, next(iter(state.events.values())))
        tick(state, NOW.after(600 * SECOND))
        assert next_due(state, NOW.steady + 600 * SECOND) == NOW.steady + 600 * SECOND + 60 * SECOND

    def test_never_for_an_impact_that_only_a_driver_can_end(self) -> None:
        state = listening()
        approve(state, schedule(state, "alone"))
        tick(state, NOW, Policy(simulated_impact=False))
        assert next_due(state, NOW.steady) is None
