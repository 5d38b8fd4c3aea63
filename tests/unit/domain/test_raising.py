"""How events come to be: what is asked for, what is refused (section G, B06, D01, D03, D04)."""

from datetime import datetime, timedelta

import pytest

from duenotice.clock import micros
from duenotice.domain.commands import (
    Command,
    EvictVm,
    OperateVm,
    ScheduleEvent,
)
from duenotice.domain.event import LONGEST_DESCRIPTION, LONGEST_DURATION, Cause, EventType, Phase
from duenotice.domain.policy import Policy
from duenotice.domain.records import EventRaised, OperationPerformed, VmsPut, VmsRemoved
from duenotice.domain.rules.creation import NOBODY_LISTENS
from duenotice.domain.snapshot import take
from duenotice.domain.state import State
from duenotice.errors import Conflict, DuenoticeError, NotFound, Refused
from tests.unit.domain.build import (
    NOW,
    POLICY,
    SECOND,
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
        for spot in ("spot", "batch_101"):
            refused(state, ScheduleEvent(id_of(1), TERMINATE, (spot,)), Refused, "never gets Terminate")
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


class TestAdvice:
    """2024-07-09: a spot VM is advised to move, where the service has the setting."""

    ADVICE = EventType.SPOT_REBALANCE_RECOMMENDATION

    @pytest.mark.parametrize("names", [("spot",), ("batch_101",)])
    def test_a_spot_vm_gets_it_once(self, names: tuple[str, ...]) -> None:
        state, policy = listening(), Policy(spot_rebalance=True)
        (raised,) = do(state, ScheduleEvent(id_of(1), self.ADVICE, names), policy=policy)
        assert isinstance(raised, EventRaised)
        told = raised.event
        assert (told.cause, told.approved_by, told.not_before) == (Cause.REBALANCE, "", NOW.at + timedelta(seconds=30))
        with pytest.raises(Conflict, match="under way"):
            do(state, ScheduleEvent(id_of(2), self.ADVICE, names), policy=policy)

    def test_no_other_vm_gets_it_and_none_without_the_setting(self) -> None:
        with pytest.raises(Refused, match="not a spot VM"):
            do(listening(), ScheduleEvent(id_of(1), self.ADVICE, ("alone",)), policy=Policy(spot_rebalance=True))
        assert "--spot-rebalance" in refused(
            listening(), ScheduleEvent(id_of(1), self.ADVICE, ("spot",)), Refused, "advice"
        )

    def test_it_is_not_approved_because_nobody_listens(self) -> None:
        """Nothing would go ahead by that."""
        state = state_of()
        do(state, ScheduleEvent(id_of(1), self.ADVICE, ("spot",)), policy=Policy(spot_rebalance=True))
        assert state.events[id_of(1)].approved_by == ""


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
