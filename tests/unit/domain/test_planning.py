"""A maintenance from its beginning to its end: it goes on by itself, and nothing can hold it for ever (G01, S11)."""

from typing import Any

import pytest
from msgspec import structs

from duenotice.clock import Instant, micros
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.apply import apply
from duenotice.domain.event import By, Cause, Event, EventType, Phase
from duenotice.domain.fleet import Vm, scope_of
from duenotice.domain.plan import MOST, Maintenance, Status, StepStatus
from duenotice.domain.policy import Policy
from duenotice.domain.rules.due import next_due
from duenotice.domain.rules.maintenance import A_RULE_FAILED, halted
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from duenotice.errors import Conflict, NotFound, Refused
from tests.unit.domain.build import (
    BATCH,
    EVERYBODY,
    MINUTE,
    NOW,
    POLICY,
    SECOND,
    SHOP,
    VMS,
    WEB,
    approve,
    declaration,
    do,
    evict,
    fail,
    id_of,
    listening,
    maintain,
    operate,
    schedule,
    started,
    state_of,
    tick,
)

WEBS = ("web-0", "web-1", "web-2", "web-3")
BATCHES = ("batch_0", "batch_1", "batch_100", "batch_101")
DRIVEN = Policy(simulated_impact=False)

RUNNING, PAUSED, DONE, FAILED, CANCELLED = Status
WAITING, UNDER_WAY, STEP_DONE, STEP_FAILED, SKIPPED = StepStatus


def plan_of(state: State, number: int = 1) -> Maintenance:
    return state.maintenances[id_of(number)]


def steps_of(state: State, number: int = 1) -> list[StepStatus]:
    return [step.status for step in plan_of(state, number).steps]


def reasons_of(state: State) -> list[str]:
    return [step.reason for step in plan_of(state).steps]


def under_way(state: State) -> list[tuple[str, ...]]:
    """Who has an event of a maintenance."""
    return [event.resources for event in state.events.values() if event.maintenance]


def event_on(state: State, vm: str) -> Event:
    return next(event for event in state.events.values() if vm in event.resources)


def without(state: State, *names: str, now: Instant = NOW, policy: Policy = POLICY) -> None:
    """These VMs are no longer in the fleet file."""
    rest = [vm for vm in VMS if vm.name not in names]
    do(state, c.ApplyFleet(declaration(*rest, digest=f"without {names}")), now, policy)


def let_pass(state: State, now: Instant, policy: Policy = POLICY) -> Instant:
    """Let time pass until nothing more is due by itself."""
    tick(state, now, policy)
    for _ in range(100):
        due = next_due(state, now.steady)
        if due is None:
            return now
        now = now.after(due - now.steady)
        tick(state, now, policy)
    raise AssertionError("It goes on for ever.")


class TestBeginning:
    """A plan is refused as a whole, or it is begun."""

    def test_a_plan_is_what_was_asked_for_cut_into_steps(self) -> None:
        state = listening()
        asked = c.StartMaintenance(
            id_of(1),
            EventType.FREEZE,
            WEBS,
            Cause.LIVE_MIGRATION,
            "Moving.",
            60 * SECOND,
            at_once=2,
            failures_allowed=1,
        )
        (change,) = do(state, asked)
        assert isinstance(change, t.MaintenanceStarted)
        assert change.maintenance == plan_of(state)
        assert structs.replace(plan_of(state), steps=()) == Maintenance(
            id_of(1),
            EventType.FREEZE,
            Cause.LIVE_MIGRATION,
            (),
            "Moving.",
            MINUTE,
            2,
            1,
            Status.RUNNING,
            asked_at=NOW.at,
        )
        assert [step.resources for step in plan_of(state).steps] == [("web-0", "web-2"), ("web-3",), ("web-1",)]

    def test_a_vm_named_twice_is_hit_once(self) -> None:
        state = listening()
        maintain(state, "web-0", "web-0", "web-2")
        assert under_way(state) == [("web-0", "web-2")]

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"type": EventType.PREEMPT}, "Freeze, a Reboot or a Redeploy"),
            ({"type": EventType.TERMINATE}, "Freeze, a Reboot or a Redeploy"),
            *(({"cause": cause}, "host maintenance or live migration") for cause in list(Cause)[2:]),
            ({"settle": -1}, "negative"),
            ({"settle": 7 * 86_400 * SECOND + 1}, "at most 7 days"),
            ({"at_once": -1}, "negative"),
            ({"failures_allowed": -1}, "negative"),
            ({"at_once": 1_000_000_001}, "at most 1,000,000,000"),
            ({"at_once": 2**63}, "at most 1,000,000,000"),
            ({"failures_allowed": 10**3000}, "at most 1,000,000,000"),
            ({"description": "x" * 1001}, "1001 characters"),
            ({"vms": ()}, "No VM is chosen"),
            ({"vms": ("web-0", "nobody")}, "no VM named 'nobody'"),
            ({"maintenance_id": "rollout"}, "not an id"),
        ],
    )
    def test_what_makes_no_sense_is_refused_and_changes_nothing(self, change: dict[str, Any], says: str) -> None:
        state = listening()
        before = take(state)
        with pytest.raises(Refused, match=says) as refusal:
            do(state, structs.replace(c.StartMaintenance(id_of(1), EventType.REBOOT, WEBS), **change))
        assert refusal.value.hint
        assert take(state) == before

    @pytest.mark.parametrize("most", [{"settle": 7 * 86_400 * SECOND}, {"at_once": MOST}, {"failures_allowed": MOST}])
    def test_the_most_that_may_be_asked_for_is_taken(self, most: dict[str, Any]) -> None:
        assert maintain(listening(), "web-0", **most).status is RUNNING

    def test_a_second_maintenance_on_the_same_set_is_refused(self) -> None:
        state = listening()
        maintain(state, "web-0")
        before = take(state)
        with pytest.raises(Conflict, match=f"set/web is under maintenance {id_of(1)}"):
            maintain(state, "alone", "web-1", number=2)
        assert take(state) == before

    def test_one_placement_group_holds_the_whole_scale_set(self) -> None:
        state = listening()
        maintain(state, "batch_0")
        with pytest.raises(Conflict, match=BATCH.key):
            maintain(state, "batch_101", number=2)

    def test_on_another_set_it_is_allowed(self) -> None:
        state = listening()
        maintain(state, "web-0")
        maintain(state, "alone", "batch_0", number=2)
        assert under_way(state) == [("web-0",), ("batch_0",), ("alone",)]

    def test_when_the_first_is_over_the_next_may_begin(self) -> None:
        state = listening()
        maintain(state, "web-0")
        now = let_pass(state, NOW)
        maintain(state, "web-0", number=2, now=now)
        assert [plan.status for plan in state.maintenances.values()] == [DONE, RUNNING]

    def test_an_id_is_used_once(self) -> None:
        state = listening()
        maintain(state, "web-0")
        with pytest.raises(Conflict, match="already a maintenance"):
            maintain(state, "alone")

    def test_an_id_whose_events_are_still_there_is_not_used_again_although_the_plan_is_forgotten(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("duenotice.domain.apply.MAINTENANCES_KEPT", 0)
        state = state_of()
        maintain(state, "web-0")
        do(state, c.CancelMaintenance(id_of(1)))
        maintain(state, "alone", number=2)
        assert id_of(1) not in state.maintenances
        with pytest.raises(Conflict, match="already a maintenance"):
            maintain(state, "zonal", number=1)


class TestGoingOn:
    """One update domain after the other, each whole and settled before the next."""

    def test_one_update_domain_at_a_time_and_the_next_when_the_last_is_done(self) -> None:
        state = listening()
        maintain(state, *WEBS)
        assert under_way(state) == [("web-0", "web-2")]
        tick(state, NOW.after(900 * SECOND))
        assert steps_of(state) == [UNDER_WAY, WAITING, WAITING]
        tick(state, NOW.after(1499 * SECOND))
        assert under_way(state) == [("web-0", "web-2")]
        tick(state, NOW.after(1500 * SECOND))
        assert under_way(state) == [("web-3",), ("web-1",)]
        assert steps_of(state) == [STEP_DONE, UNDER_WAY, UNDER_WAY]

    def test_the_next_is_told_only_when_the_settle_time_has_passed(self) -> None:
        state = listening()
        maintain(state, *WEBS, settle=5 * MINUTE)
        tick(state, NOW.after(900 * SECOND))
        tick(state, NOW.after(1500 * SECOND))
        assert (under_way(state), next_due(state, NOW.after(1500 * SECOND).steady)) == ([], NOW.steady + 1800 * SECOND)
        tick(state, NOW.after(micros(1799.9)))
        assert under_way(state) == []
        tick(state, NOW.after(1800 * SECOND))
        assert under_way(state) == [("web-3",), ("web-1",)]

    def test_every_event_has_the_whole_notice_of_its_type(self) -> None:
        state = listening()
        maintain(state, *WEBS, type=EventType.REDEPLOY)
        tick(state, NOW.after(600 * SECOND))
        now = NOW.after(1200 * SECOND)
        tick(state, now)
        assert [event.not_before - now.at for event in state.events.values()] == 2 * [
            now.after(600 * SECOND).at - now.at
        ]

    def test_an_event_says_what_the_plan_says(self) -> None:
        state = listening()
        maintain(state, "alone", type=EventType.FREEZE, cause=Cause.LIVE_MIGRATION, description="Moving.")
        event = event_on(state, "alone")
        assert (event.type, event.cause, event.description) == (EventType.FREEZE, Cause.LIVE_MIGRATION, "Moving.")
        assert event.maintenance == id_of(1)

    def test_without_a_description_it_says_what_such_events_say(self) -> None:
        state = listening()
        maintain(state, "alone")
        assert event_on(state, "alone").description == "Host server is undergoing maintenance."

    def test_a_scale_set_goes_one_update_domain_at_a_time_across_its_placement_groups(self) -> None:
        state = listening()
        maintain(state, *BATCHES)
        assert under_way(state) == [("batch_0", "batch_1"), ("batch_100",)]
        approve(state, event_on(state, "batch_100"))
        tick(state)
        tick(state, NOW.after(700 * SECOND))
        assert steps_of(state) == [UNDER_WAY, STEP_DONE, WAITING]  # batch_101 waits for the other placement group
        tick(state, NOW.after(900 * SECOND))
        tick(state, NOW.after(1500 * SECOND))
        assert under_way(state) == [("batch_101",)]

    def test_standalone_vms_wait_for_nobody(self) -> None:
        state = listening()
        maintain(state, "alone", "zonal", "adrift")
        assert under_way(state) == [("adrift",), ("alone",), ("zonal",)]

    def test_with_a_limit_only_so_many_are_under_way(self) -> None:
        state = listening()
        maintain(state, "alone", "zonal", "adrift", at_once=2)
        assert under_way(state) == [("adrift",), ("alone",)]
        started(state, event_on(state, "alone"))
        tick(state, NOW.after(600 * SECOND))
        assert under_way(state) == [("adrift",), ("zonal",)]

    def test_an_approval_makes_it_go_faster(self) -> None:
        state = listening()
        maintain(state, *WEBS)
        started(state, event_on(state, "web-0"))
        tick(state, NOW.after(600 * SECOND))
        assert steps_of(state) == [STEP_DONE, UNDER_WAY, UNDER_WAY]

    def test_when_nobody_listens_it_does_not_wait_out_the_notice(self) -> None:
        state = state_of()
        maintain(state, *WEBS)
        assert event_on(state, "web-0").phase is Phase.STARTED

    def test_when_every_step_is_over_it_is_done(self) -> None:
        state = listening()
        maintain(state, *EVERYBODY, settle=60 * SECOND)
        let_pass(state, NOW)
        assert (plan_of(state).status, set(steps_of(state))) == (DONE, {STEP_DONE})
        assert not state.events
        assert not state.unprocessed_outcomes

    def test_a_failure_of_the_host_holds_it_back_but_not_for_ever(self) -> None:
        state = listening()
        maintain(state, "web-0", "web-2")
        fail(state, "host-2", NOW.after(890 * SECOND))
        tick(state, NOW.after(900 * SECOND))
        assert event_on(state, "web-0").phase is Phase.SCHEDULED
        let_pass(state, NOW.after(900 * SECOND))
        assert plan_of(state).status is DONE

    def test_a_restart_in_the_middle_makes_no_difference(self) -> None:
        state = listening()
        maintain(state, *WEBS, "alone", settle=60 * SECOND, at_once=1, failures_allowed=3)
        tick(state, NOW.after(900 * SECOND))
        do(state, c.ReportImpact(event_on(state, "web-0").id, "broken"), NOW.after(1000 * SECOND))
        restored = restore(take(state))
        assert (restored.maintenances, restored.unprocessed_outcomes) == (
            state.maintenances,
            state.unprocessed_outcomes,
        )
        assert len(state.unprocessed_outcomes) == 1
        assert let_pass(state, NOW.after(1000 * SECOND)) == let_pass(restored, NOW.after(1000 * SECOND))
        assert take(restored) == take(state)


class TestPausing:
    """Pause begins nothing new and lets go on what is under way."""

    def test_the_next_step_waits_for_resume(self) -> None:
        state = listening()
        maintain(state, *WEBS)
        do(state, c.PauseMaintenance(id_of(1)))
        now = let_pass(state, NOW)
        assert (plan_of(state).status, steps_of(state)) == (PAUSED, [STEP_DONE, WAITING, WAITING])
        do(state, c.ResumeMaintenance(id_of(1)), now)
        tick(state, now)
        assert steps_of(state) == [STEP_DONE, UNDER_WAY, UNDER_WAY]

    def test_a_paused_plan_whose_last_step_ends_is_done(self) -> None:
        state = listening()
        maintain(state, "web-0")
        do(state, c.PauseMaintenance(id_of(1)))
        let_pass(state, NOW)
        assert plan_of(state).status is DONE

    def test_a_paused_plan_still_holds_its_sets(self) -> None:
        state = listening()
        maintain(state, "web-0")
        do(state, c.PauseMaintenance(id_of(1)))
        with pytest.raises(Conflict, match="under maintenance"):
            maintain(state, "web-1", number=2)

    @pytest.mark.parametrize("command", [c.PauseMaintenance, c.ResumeMaintenance, c.CancelMaintenance])
    def test_an_unknown_plan_cannot_be_turned(self, command: type[c.Command]) -> None:
        with pytest.raises(NotFound, match="no maintenance"):
            do(listening(), command(id_of(1)))

    def test_pausing_twice_or_resuming_what_runs_is_refused(self) -> None:
        state = listening()
        maintain(state, "web-0")
        with pytest.raises(Conflict, match="is running, not paused"):
            do(state, c.ResumeMaintenance(id_of(1)))
        do(state, c.PauseMaintenance(id_of(1)))
        with pytest.raises(Conflict, match="is paused, not running"):
            do(state, c.PauseMaintenance(id_of(1)))


class TestHalting:
    """A rule has failed at a plan."""

    def test_it_pauses_and_says_why(self) -> None:
        state = listening()
        do(state, c.StartMaintenance(id_of(1), EventType.REBOOT, WEBS))
        assert halted(state, id_of(1)) == [t.MaintenanceChanged(id_of(1), Status.PAUSED, A_RULE_FAILED)]

    def test_one_that_is_paused_or_unknown_stays_as_it_is(self) -> None:
        state = listening()
        do(state, c.StartMaintenance(id_of(1), EventType.REBOOT, WEBS))
        do(state, c.PauseMaintenance(id_of(1)))
        assert (halted(state, id_of(1)), halted(state, id_of(2))) == ([], [])


class TestCancelling:
    """Cancel takes back what is scheduled; what has started runs to its end."""

    def cancelled_with_one_started(self) -> State:
        """alone has started, zonal is only scheduled, then all is cancelled."""
        state = listening()
        maintain(state, "alone", "zonal")
        started(state, event_on(state, "alone"))
        do(state, c.CancelMaintenance(id_of(1)))
        tick(state)
        return state

    def test_what_is_scheduled_is_taken_back_and_what_has_started_is_not(self) -> None:
        state = self.cancelled_with_one_started()
        assert under_way(state) == [("alone",)]
        assert (plan_of(state).status, steps_of(state)) == (CANCELLED, [UNDER_WAY, SKIPPED])
        assert reasons_of(state) == ["", "The maintenance is cancelled."]

    def test_the_end_of_what_had_started_is_still_written_down_and_leaves_nothing_behind(self) -> None:
        state = self.cancelled_with_one_started()
        tick(state, NOW.after(600 * SECOND))
        assert (plan_of(state).status, steps_of(state)) == (CANCELLED, [STEP_DONE, SKIPPED])
        assert (state.unprocessed_outcomes, state.events) == ({}, {})

    def test_while_it_runs_to_its_end_the_set_is_not_free(self) -> None:
        """Else another update domain of a scale set could be hit beside it."""
        state = self.cancelled_with_one_started()
        with pytest.raises(Conflict, match="under maintenance"):
            maintain(state, "alone", number=2)
        maintain(state, "zonal", number=2)
        tick(state, NOW.after(600 * SECOND))
        maintain(state, "alone", number=3, now=NOW.after(600 * SECOND))

    def test_the_set_is_free_only_when_the_last_of_its_steps_has_ended(self) -> None:
        state = state_of()
        maintain(state, "web-1", "web-3", policy=DRIVEN)
        do(state, c.CancelMaintenance(id_of(1)))
        for vm in ("web-1", "web-3"):
            with pytest.raises(Conflict, match="under maintenance"):
                maintain(state, "web-0", number=2, policy=DRIVEN)
            do(state, c.ReportImpact(event_on(state, vm).id), policy=DRIVEN)
            tick(state, NOW, DRIVEN)
        maintain(state, "web-0", number=2, policy=DRIVEN)

    def test_a_restart_does_not_set_it_free(self) -> None:
        state = restore(take(self.cancelled_with_one_started()))
        with pytest.raises(Conflict, match="under maintenance"):
            maintain(state, "alone", number=2)
        maintain(state, "zonal", number=2)

    def test_a_vm_that_vanished_holds_nothing_of_a_cancelled_plan(self) -> None:
        state = state_of()
        maintain(state, "web-1", policy=DRIVEN)
        do(state, c.CancelMaintenance(id_of(1)))
        without(state, "web-1", policy=DRIVEN)
        assert steps_of(state) == [UNDER_WAY]
        maintain(state, "web-3", number=2, policy=DRIVEN)

    def test_of_a_cancelled_plan_with_two_started_each_end_is_written_down_in_its_time(self) -> None:
        state = state_of()
        maintain(state, "alone", "zonal", policy=DRIVEN)
        do(state, c.CancelMaintenance(id_of(1)))
        do(state, c.ReportImpact(event_on(state, "zonal").id, "broken"))
        tick(state)
        assert (steps_of(state), reasons_of(state)) == ([UNDER_WAY, STEP_FAILED], ["", "broken"])
        assert plan_of(state).status is CANCELLED

    def test_what_waits_never_begins(self) -> None:
        state = listening()
        maintain(state, *WEBS)
        do(state, c.CancelMaintenance(id_of(1)))
        let_pass(state, NOW)
        assert steps_of(state) == [SKIPPED, WAITING, WAITING]

    def test_a_plan_that_is_over_cannot_be_cancelled(self) -> None:
        state = listening()
        maintain(state, "alone")
        let_pass(state, NOW)
        with pytest.raises(Conflict, match="done already"):
            do(state, c.CancelMaintenance(id_of(1)))

    def test_a_paused_plan_can_be_cancelled(self) -> None:
        state = listening()
        maintain(state, "alone")
        do(state, c.PauseMaintenance(id_of(1)))
        do(state, c.CancelMaintenance(id_of(1)))
        assert plan_of(state).status is CANCELLED


class TestFailing:
    """More failures than allowed stop a plan; so many do not."""

    def broken(self, failures_allowed: int) -> State:
        """Three are hit at once; alone and zonal break."""
        state = listening()
        maintain(state, "adrift", "alone", "zonal", *WEBS, failures_allowed=failures_allowed)
        for name in ("alone", "zonal"):
            event = started(state, event_on(state, name))
            do(state, c.ReportImpact(event.id, f"{name} does not answer."))
        tick(state)
        return state

    def test_as_many_as_allowed_and_it_goes_on(self) -> None:
        state = self.broken(2)
        let_pass(state, NOW)
        assert plan_of(state).status is DONE
        assert sorted(status.value for status in steps_of(state)) == ["done"] * 4 + ["failed"] * 2

    def test_one_more_than_allowed_and_it_stops_and_says_why(self) -> None:
        state = self.broken(1)
        assert (plan_of(state).status, plan_of(state).reason) == (FAILED, "2 failed, 1 allowed.")
        assert under_way(state) == []
        assert [(step.status, step.reason) for step in plan_of(state).steps if step.status is not WAITING] == [
            (SKIPPED, "The maintenance is failed."),
            (SKIPPED, "The maintenance is failed."),
            (STEP_FAILED, "alone does not answer."),
            (STEP_FAILED, "zonal does not answer."),
        ]

    def test_a_stopped_plan_lets_its_sets_go(self) -> None:
        state = self.broken(1)
        maintain(state, *WEBS, number=2)
        assert under_way(state) == [("web-0", "web-2")]

    def test_a_paused_plan_stops_too(self) -> None:
        state = listening()
        maintain(state, *WEBS)
        do(state, c.PauseMaintenance(id_of(1)))
        do(state, c.ReportImpact(started(state, event_on(state, "web-0")).id, "broken"))
        tick(state)
        assert plan_of(state).status is FAILED

    def test_a_step_that_was_only_skipped_is_no_failure(self) -> None:
        state = listening()
        maintain(state, *WEBS)
        do(state, c.CancelEvent(event_on(state, "web-0").id, "Not today."))
        let_pass(state, NOW)
        assert (plan_of(state).status, steps_of(state)) == (DONE, [SKIPPED, STEP_DONE, STEP_DONE])
        assert reasons_of(state) == ["Not today.", "", ""]

    def test_a_step_whose_event_was_cancelled_without_a_reason_says_so(self) -> None:
        state = listening()
        maintain(state, "alone")
        do(state, c.CancelEvent(event_on(state, "alone").id))
        tick(state)
        assert reasons_of(state) == ["Its event was cancelled."]


class TestVanishing:
    """A VM that vanished neither holds a plan for ever nor is it left out in silence."""

    def test_before_its_step_the_step_is_skipped_with_a_reason(self) -> None:
        state = listening()
        maintain(state, *WEBS)
        without(state, "web-3")
        let_pass(state, NOW)
        assert (plan_of(state).status, steps_of(state)) == (DONE, [STEP_DONE, SKIPPED, STEP_DONE])
        assert reasons_of(state) == ["", "Its VMs are gone.", ""]

    def test_one_of_several_before_its_step_is_left_out_and_named(self) -> None:
        state = listening()
        do(state, c.StartMaintenance(id_of(1), EventType.REBOOT, WEBS))
        without(state, "web-2")
        tick(state)
        assert under_way(state) == [("web-0",)]
        let_pass(state, NOW)
        assert reasons_of(state) == ["No longer there: web-2.", "", ""]
        assert steps_of(state)[0] is STEP_DONE

    def test_one_that_came_to_another_update_domain_is_left_out_and_named(self) -> None:
        state = listening()
        do(state, c.StartMaintenance(id_of(1), EventType.REBOOT, WEBS))
        moved = [structs.replace(vm, update_domain=1) if vm.name == "web-2" else vm for vm in VMS]
        do(state, c.ApplyFleet(declaration(*moved, digest="moved")))
        tick(state)
        assert under_way(state) == [("web-0",)]
        assert reasons_of(state)[0] == "No longer there: web-2."

    def test_a_step_whose_vms_all_came_to_another_update_domain_says_so(self) -> None:
        """They are not gone, and whoever reads it should not look for them."""
        state = listening()
        do(state, c.StartMaintenance(id_of(1), EventType.REBOOT, WEBS))
        moved = [structs.replace(vm, update_domain=1) if vm.name in ("web-0", "web-2") else vm for vm in VMS]
        do(state, c.ApplyFleet(declaration(*moved, digest="moved")))
        tick(state)
        assert reasons_of(state)[0] == "Its VMs have left update domain 0 of set/web."

    def test_one_of_several_while_under_way_is_named_at_the_end(self) -> None:
        state = listening()
        maintain(state, "web-0", "web-2")
        without(state, "web-2")
        let_pass(state, NOW)
        assert (steps_of(state), reasons_of(state)) == ([STEP_DONE], ["Gone meanwhile: web-2."])

    def test_both_reasons_are_told(self) -> None:
        state = listening()
        vms = [*VMS, structs.replace(VMS[4], name="web-4", address="10.0.1.4")]
        do(state, c.ApplyFleet(declaration(*vms, digest="more")))
        do(state, c.StartMaintenance(id_of(1), EventType.REBOOT, ("web-0", "web-2", "web-4")))
        without(state, "web-4")
        tick(state)
        without(state, "web-2")
        let_pass(state, NOW)
        assert reasons_of(state) == ["No longer there: web-4. Gone meanwhile: web-2."]

    def test_with_its_event_only_scheduled_the_event_is_cancelled(self) -> None:
        state = listening()
        maintain(state, *WEBS)
        without(state, "web-0", "web-2")
        tick(state)
        assert under_way(state) == [("web-3",), ("web-1",)]
        assert (steps_of(state)[0], reasons_of(state)[0]) == (SKIPPED, "Its VMs are gone.")

    def test_started_without_an_end_the_event_is_completed(self) -> None:
        """No driver will ever report the end of what it did to nobody."""
        state = state_of()
        maintain(state, *WEBS, policy=DRIVEN)
        without(state, "web-0", "web-2", policy=DRIVEN)
        tick(state, NOW, DRIVEN)
        assert under_way(state) == [("web-3",), ("web-1",)]
        assert (steps_of(state)[0], reasons_of(state)[0]) == (STEP_DONE, "Gone meanwhile: web-0, web-2.")

    def test_started_with_an_end_the_event_runs_to_it(self) -> None:
        state = state_of()
        maintain(state, *WEBS)
        without(state, "web-0", "web-2")
        tick(state, NOW.after(599 * SECOND))
        assert under_way(state) == [("web-0", "web-2")]
        tick(state, NOW.after(600 * SECOND))
        assert steps_of(state)[0] is STEP_DONE

    def test_one_that_is_deleted_while_its_event_is_scheduled_takes_the_event_along(self) -> None:
        state = listening()
        maintain(state, "batch_0")
        started(state, operate(state, "batch_0", EventType.TERMINATE))
        tick(state, NOW.after(30 * SECOND))
        assert (plan_of(state).status, reasons_of(state)) == (DONE, ["Gone: batch_0."])

    def test_all_at_once_and_the_plan_is_over(self) -> None:
        state = listening()
        maintain(state, *WEBS, settle=60 * SECOND)
        without(state, *WEBS)
        let_pass(state, NOW)
        assert (plan_of(state).status, set(steps_of(state))) == (DONE, {SKIPPED})


class TestMoving:
    """The fleet is declared anew while a plan is under way."""

    def elsewhere(self, state: State, now: Instant = NOW) -> None:
        """web-0 stands alone now."""
        moved = [Vm("web-0", "10.0.1.0") if vm.name == "web-0" else vm for vm in VMS]
        do(state, c.ApplyFleet(declaration(*moved, digest="moved")), now)

    def test_an_event_that_follows_its_vm_to_another_scope_is_still_its_steps_event(self) -> None:
        state = listening()
        maintain(state, "web-0")
        self.elsewhere(state)
        assert event_on(state, "web-0").scope == "vm/web-0"
        let_pass(state, NOW)
        assert (plan_of(state).status, steps_of(state), state.unprocessed_outcomes) == (DONE, [STEP_DONE], {})

    def test_so_is_one_that_had_started(self) -> None:
        state = state_of()
        maintain(state, "web-0")
        self.elsewhere(state)
        let_pass(state, NOW)
        assert (plan_of(state).status, steps_of(state)) == (DONE, [STEP_DONE])

    def test_an_event_whose_vms_part_is_cancelled_and_its_step_skipped(self) -> None:
        state = listening()
        maintain(state, "web-0", "web-2")
        self.elsewhere(state)
        tick(state)
        assert (steps_of(state), reasons_of(state)) == ([SKIPPED], ["Its VMs are no longer in one update domain."])

    def test_a_vm_elsewhere_before_its_step_is_skipped(self) -> None:
        state = listening()
        do(state, c.StartMaintenance(id_of(1), EventType.REBOOT, ("web-0",)))
        self.elsewhere(state)
        tick(state)
        assert (plan_of(state).status, steps_of(state)) == (DONE, [SKIPPED])


class TestDraining:
    """A host is emptied by live migrations; who has left it by other ways is not moved once more."""

    ON_HOST_1 = ("alone", "zonal", "web-0", "web-2", "web-3")

    def drain(self, state: State) -> None:
        do(state, c.StartMaintenance(id_of(1), EventType.FREEZE, self.ON_HOST_1, Cause.LIVE_MIGRATION, at_once=1))

    def test_everybody_has_left_at_the_end(self) -> None:
        state = listening()
        self.drain(state)
        let_pass(state, NOW)
        assert (plan_of(state).status, state.fleet.on_host("host-1")) == (DONE, [])

    def test_a_vm_that_left_before_its_step_is_skipped_with_a_reason_and_moved_once(self) -> None:
        state = listening()
        self.drain(state)
        do(state, c.OperateVm(id_of(2), "zonal", EventType.REDEPLOY))
        started(state, event_on(state, "zonal"))
        tick(state, NOW.after(600 * SECOND))
        host = state.fleet.vms["zonal"].host
        let_pass(state, NOW.after(600 * SECOND))
        skipped = [(step.resources, step.reason) for step in plan_of(state).steps if step.status is SKIPPED]
        assert skipped == [(("zonal",), "Its VMs have left host-1.")]
        assert state.fleet.vms["zonal"].host == host != "host-1"

    def test_one_of_several_that_left_before_their_step_is_left_out_and_named(self) -> None:
        state = listening()
        do(state, c.StartMaintenance(id_of(1), EventType.FREEZE, ("web-0", "web-2"), Cause.LIVE_MIGRATION))
        apply(state, t.VmsPut((state.fleet.vms["web-2"].moved_to("host-2"),)))
        tick(state)
        assert (under_way(state), reasons_of(state)) == ([("web-0",)], ["No longer there: web-2."])

    def test_an_event_that_waits_is_taken_back_when_its_vm_leaves(self) -> None:
        state = state_of()
        do(state, c.EnableScope("alone"))
        maintain(state, "alone", type=EventType.FREEZE, cause=Cause.LIVE_MIGRATION)
        operate(state, "alone", EventType.REDEPLOY, number=2)
        started(state, state.events[id_of(2)])
        tick(state, NOW.after(600 * SECOND))
        assert (steps_of(state), reasons_of(state)) == ([SKIPPED], ["Its VMs have left host-1."])

    def test_but_not_as_long_as_another_of_its_vms_is_still_there(self) -> None:
        state = listening()
        maintain(state, "web-0", "web-2", type=EventType.FREEZE, cause=Cause.LIVE_MIGRATION)
        operate(state, "web-0", EventType.REDEPLOY, number=2)
        started(state, state.events[id_of(2)])
        tick(state, NOW.after(600 * SECOND))
        assert under_way(state) == [("web-0", "web-2")]
        host = state.fleet.vms["web-0"].host
        let_pass(state, NOW.after(600 * SECOND))
        assert state.fleet.vms["web-0"].host == host
        assert state.fleet.vms["web-2"].host != "host-1"

    def test_a_reboot_hits_its_vms_wherever_they_are(self) -> None:
        state = listening()
        do(state, c.StartMaintenance(id_of(1), EventType.REBOOT, ("alone",)))
        apply(state, t.VmsPut((state.fleet.vms["alone"].moved_to("host-2"),)))
        tick(state)
        assert under_way(state) == [("alone",)]


class TestHeldByWhatIsGone:
    """What a driver was to end and whose VMs are gone holds nobody up, whoever has raised it."""

    def test_a_failure_of_a_host_whose_vm_vanished(self) -> None:
        state = listening()
        do(state, c.FailHost("host-2", id_of(77)), NOW, DRIVEN)
        without(state, "web-1", policy=DRIVEN)
        maintain(state, "web-0", policy=DRIVEN)
        tick(state, NOW.after(900 * SECOND), DRIVEN)
        assert event_on(state, "web-0").phase is Phase.STARTED

    def test_one_whose_vm_was_deleted(self) -> None:
        state = listening()
        event = schedule(state, "web-1", number=2)
        approve(state, event)
        tick(state, NOW, DRIVEN)
        do(state, c.OperateVm(id_of(3), "web-1", EventType.TERMINATE), NOW, DRIVEN)
        assert event.id not in state.events

    def test_but_not_as_long_as_one_of_its_vms_is_there(self) -> None:
        state = listening()
        event = schedule(state, "web-1", "web-3", number=2)
        approve(state, event)
        tick(state, NOW, DRIVEN)
        without(state, "web-1", policy=DRIVEN)
        assert state.events[event.id].phase is Phase.STARTED

    def test_one_that_begins_when_its_vm_is_gone_is_over_at_once(self) -> None:
        state = listening()
        event = schedule(state, "web-1", number=2)
        without(state, "web-1", policy=DRIVEN)
        tick(state, NOW.after(900 * SECOND), DRIVEN)
        assert event.id not in state.events

    def test_an_eviction_that_takes_its_vm_away_ends_once(self) -> None:
        state = listening()
        event = evict(state, "spot")
        approve(state, event)
        tick(state, NOW, DRIVEN)
        assert do(state, c.ReportImpact(event.id), NOW, DRIVEN) == [
            t.EventCompleted(event.id, "vm/spot"),
            t.VmsRemoved(("spot",)),
        ]


class TestMemory:
    """Plans that are over are kept, but not without bound (S24)."""

    @pytest.fixture(autouse=True)
    def keep_two(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("duenotice.domain.apply.MAINTENANCES_KEPT", 2)

    def test_only_the_last_to_be_over_are_kept(self) -> None:
        """The first begun is the last to end, and is kept."""
        state, now = listening(), NOW
        maintain(state, *WEBS, number=1, now=now)
        for number in (2, 3):
            maintain(state, "alone", number=number, now=now)
            do(state, c.CancelMaintenance(id_of(number)), now)
        now = let_pass(state, now)
        maintain(state, "alone", number=4, now=now)
        assert list(state.maintenances) == [id_of(3), id_of(1), id_of(4)]

    def test_of_large_plans_that_are_over_only_the_last_has_its_steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The others have a tally, also after a restart."""
        monkeypatch.setattr("duenotice.domain.apply.STEPS_KEPT", 1)
        state = listening()
        maintain(state, *WEBS, number=1)
        whole = state.plans[id_of(1)].tally()
        do(state, c.CancelMaintenance(id_of(1)))
        assert (whole.groups, whole.groups_in_all, sum(whole.steps), sum(whole.vms)) == (("set/web",), 1, 3, 4)
        maintain(state, "alone", number=2)
        do(state, c.CancelMaintenance(id_of(2)))
        assert len(state.maintenances[id_of(1)].steps) == 3, "a small plan lets go of nothing"
        maintain(state, "zonal", "adrift", number=3)
        tally = state.plans[id_of(1)].tally()
        do(state, c.CancelMaintenance(id_of(3)))
        plans = state.maintenances
        assert [len(plan.steps) for plan in plans.values()] == [0, 1, 2]
        assert plans[id_of(1)].tally == state.plans[id_of(1)].tally() == tally
        assert tally.steps == (2, 0, 0, 0, 1) and tally.ended is not None
        assert restore(take(state)).maintenances == plans
        with pytest.raises(Conflict, match="is cancelled already"):
            do(state, c.CancelMaintenance(id_of(1)))

    def test_a_large_plan_that_still_hits_keeps_its_steps_until_it_does_not(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("duenotice.domain.apply.STEPS_KEPT", 1)
        state, now = listening(), NOW
        maintain(state, *WEBS, number=1)
        now = NOW.after(900 * SECOND)
        tick(state, now)
        for number, names in ((1, ()), (2, ("alone", "zonal"))):
            if names:
                maintain(state, *names, number=number, now=now)
            do(state, c.CancelMaintenance(id_of(number)), now)
        assert [len(plan.steps) for plan in state.maintenances.values()] == [3, 2]
        let_pass(state, now)
        assert [len(plan.steps) for plan in state.maintenances.values()] == [0, 2]
        assert state.plans[id_of(1)].tally().steps == (2, 0, 1, 0, 0)
        assert (state.plans_by_group, state.step_of_event) == ({}, {})

    def test_the_steps_of_a_plan_that_failed_long_ago_are_not_tried_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("duenotice.domain.apply.STEPS_KEPT", 0)
        state = listening()
        maintain(state, "alone", number=1)
        (event,) = state.events.values()
        do(state, c.ApproveEvents((event.id,)))
        tick(state)
        do(state, c.ReportImpact(event.id, "It did not boot."))
        tick(state)
        assert state.plans[id_of(1)].plan.status is Status.FAILED
        maintain(state, "zonal", number=2)
        do(state, c.CancelMaintenance(id_of(2)))
        with pytest.raises(Conflict, match="not kept any more"):
            do(state, c.RetryMaintenance(id_of(1)))

    def test_an_open_plan_is_never_forgotten(self) -> None:
        state = listening()
        for number, name in enumerate(("alone", "zonal", "adrift", "spot", "web-0"), 1):
            maintain(state, name, number=number)
        assert len(state.maintenances) == 5

    def test_what_becomes_of_the_events_of_a_forgotten_plan_is_not_kept_either(self) -> None:
        state = state_of()
        for number, name in enumerate(("alone", "zonal", "adrift", "spot"), 1):
            maintain(state, name, number=number)
            do(state, c.CancelMaintenance(id_of(number)))
        assert list(state.maintenances) == [id_of(2), id_of(3), id_of(4)]
        let_pass(state, NOW)
        assert (state.events, state.unprocessed_outcomes) == ({}, {})

    def test_an_end_that_nobody_has_looked_at_yet_goes_with_its_plan(self) -> None:
        state = listening()
        for number, name in enumerate(("alone", "zonal", "adrift"), 1):
            maintain(state, name, number=number)
            do(state, c.CancelMaintenance(id_of(number)))
        assert len(state.unprocessed_outcomes) == 1
        do(state, c.StartMaintenance(id_of(4), EventType.REBOOT, ("web-0",)))
        assert len(state.maintenances) == 3
        let_pass(state, NOW)
        assert state.unprocessed_outcomes == {}


def test_a_plan_goes_on_although_it_is_not_known_what_became_of_an_event() -> None:
    """Nothing writes such a state, but a tick that fails would stop the whole service."""
    state = listening()
    maintain(state, *WEBS)
    do(state, c.CancelEvent(event_on(state, "web-0").id))
    lost = restore(structs.replace(take(state), unprocessed_outcomes=()))
    tick(lost)
    assert (steps_of(lost)[0], reasons_of(lost)[0]) == (SKIPPED, "What happened to its event is not known.")
    let_pass(lost, NOW)
    assert plan_of(lost).status is DONE


def test_a_step_that_changes_leaves_alone_who_has_read_the_plan_before() -> None:
    """Readers keep the value they were given, although steps are changed in place for speed."""
    state = listening()
    before = maintain(state, *WEBS)
    apply(state, t.StepEnded(id_of(1), 0, STEP_DONE, NOW.steady))
    apply(state, t.StepEnded(id_of(1), 1, SKIPPED, NOW.steady, "Why."))
    assert [step.status for step in before.steps] == [UNDER_WAY, WAITING, WAITING]
    assert steps_of(state) == [STEP_DONE, SKIPPED, WAITING]


def test_an_operators_own_event_beside_a_plan_is_none_of_its_business() -> None:
    state = listening()
    schedule(state, "web-1")
    maintain(state, "web-0")
    let_pass(state, NOW)
    assert (plan_of(state).status, state.unprocessed_outcomes) == (DONE, {})


def test_the_demo_set_has_what_these_tests_need() -> None:
    assert {vm.update_domain for vm in VMS if vm.group == WEB.key} == {0, 1}


class TestByFaultDomain:
    """Work without a reboot may take one fault domain at a time (G01, S11)."""

    VMS = tuple(
        Vm(f"w-{n}", f"10.9.0.{n}", WEB.key, update_domain=n // 2, fault_domain=n % 2, host="host-1") for n in range(4)
    )

    def begun(self) -> State:
        state = state_of(*self.VMS)
        do(state, c.EnableScope("w-0"))
        maintain(state, *(vm.name for vm in self.VMS), type=EventType.FREEZE, by=By.FAULT_DOMAIN)
        return state

    def now_at(self, minutes: int) -> Instant:
        return NOW.after(minutes * MINUTE)

    def test_both_update_domains_of_a_fault_domain_are_hit_together_and_the_next_waits(self) -> None:
        state = self.begun()
        assert [event.resources for event in state.events.values()] == [("w-0",), ("w-2",)]
        tick(state, self.now_at(15))
        assert {event.phase for event in state.events.values()} == {Phase.STARTED}
        tick(state, self.now_at(25))
        assert [event.resources for event in state.events.values()] == [("w-1",), ("w-3",)]

    def test_an_event_of_one_update_domain_waits_for_it_and_the_other_way_round(self) -> None:
        """Neither kind of domain says anything about the other."""
        state = self.begun()
        tick(state, self.now_at(15))
        other = schedule(state, "w-1", number=77, now=self.now_at(15))
        do(state, c.ApproveEvents((other.id,)), self.now_at(15))
        tick(state, self.now_at(15))
        assert state.events[other.id].phase is Phase.SCHEDULED
        tick(state, self.now_at(25))
        assert state.events[other.id].phase is Phase.STARTED
        turn = [event.id for event in state.events.values() if event.id != other.id]
        do(state, c.ApproveEvents(tuple(turn)), self.now_at(25))
        tick(state, self.now_at(25))
        assert {state.events[event_id].phase for event_id in turn} == {Phase.SCHEDULED}

    @pytest.mark.parametrize("changed", [{"fault_domain": 0}, {"update_domain": 0}])
    def test_a_vm_that_has_left_its_place_is_left_out(self, changed: dict[str, int]) -> None:
        """Its event would hit another fault domain, or two update domains (S10)."""
        state = self.begun()
        vms = [structs.replace(vm, **changed) if vm.name == "w-3" else vm for vm in self.VMS]
        do(state, c.ApplyFleet(declaration(*vms, digest="changed")))
        tick(state, self.now_at(15))
        tick(state, self.now_at(25))
        assert [event.resources for event in state.events.values()] == [("w-1",)]
        (step,) = (step for step in state.maintenances[id_of(1)].steps if step.resources == ("w-3",))
        assert step.reason == "Its VMs have left fault domain 1 of set/web."

    @pytest.mark.parametrize(
        ("place", "domain"),
        [({"group": None, "update_domain": None}, None), ({"group": SHOP.key, "update_domain": 1}, 1)],
    )
    def test_the_event_of_a_vm_that_moves_to_another_set_counts_by_update_domain_there(
        self, place: dict[str, object], domain: int | None
    ) -> None:
        """Fault domains of one set mean nothing in another."""
        state = self.begun()
        vms = [structs.replace(vm, **place) if vm.name == "w-0" else vm for vm in self.VMS]
        do(state, c.ApplyFleet(declaration(*vms, digest="changed")))
        (event,) = (event for event in state.events.values() if event.resources == ("w-0",))
        assert (event.scope, event.domain) == (scope_of(state.fleet.vms["w-0"]), domain)

    @pytest.mark.parametrize("kind", [EventType.REBOOT, EventType.REDEPLOY])
    def test_what_reboots_does_not_go_by_fault_domain(self, kind: EventType) -> None:
        with pytest.raises(Refused, match="Only work without a reboot"):
            maintain(state_of(*self.VMS), "w-0", type=kind, by=By.FAULT_DOMAIN)
