"""What an owner has approved beforehand starts at once (M09), and nothing else does."""

import pytest

from duenotice.domain import records as t
from duenotice.domain.apply import apply
from duenotice.domain.commands import ApplyFleet, DeleteInstances, OperateVm, SetEventsPolicy, StartMaintenance
from duenotice.domain.event import Cause, Event, EventType, Phase
from duenotice.domain.fleet import EventsPolicy, Group, Vm
from duenotice.domain.policy import Policy
from duenotice.domain.rules.creation import APPROVED_BEFOREHAND, AT_ONCE, NOBODY_LISTENS, in_force
from duenotice.domain.rules.preview import preview
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from duenotice.errors import InvariantBroken, NotFound, Refused
from tests.unit.domain.build import (
    NOW,
    POLICY,
    SECOND,
    SEED,
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

REBOOTS = EventsPolicy(user_initiated_reboot=True)
REDEPLOYS = EventsPolicy(user_initiated_redeploy=True)
ALL_DOWN = EventsPolicy(all_instances_down=True)
NO_REBOOTS = EventsPolicy(user_initiated_reboot=False)
KEPT = EventsPolicy(event_grid_and_resource_graph=True, scheduled_events_api_version="2020-07-01")


def with_policy(of: str, policy: EventsPolicy, state: State | None = None) -> State:
    state = listening() if state is None else state
    do(state, SetEventsPolicy(of, policy))
    return state


def seen(event: Event) -> tuple[Phase, str]:
    return event.phase, event.approved_by


AT_BIRTH = (Phase.STARTED, APPROVED_BEFOREHAND)
WAITS = (Phase.SCHEDULED, "")


class TestUserInitiated:
    def test_what_a_user_begins_is_born_started_if_the_owner_has_approved_it(self) -> None:
        state = with_policy("vm/alone", REBOOTS)
        before = state.incarnation("vm/alone")
        event = operate(state, "alone", EventType.REBOOT)
        assert seen(event) == AT_BIRTH
        assert (event.started_at, event.impact_ends) == (NOW.at, NOW.steady + 600 * SECOND)
        assert state.incarnation("vm/alone") == before + 1  # it was never Scheduled

    def test_it_ends_like_any_other(self) -> None:
        state = with_policy("vm/alone", REDEPLOYS)
        operate(state, "alone", EventType.REDEPLOY)
        tick(state, NOW.after(600 * SECOND))
        assert (state.events, state.fleet.vms["alone"].host) == ({}, "host-2")

    def test_a_driver_carries_it_out_if_there_is_one(self) -> None:
        state = with_policy("vm/alone", REBOOTS)
        do(state, OperateVm(id_of(1), "alone", EventType.REBOOT), policy=Policy(simulated_impact=False))
        assert state.events[id_of(1)].awaits_driver

    @pytest.mark.parametrize(
        ("policy", "type"),
        [
            (REBOOTS, EventType.REDEPLOY),
            (REDEPLOYS, EventType.REBOOT),
            (NO_REBOOTS, EventType.REBOOT),
            (KEPT, EventType.REBOOT),
            (ALL_DOWN, EventType.REBOOT),
        ],
    )
    def test_what_the_owner_has_not_approved_waits(self, policy: EventsPolicy, type: EventType) -> None:
        assert seen(operate(with_policy("vm/alone", policy), "alone", type)) == WAITS

    def test_maintenance_waits_whatever_users_may_do(self) -> None:
        state = with_policy("vm/alone", EventsPolicy(True, True))
        assert seen(schedule(state, "alone")) == WAITS
        assert seen(schedule(state, "alone", cause=Cause.USER, type=EventType.FREEZE, number=2)) == WAITS

    def test_a_delete_and_an_eviction_wait(self) -> None:
        state = with_policy("scale-set/batch", EventsPolicy(True, True))
        assert seen(operate(state, "batch_0", EventType.TERMINATE)) == WAITS
        assert seen(evict(with_policy("vm/spot", EventsPolicy(True, True)), "spot")) == WAITS

    def test_an_operator_who_asks_for_a_time_gets_it(self) -> None:
        state = with_policy("vm/alone", REBOOTS)
        assert seen(schedule(state, "alone", cause=Cause.USER)) == AT_BIRTH
        later = schedule(state, "alone", cause=Cause.USER, not_before=NOW.after(3600 * SECOND).at, number=2)
        assert seen(later) == WAITS

    def test_one_event_on_many_needs_the_wish_of_each(self) -> None:
        """Only role instances of a cloud service have one each."""
        state, both = listening(), ("Front_IN_0", "Front_IN_2")
        beside = Vm("Front_IN_2", "10.0.2.2", "service/shop", update_domain=0)
        do(state, ApplyFleet(declaration(*state.fleet.vms.values(), beside, digest="2")))
        with_policy("vm/Front_IN_0", REBOOTS, state)
        assert seen(schedule(state, *both, cause=Cause.USER)) == WAITS
        with_policy("vm/Front_IN_2", REBOOTS, state)
        assert seen(schedule(state, *both, cause=Cause.USER, number=2)) == AT_BIRTH

    def test_where_nobody_listens_the_policy_is_not_asked(self) -> None:
        state = with_policy("vm/alone", REBOOTS, state_of())
        assert schedule(state, "alone", cause=Cause.USER).approved_by == NOBODY_LISTENS

    def test_what_does_not_wait_does_not_count_for_the_limit(self) -> None:
        """Of operations that are scheduled at once (G03)."""
        state, one = with_policy("vm/alone", REBOOTS), Policy(user_operations_limit=1)
        operate(state, "zonal", EventType.REBOOT)
        do(state, OperateVm(id_of(2), "alone", EventType.REBOOT), policy=one)
        with pytest.raises(Refused):
            do(state, OperateVm(id_of(3), "adrift", EventType.REBOOT), policy=one)


class TestWhosePolicy:
    def test_a_set_says_it_for_its_vms(self) -> None:
        state = with_policy("set/web", REBOOTS)
        assert seen(operate(state, "web-0", EventType.REBOOT)) == AT_BIRTH
        assert in_force(state, state.fleet.vms["web-1"]) == REBOOTS

    @pytest.mark.parametrize(("vm", "owner"), [("web-0", "set/web"), ("batch_0", "scale-set/batch")])
    def test_one_vm_of_a_set_says_nothing_by_itself(self, vm: str, owner: str) -> None:
        """M14: it belongs to the set."""
        with pytest.raises(Refused, match=f"{vm} is in {owner}"):
            do(listening(), SetEventsPolicy(f"vm/{vm}", REBOOTS))

    def test_a_group_that_is_not_there_says_nothing(self) -> None:
        state = State()
        assert in_force(state, Vm("lost", "10.9.9.9", "set/gone")) == EventsPolicy()


class TestAllInstancesDown:
    """Nobody is up who could prepare or approve (docs/decisions/0013)."""

    def test_an_event_that_comes_while_its_vm_is_down_is_approved(self) -> None:
        state = with_policy("vm/alone", ALL_DOWN)
        started(state, schedule(state, "alone"))
        assert seen(schedule(state, "alone", number=2)) == (Phase.SCHEDULED, APPROVED_BEFOREHAND)
        tick(state)
        assert state.events[id_of(2)].phase is Phase.STARTED

    def test_what_a_user_begins_meanwhile_is_born_started(self) -> None:
        state = with_policy("vm/alone", ALL_DOWN)
        started(state, schedule(state, "alone"))
        assert seen(operate(state, "alone", EventType.REDEPLOY, number=2)) == AT_BIRTH

    def test_a_vm_that_is_frozen_is_not_down(self) -> None:
        state = with_policy("vm/alone", ALL_DOWN)
        started(state, schedule(state, "alone", type=EventType.FREEZE))
        assert seen(schedule(state, "alone", number=2)) == WAITS

    def test_a_vm_that_is_only_going_to_be_hit_is_up(self) -> None:
        state = with_policy("vm/alone", ALL_DOWN)
        schedule(state, "alone")
        assert seen(schedule(state, "alone", number=2)) == WAITS

    def test_nobody_is_down_in_a_scope_of_which_nothing_is_known(self) -> None:
        state = with_policy("vm/alone", ALL_DOWN)
        assert seen(schedule(state, "alone")) == WAITS

    def test_it_holds_unless_the_owner_says_otherwise(self) -> None:
        """M14: on by default, and one who says no gets the whole notice."""
        state = listening()
        started(state, schedule(state, "alone"))
        assert seen(schedule(state, "alone", number=2)) == (Phase.SCHEDULED, APPROVED_BEFOREHAND)
        with_policy("vm/alone", EventsPolicy(all_instances_down=False), state)
        assert seen(schedule(state, "alone", number=3)) == WAITS

    def test_in_a_set_all_must_be_down(self) -> None:
        state = with_policy("set/web", ALL_DOWN)
        fail(state, "host-1")
        assert seen(schedule(state, "web-0")) == WAITS  # web-1 is up
        started(state, operate(state, "web-1", EventType.REBOOT, number=2))
        assert seen(schedule(state, "web-0", number=3)) == (Phase.SCHEDULED, APPROVED_BEFOREHAND)

    def test_another_update_domain_still_comes_first(self) -> None:
        """Approved is not started: maintenance goes one update domain at a time (S11)."""
        state = with_policy("set/web", ALL_DOWN)
        fail(state, "host-1")
        started(state, operate(state, "web-1", EventType.REBOOT, number=2))
        event = schedule(state, "web-0", number=3)
        tick(state)
        assert seen(state.events[event.id]) == (Phase.SCHEDULED, APPROVED_BEFOREHAND)

    def test_who_has_left_the_scope_does_not_count(self) -> None:
        state = with_policy("vm/alone", ALL_DOWN)
        started(state, schedule(state, "alone"))
        gone = [vm for vm in state.fleet.vms.values() if vm.name != "alone"]
        do(state, ApplyFleet(declaration(*gone, digest="2")))
        do(state, ApplyFleet(declaration(*gone, Vm("alone", "10.0.0.1", "set/web", update_domain=1), digest="3")))
        with_policy("set/web", ALL_DOWN, state)
        assert seen(schedule(state, "web-0", number=2)) == WAITS

    def test_who_has_left_the_fleet_does_not_count_as_down(self) -> None:
        """web-1 and web-3 were hit; of the two that are left, web-2 is up."""
        state = with_policy("set/web", ALL_DOWN)
        started(state, schedule(state, "web-1", "web-3"))
        rest = [vm for vm in state.fleet.vms.values() if vm.name not in ("web-0", "web-3")]
        do(state, ApplyFleet(declaration(*rest, digest="2")))
        with_policy("set/web", ALL_DOWN, state)
        assert seen(schedule(state, "web-2", number=2)) == WAITS

    def test_deletes_are_approved_too(self) -> None:
        state = with_policy("scale-set/batch", ALL_DOWN)
        started(state, schedule(state, "batch_0", "batch_1"))
        do(state, DeleteInstances("batch", ("batch_0",), SEED))
        assert [event.approved_by for event in state.events_on("batch_0")][1:] == [APPROVED_BEFOREHAND]


class TestPlans:
    def test_a_step_says_why_it_starts_at_once(self) -> None:
        state = with_policy("vm/alone", ALL_DOWN)
        started(state, schedule(state, "alone"))
        (step,) = maintain(state, "alone", number=7).steps
        assert step.reason == AT_ONCE

    def test_its_preview_says_the_same_and_comes_true(self) -> None:
        state = with_policy("vm/alone", ALL_DOWN)
        started(state, operate(state, "alone", EventType.REBOOT))
        before = take(state)
        (planned,) = preview(state, StartMaintenance(id_of(7), EventType.REBOOT, ("alone",)), NOW, POLICY)
        assert take(state) == before
        assert (planned.step.reason, planned.starts_at) == (AT_ONCE, NOW.at)
        (step,) = maintain(state, "alone", number=7).steps
        assert state.events[step.event_id or ""].started_at == planned.starts_at

    def test_a_preview_knows_that_one_of_the_set_is_up(self) -> None:
        state = with_policy("set/web", ALL_DOWN)
        started(state, operate(state, "web-0", EventType.REBOOT))
        (planned,) = preview(state, StartMaintenance(id_of(7), EventType.REBOOT, ("web-0",)), NOW, POLICY)
        assert (planned.step.reason, planned.starts_at) == ("", NOW.after(900 * SECOND).at)


class TestSetting:
    def test_it_is_kept_with_the_vm_or_the_group(self) -> None:
        state = with_policy("scale-set/batch", KEPT, with_policy("vm/alone", KEPT))
        assert (state.fleet.vms["alone"].events_policy, state.fleet.groups["scale-set/batch"].events_policy) == (
            KEPT,
            KEPT,
        )
        assert state.fleet.by_address["10.0.0.1"] is state.fleet.vms["alone"]
        assert take(restore(take(state))) == take(state)

    def test_another_takes_its_place(self) -> None:
        state = with_policy("vm/alone", REDEPLOYS, with_policy("vm/alone", REBOOTS))
        assert state.fleet.vms["alone"].events_policy == REDEPLOYS

    def test_what_is_left_open_can_be_kept(self) -> None:
        state = with_policy("vm/alone", REBOOTS)
        do(state, SetEventsPolicy("vm/alone", REDEPLOYS, keep=True))
        assert state.fleet.vms["alone"].events_policy == EventsPolicy(True, True)

    def test_a_no_takes_the_place_of_a_yes_that_is_kept(self) -> None:
        state = with_policy("vm/alone", REBOOTS)
        do(state, SetEventsPolicy("vm/alone", NO_REBOOTS, keep=True))
        assert state.fleet.vms["alone"].events_policy == NO_REBOOTS

    def test_the_same_again_changes_nothing(self) -> None:
        state = with_policy("vm/alone", REBOOTS)
        assert do(state, SetEventsPolicy("vm/alone", REBOOTS)) == []
        assert do(state, SetEventsPolicy("vm/alone", EventsPolicy(), keep=True)) == []

    def test_events_that_exist_stay_as_they_are(self) -> None:
        state = listening()
        event = operate(state, "alone", EventType.REBOOT)
        with_policy("vm/alone", REBOOTS, state)
        tick(state)
        assert state.events[event.id] == event

    @pytest.mark.parametrize("of", ["vm/nobody", "set/nobody", "scale-set/web", "web"])
    def test_what_is_not_there_has_none(self, of: str) -> None:
        with pytest.raises(NotFound):
            do(listening(), SetEventsPolicy(of, REBOOTS))

    def test_a_cloud_service_has_none(self) -> None:
        with pytest.raises(Refused, match="A cloud service has no policy"):
            do(listening(), SetEventsPolicy("service/shop", REBOOTS))

    def test_a_changed_fleet_file_counts(self) -> None:
        """It makes the fleet be what it says (docs/decisions/0006)."""
        state = with_policy("vm/alone", REBOOTS)
        do(state, ApplyFleet(declaration(digest="2")))
        assert state.fleet.vms["alone"].events_policy == EventsPolicy()

    def test_it_touches_the_vm_and_nothing_of_a_group(self) -> None:
        assert t.vms_touched_by(t.EventsPolicySet("vm/alone", REBOOTS)) == ("alone",)
        assert t.vms_touched_by(t.EventsPolicySet("set/web", REBOOTS)) == ()

    @pytest.mark.parametrize("of", ["vm/nobody", "set/nobody"])
    def test_a_record_about_nothing_is_a_bug(self, of: str) -> None:
        with pytest.raises(InvariantBroken):
            apply(State(), t.EventsPolicySet(of, REBOOTS))

    def test_a_group_keeps_its_policy_when_its_vms_change(self) -> None:
        state = with_policy("scale-set/batch", REBOOTS)
        group: Group = state.fleet.groups["scale-set/batch"]
        assert group.instance(7, "10.0.5.1").events_policy == EventsPolicy()
