"""How events come to be: what is asked for, what is refused (section G, B06, D01, D03, D04)."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest

from duenotice.clock import micros
from duenotice.domain.apply import apply
from duenotice.domain.commands import (
    Command,
    DegradeHost,
    EvictVm,
    FailHost,
    OperateVm,
    PostponeEvents,
    RepairHost,
    ScheduleEvent,
)
from duenotice.domain.event import LONGEST_DESCRIPTION, LONGEST_DURATION, Cause, EventType, Phase
from duenotice.domain.fleet import Condition
from duenotice.domain.policy import Policy
from duenotice.domain.raising import NOBODY_LISTENS
from duenotice.domain.snapshot import take
from duenotice.domain.state import State
from duenotice.domain.transitions import EventCancelled, EventRaised, HostsPut, OperationPerformed, VmsPut, VmsRemoved
from duenotice.errors import Conflict, DuenoticeError, NotFound, Refused
from tests.unit.domain.build import (
    DAY,
    NOW,
    POLICY,
    SECOND,
    SEED,
    degrade,
    do,
    evict,
    fail,
    id_of,
    listening,
    operate,
    schedule,
    started,
    state_of,
    tick,
)

REBOOT, REDEPLOY, TERMINATE = EventType.REBOOT, EventType.REDEPLOY, EventType.TERMINATE


def refused(state: State, command: Command, kind: type[DuenoticeError], words: str) -> str:
    """The hint of a refusal that has changed nothing (S6)."""
    before = take(state)
    with pytest.raises(kind, match=words) as refusal:
        do(state, command)
    assert take(state) == before
    assert refusal.value.hint
    return refusal.value.hint


class TestSchedule:
    """An operator raises an event."""

    def test_it_is_scheduled_for_as_soon_as_its_notice_allows(self) -> None:
        event = schedule(listening(), "alone")
        assert (event.phase, event.approved_by) == (Phase.SCHEDULED, "")
        assert event.not_before == NOW.at + timedelta(minutes=15)
        assert event.notice_ends == NOW.steady + 900 * SECOND

    def test_a_moment_asked_for_is_kept_in_both_faces_of_time(self) -> None:
        event = schedule(listening(), "alone", not_before=NOW.at + timedelta(hours=2))
        assert event.not_before == NOW.at + timedelta(hours=2)
        assert event.notice_ends == NOW.steady + 7200 * SECOND

    def test_the_time_a_commit_takes_is_added_to_the_notice(self) -> None:
        state = listening()
        command = ScheduleEvent(id_of(1), REBOOT, ("alone",))
        do(state, command, policy=Policy(commit_allowance=micros(2.5)))
        assert state.events[id_of(1)].not_before == NOW.at + timedelta(seconds=903)

    def test_a_moment_asked_for_must_leave_that_time_too(self) -> None:
        state = listening()
        command = ScheduleEvent(id_of(1), REBOOT, ("alone",), NOW.at + timedelta(seconds=900))
        with pytest.raises(Refused, match="minimum notice of 900 seconds"):
            do(state, command, policy=Policy(commit_allowance=SECOND))

    @pytest.mark.parametrize("not_before", [NOW.at + timedelta(minutes=14), NOW.at + timedelta(days=400)])
    def test_too_soon_and_too_far_are_refused(self, not_before: datetime) -> None:
        refused(listening(), ScheduleEvent(id_of(1), REBOOT, ("alone",), not_before), Refused, "NotBefore")

    def test_it_hits_the_vms_named_in_their_order_and_knows_their_update_domain(self) -> None:
        event = schedule(listening(), "web-2", "web-0")
        assert (event.scope, event.resources, event.update_domain) == ("set/web", ("web-2", "web-0"), 0)

    @pytest.mark.parametrize(
        "vms",
        [
            ("web-0", "web-1"),  # two update domains
            ("alone", "zonal"),  # two standalone VMs
            ("web-0", "Front_IN_0"),  # two groups
            ("batch_0", "batch_100"),  # two placement groups
        ],
    )
    def test_vms_of_several_update_domains_or_scopes_are_refused(self, vms: tuple[str, ...]) -> None:
        refused(
            listening(), ScheduleEvent(id_of(1), REBOOT, vms), Refused, f"{vms[0]} and {vms[1]} are not in the same"
        )

    @pytest.mark.parametrize("vms", [(), ("alone", "alone")])
    def test_no_vm_or_one_named_twice_is_refused(self, vms: tuple[str, ...]) -> None:
        refused(listening(), ScheduleEvent(id_of(1), REBOOT, vms), Refused, "each named once")

    def test_an_unknown_vm_is_not_found(self) -> None:
        refused(listening(), ScheduleEvent(id_of(1), REBOOT, ("nobody",)), NotFound, "no VM named 'nobody'")

    def test_an_id_in_use_is_refused(self) -> None:
        state = listening()
        schedule(state, "alone")
        refused(state, ScheduleEvent(id_of(1), REBOOT, ("zonal",)), Conflict, "already an event")

    def test_preempt_is_for_spot_vms_and_is_an_eviction(self) -> None:
        state = listening()
        refused(state, ScheduleEvent(id_of(1), EventType.PREEMPT, ("alone",)), Refused, "not a spot VM")
        event = schedule(state, "spot", type=EventType.PREEMPT)
        assert (event.cause, event.description) == (Cause.EVICTION, "")
        assert event.not_before == NOW.at + timedelta(seconds=30)

    def test_terminate_is_not_for_spot_vms_and_is_a_deletion(self) -> None:
        state = listening()
        refused(state, ScheduleEvent(id_of(1), TERMINATE, ("spot",)), Refused, "never gets Terminate")
        event = schedule(state, "batch_0", type=TERMINATE)
        assert event.cause is Cause.DELETION
        assert event.not_before == NOW.at + timedelta(minutes=7)  # as its scale set says

    def test_words_and_duration_of_the_operator_are_kept(self) -> None:
        state = listening()
        do(state, ScheduleEvent(id_of(1), REBOOT, ("alone",), description="Rack move", duration=0))
        assert (state.events[id_of(1)].description, state.events[id_of(1)].duration) == ("Rack move", 0)

    def test_without_them_a_freeze_is_nine_seconds_and_the_rest_unknown(self) -> None:
        state = listening()
        assert schedule(state, "alone", type=EventType.FREEZE, number=1).duration == 9
        assert schedule(state, "alone", type=REBOOT, number=2).duration == -1

    @pytest.mark.parametrize("duration", [-1, 0, LONGEST_DURATION])
    def test_durations_in_bounds_are_taken(self, duration: int) -> None:
        state = listening()
        do(state, ScheduleEvent(id_of(1), REBOOT, ("alone",), duration=duration))
        assert state.events[id_of(1)].duration == duration

    @pytest.mark.parametrize("duration", [-2, LONGEST_DURATION + 1])
    def test_durations_out_of_bounds_are_refused(self, duration: int) -> None:
        refused(listening(), ScheduleEvent(id_of(1), REBOOT, ("alone",), duration=duration), Refused, "out of bounds")

    def test_a_description_may_be_long_but_not_endless(self) -> None:
        state = listening()
        do(state, ScheduleEvent(id_of(1), REBOOT, ("alone",), description="x" * LONGEST_DESCRIPTION))
        command = ScheduleEvent(id_of(2), REBOOT, ("alone",), description="x" * (LONGEST_DESCRIPTION + 1))
        refused(state, command, Refused, "has 1001 characters")

    def test_a_vm_may_have_several_events(self) -> None:
        state = listening()
        schedule(state, "alone", number=1)
        schedule(state, "alone", type=EventType.FREEZE, number=2)
        assert len(state.document("vm/alone").events) == 2


class TestNobodyListens:
    """While a scope is off (F03)."""

    def test_maintenance_is_approved_in_the_name_of_nobody_and_starts_at_once(self) -> None:
        state = state_of()
        assert schedule(state, "alone").approved_by == NOBODY_LISTENS
        tick(state)
        assert state.events[id_of(1)].phase is Phase.STARTED

    def test_a_moment_that_the_operator_asked_for_is_kept_all_the_same(self) -> None:
        state = state_of()
        schedule(state, "alone", not_before=NOW.at + timedelta(hours=1))
        tick(state)
        assert state.events[id_of(1)].phase is Phase.SCHEDULED

    def test_an_eviction_goes_ahead(self) -> None:
        assert evict(state_of(), "spot").approved_by == NOBODY_LISTENS

    def test_a_restart_raises_no_event_and_is_only_remembered(self) -> None:
        state = state_of()
        assert do(state, OperateVm(id_of(1), "alone", REBOOT)) == [OperationPerformed("alone", "reboot")]
        assert not state.events

    def test_a_redeploy_moves_the_vm_at_once(self) -> None:
        state = state_of()
        done = do(state, OperateVm(id_of(1), "alone", REDEPLOY))
        assert [type(change) for change in done] == [OperationPerformed, VmsPut]
        assert state.fleet.vms["alone"].host == "host-2"

    @pytest.mark.parametrize("vm", ["alone", "batch_0"])
    def test_a_delete_removes_the_vm_at_once(self, vm: str) -> None:
        state = state_of()
        done = do(state, OperateVm(id_of(1), vm, TERMINATE))
        assert done == [OperationPerformed(vm, "terminate"), VmsRemoved((vm,))]
        assert vm not in state.fleet.vms

    def test_a_scope_next_door_that_listens_makes_no_difference(self) -> None:
        state = listening("web-0", "zonal")
        assert do(state, OperateVm(id_of(1), "alone", REBOOT)) == [OperationPerformed("alone", "reboot")]


class TestOperate:
    """A user acts on a VM whose scope listens (G02, G05)."""

    @pytest.mark.parametrize(("event_type", "minutes"), [(REBOOT, 15), (REDEPLOY, 10)])
    def test_it_raises_an_event_of_the_users(self, event_type: EventType, minutes: int) -> None:
        event = operate(listening(), "web-0", event_type)
        assert (event.type, event.cause, event.resources) == (event_type, Cause.USER, ("web-0",))
        assert event.not_before == NOW.at + timedelta(minutes=minutes)
        assert event.description.endswith("as requested by authorized user.")

    def test_a_delete_with_terminate_notifications_gives_the_notice_of_the_scale_set(self) -> None:
        event = operate(listening(), "batch_0", TERMINATE)
        assert (event.type, event.cause) == (TERMINATE, Cause.DELETION)
        assert event.not_before == NOW.at + timedelta(minutes=7)

    @pytest.mark.parametrize("vm", ["alone", "web-0", "plain_0", "batch_101"])
    def test_a_delete_without_them_or_of_a_spot_vm_is_done_at_once(self, vm: str) -> None:
        state = listening()
        assert do(state, OperateVm(id_of(1), vm, TERMINATE))[-1] == VmsRemoved((vm,))
        assert not state.events

    def test_the_same_operation_twice_is_refused_naming_the_first(self) -> None:
        state = listening()
        operate(state, "alone", REBOOT)
        refused(state, OperateVm(id_of(2), "alone", REBOOT), Conflict, f"under way: event {id_of(1)}")

    def test_another_operation_or_another_vm_is_not_the_same(self) -> None:
        state = listening()
        operate(state, "web-0", REBOOT, number=1)
        operate(state, "web-0", REDEPLOY, number=2)
        operate(state, "web-2", REBOOT, number=3)
        assert len(state.events) == 3

    def test_maintenance_of_the_same_type_is_no_obstacle(self) -> None:
        state = listening()
        schedule(state, "alone", number=1)
        assert operate(state, "alone", REBOOT, number=2)

    def test_an_id_in_use_is_refused(self) -> None:
        state = listening()
        schedule(state, "alone")
        refused(state, OperateVm(id_of(1), "zonal", REBOOT), Conflict, "already an event")

    def test_an_unknown_vm_is_not_found(self) -> None:
        refused(listening(), OperateVm(id_of(1), "nobody", REBOOT), NotFound, "no VM named")


class TestLimit:
    """How many user operations may be scheduled at once (G03)."""

    def attempt(self, state: State, number: int, limit: int) -> None:
        vm = ("alone", "zonal", "web-0", "web-1")[number]
        do(state, OperateVm(id_of(number), vm, REBOOT), policy=Policy(user_operations_limit=limit))

    def test_the_one_above_the_limit_is_refused(self) -> None:
        state = listening()
        self.attempt(state, 0, limit=2)
        self.attempt(state, 1, limit=2)
        with pytest.raises(Refused, match="2 user operations are scheduled; 1 more would be over the limit of 2"):
            self.attempt(state, 2, limit=2)

    def test_what_has_started_counts_no_more(self) -> None:
        state = listening()
        self.attempt(state, 0, limit=1)
        started(state, state.events[id_of(0)])
        self.attempt(state, 1, limit=1)
        assert len(state.events) == 2

    def test_maintenance_does_not_count(self) -> None:
        state = listening()
        schedule(state, "web-3", number=9)
        self.attempt(state, 0, limit=1)
        assert len(state.events) == 2

    def test_deletions_do_count(self) -> None:
        state = listening()
        operate(state, "batch_0", TERMINATE, number=9)
        with pytest.raises(Refused, match="1 user operations are scheduled"):
            self.attempt(state, 0, limit=1)

    def test_zero_is_no_limit(self) -> None:
        state = listening()
        for number in range(4):
            self.attempt(state, number, limit=0)
        assert len(state.events) == 4


class TestEvict:
    """The platform takes spot VMs back (G04)."""

    def test_a_spot_vm_is_given_thirty_seconds(self) -> None:
        event = evict(listening(), "spot")
        assert (event.type, event.cause, event.description) == (EventType.PREEMPT, Cause.EVICTION, "")
        assert event.not_before == NOW.at + timedelta(seconds=30)

    def test_a_spot_instance_of_a_scale_set_too(self) -> None:
        assert evict(listening(), "batch_101").scope == "scale-set/batch/1"

    def test_any_other_vm_is_refused(self) -> None:
        refused(listening(), EvictVm(id_of(1), "alone"), Refused, "not a spot VM")

    def test_twice_is_refused(self) -> None:
        state = listening()
        evict(state, "spot")
        refused(state, EvictVm(id_of(2), "spot"), Conflict, "under way")


class TestDegradedHost:
    """A failure is predicted (D03)."""

    def test_each_vm_of_the_host_gets_its_own_move_days_ahead(self) -> None:
        state = listening()
        events = degrade(state, "host-1")
        assert [event.resources for event in events] == [("alone",), ("zonal",), ("web-0",), ("web-2",), ("web-3",)]
        for event in events:
            assert (event.type, event.cause, event.host) == (REDEPLOY, Cause.DEGRADED_HOST, "host-1")
            assert event.not_before == NOW.at + timedelta(days=7)
            assert event.approved_by == ""
        assert state.fleet.hosts["host-1"].condition is Condition.DEGRADED

    def test_higher_risk_gives_less_notice_and_the_commit_is_allowed_for(self) -> None:
        state = listening()
        do(state, DegradeHost("host-3", 600 * SECOND, SEED), policy=Policy(commit_allowance=SECOND))
        (event,) = state.events.values()
        assert event.not_before == NOW.at + timedelta(seconds=601)

    @pytest.mark.parametrize("notice", [600 * SECOND - 1, 7 * DAY + 1, -1])
    def test_less_than_the_minimum_or_more_than_seven_days_is_refused(self, notice: int) -> None:
        refused(listening(), DegradeHost("host-1", notice, SEED), Refused, "out of bounds")

    @pytest.mark.parametrize("notice", [7 * DAY, 2 * DAY])
    def test_predicting_it_again_at_no_higher_risk_changes_nothing(self, notice: int) -> None:
        state = listening()
        first = degrade(state, "host-1", 2 * DAY)
        assert do(state, DegradeHost("host-1", notice, id_of(7))) == [HostsPut((state.fleet.hosts["host-1"],))]
        assert list(state.events.values()) == first

    def test_a_higher_risk_is_told_by_other_events_in_place_of_the_first(self) -> None:
        """NotBefore itself never moves earlier (D02)."""
        state = listening()
        first = degrade(state, "host-3")
        do(state, DegradeHost("host-3", DAY, id_of(7)))
        (event,) = state.events.values()
        assert event.id not in [other.id for other in first]
        assert (event.resources, event.not_before) == (first[0].resources, NOW.at + timedelta(days=1))

    def test_a_move_that_has_started_is_not_told_again(self) -> None:
        state = listening()
        (first,) = degrade(state, "host-3", 600 * SECOND)
        tick(state, NOW.after(600 * SECOND))
        do(state, DegradeHost("host-3", 600 * SECOND, id_of(7)), NOW.after(601 * SECOND))
        assert list(state.events) == [first.id]

    def test_ids_are_fresh_guids_that_follow_from_the_seed(self) -> None:
        events = degrade(listening(), "host-1")
        assert [event.id for event in events] == [event.id for event in degrade(listening(), "host-1")]
        assert len({UUID(event.id) for event in events}) == 5
        assert all(event.id == event.id.upper() for event in events)

    def test_an_empty_host_is_only_marked(self) -> None:
        state = listening()
        do(state, OperateVm(id_of(1), "spot", TERMINATE))
        assert degrade(state, "host-3") == []
        assert state.fleet.hosts["host-3"].condition is Condition.DEGRADED

    def test_an_unknown_host_is_not_found(self) -> None:
        refused(listening(), DegradeHost("host-9", DAY, SEED), NotFound, "no host named 'host-9'")

    def test_a_user_who_redeploys_in_time_is_rid_of_it(self) -> None:
        state = listening()
        degrade(state, "host-1")
        started(state, operate(state, "alone", REDEPLOY))
        tick(state, NOW.after(600 * SECOND))
        assert state.fleet.vms["alone"].host == "host-2"
        assert state.document("vm/alone").events == ()
        assert len(state.document("vm/zonal").events) == 1

    def test_repair_takes_the_moves_back(self) -> None:
        state = listening()
        events = degrade(state, "host-1")
        other = schedule(state, "alone")
        done = do(state, RepairHost("host-1"))
        cancelled = {change.event_id for change in done if isinstance(change, EventCancelled)}
        assert cancelled == {event.id for event in events}
        assert list(state.events) == [other.id]
        assert state.fleet.hosts["host-1"].condition is Condition.HEALTHY

    def test_a_move_that_has_begun_is_not_taken_back(self) -> None:
        state = listening()
        degrade(state, "host-3")
        (event,) = state.events.values()
        started(state, event)
        do(state, RepairHost("host-3"))
        assert state.events[event.id].phase is Phase.STARTED


class TestFailedHost:
    """A failure has happened (D04)."""

    def test_events_are_born_started_one_per_scope_and_update_domain(self) -> None:
        state = listening()
        events = fail(state, "host-1")
        assert {event.resources for event in events} == {("alone",), ("zonal",), ("web-0", "web-2"), ("web-3",)}
        for event in events:
            assert (event.type, event.cause, event.phase) == (REBOOT, Cause.HOST_FAILURE, Phase.STARTED)
            assert (event.started_at, event.impact_ends) == (NOW.at, NOW.steady + 600 * SECOND)
            assert event.description == "Virtual machine has encountered a failure."
        assert state.fleet.hosts["host-1"].condition is Condition.FAILED

    def test_what_was_predicted_has_come_true_and_waits_no_more(self) -> None:
        state = listening()
        predicted = degrade(state, "host-1")
        done = do(state, FailHost("host-1", id_of(7)))
        assert [change.event_id for change in done if isinstance(change, EventCancelled)] == [e.id for e in predicted]
        assert all(event.cause is Cause.HOST_FAILURE for event in state.events.values())

    @pytest.mark.parametrize(
        "command",
        [
            FailHost("host-1", id_of(7)),
            RepairHost("host-1"),
            DegradeHost("host-1", micros(600), id_of(7)),
            OperateVm(id_of(7), "web-0", REDEPLOY),
        ],
    )
    def test_a_prediction_for_two_vms_is_taken_back_once(self, command: Command) -> None:
        """The operator's API makes none, but a change that came twice would stop the service."""
        state = state_of()
        both = schedule(state, "web-0", "web-2", cause=Cause.DEGRADED_HOST, not_before=NOW.at + timedelta(days=1))
        done = do(state, command)
        assert [change.event_id for change in done if isinstance(change, EventCancelled)] == [both.id]

    def test_its_vms_come_up_elsewhere(self) -> None:
        state = listening()
        fail(state, "host-1")
        tick(state, NOW.after(600 * SECOND))
        assert not state.events
        assert {state.fleet.vms[name].host for name in ("alone", "zonal", "web-0", "web-2", "web-3")} == {"host-2"}

    def test_it_asks_no_update_domain_whether_it_may(self) -> None:
        """A failure hits both update domains at once; only planned work is held back (S11)."""
        state = listening()
        fail(state, "host-1")
        assert sum(event.scope == "set/web" for event in state.events.values()) == 2

    def test_with_a_driver_it_lasts_until_reported(self) -> None:
        state = listening()
        do(state, FailHost("host-3", SEED), policy=Policy(simulated_impact=False))
        (event,) = state.events.values()
        assert event.impact_ends is None
        assert tick(state, NOW.after(DAY)) == []

    def test_a_host_that_has_failed_must_be_repaired_before_it_can_fail_or_degrade_again(self) -> None:
        state = listening()
        fail(state, "host-1")
        refused(state, FailHost("host-1", id_of(7)), Conflict, "has failed already")
        refused(state, DegradeHost("host-1", DAY, id_of(7)), Conflict, "has failed already")
        do(state, RepairHost("host-1"))
        assert do(state, FailHost("host-1", id_of(7)))

    def test_the_same_ask_twice_cannot_raise_an_event_twice(self) -> None:
        state = listening()
        fail(state, "host-1")
        do(state, RepairHost("host-1"))
        refused(state, FailHost("host-1", SEED), Conflict, "already an event")

    def test_an_unknown_host_is_not_found(self) -> None:
        refused(listening(), FailHost("host-9", SEED), NotFound, "no host named")
        refused(listening(), RepairHost("host-9"), NotFound, "no host named")


def test_every_event_raised_lies_in_one_update_domain_of_one_scope() -> None:
    """Resources of an event lie in one update domain (S10)."""
    state = listening()
    raised = [*degrade(state, "host-2"), *fail(state, "host-1"), schedule(state, "web-0", "web-2")]
    for event in raised:
        assert {state.fleet.vms[name].update_domain for name in event.resources} == {event.update_domain}


def test_a_rule_raises_with_what_it_is_given_and_invents_nothing() -> None:
    """The same command at the same moment on the same state gives the same transitions."""
    first, second = listening(), listening()
    command = ScheduleEvent(id_of(1), REBOOT, ("alone",))
    assert do(first, command, NOW, POLICY) == do(second, command, NOW, POLICY)
    assert isinstance(do(first, ScheduleEvent(id_of(2), REBOOT, ("alone",)))[0], EventRaised)


class TestPostponed:
    """What is seen late must not come out of the notice (S2)."""

    def test_both_faces_of_its_time_move_until_the_notice_is_whole_again(self) -> None:
        state, late = listening(), NOW.after(micros(7.5))
        event = schedule(state, "alone")
        do(state, PostponeEvents((event.id,), 2 * SECOND), late)
        later = state.events[event.id]
        assert later.not_before == NOW.at + timedelta(seconds=900 + 10)
        assert later.notice_ends == NOW.steady + 900 * SECOND + 10 * SECOND
        assert state.document("vm/alone").incarnation == 2

    def test_the_notice_is_the_one_of_its_group_even_if_some_of_its_vms_are_gone(self) -> None:
        state, late = listening(), NOW.after(SECOND)
        event = schedule(state, "batch_0", "batch_1", type=EventType.TERMINATE)
        apply(state, VmsRemoved(("batch_0",)))
        do(state, PostponeEvents((event.id,), 0), late)
        assert state.events[event.id].not_before == late.at + timedelta(seconds=420)

    def test_an_event_whose_vms_are_all_gone_gets_the_notice_of_its_type(self) -> None:
        state, late = listening(), NOW.after(SECOND)
        event = schedule(state, "alone")
        apply(state, VmsRemoved(("alone",)))
        do(state, PostponeEvents((event.id,), 0), late)
        assert state.events[event.id].not_before == late.at + timedelta(minutes=15)

    def test_what_has_enough_left_stays_as_it_is(self) -> None:
        """Days ahead, or just enough."""
        state = listening()
        tomorrow = schedule(state, "alone", not_before=NOW.at + timedelta(days=1))
        just = schedule(state, "zonal", number=2)
        assert do(state, PostponeEvents((tomorrow.id, just.id), SECOND)) == []

    def test_what_is_approved_started_or_gone_stays_as_it_is(self) -> None:
        state = listening()
        running = started(state, schedule(state, "alone"))
        assert do(state, PostponeEvents((running.id, id_of(9)), SECOND), NOW.after(60 * SECOND)) == []

    def test_it_is_due_at_its_new_moment_and_not_before(self) -> None:
        state = listening()
        event = schedule(state, "alone")
        do(state, PostponeEvents((event.id,), 0), NOW.after(8 * SECOND))
        assert tick(state, NOW.after(907 * SECOND)) == []
        assert tick(state, NOW.after(908 * SECOND)) != []
