"""Scale sets: another capacity, instances deleted, as a whole or not at all (E05, E06, G05, S6)."""

from typing import NoReturn

import pytest
from msgspec import structs

from duenotice.domain import bulk
from duenotice.domain import commands as c
from duenotice.domain.event import Cause, EventType, Phase, Source
from duenotice.domain.fleet import LARGEST_SCALE_SET, Declaration, EventsPolicy, Group, GroupKind, Vm
from duenotice.domain.policy import Policy
from duenotice.domain.records import EventRaised, OperationPerformed, Transition, VmsPut, VmsRemoved
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from duenotice.errors import Conflict, DuenoticeError, LookAt, NotFound, Refused
from tests.unit.domain.build import (
    NOW,
    SECOND,
    SEED,
    approve,
    do,
    evict,
    id_of,
    listening,
    operate,
    started,
    state_of,
    tick,
)

JOBS = Group(GroupKind.SCALE_SET, "jobs", 3, 2, terminate_notice=420, addresses="10.1.0.0/28", zone="1")
QUIET = Group(GroupKind.SCALE_SET, "quiet", addresses="10.2.0.0/29")
SPOT = Group(GroupKind.SCALE_SET, "spot", terminate_notice=300, addresses="10.3.0.0/29", spot=True)


def instances(group: Group, *numbers: int) -> tuple[Vm, ...]:
    """Instances as a fleet file would make them."""
    network = group.addresses.rpartition(".")[0]
    return tuple(group.instance(number, f"{network}.{number + 1}") for number in numbers)


VMS = (*instances(JOBS, 0, 1, 2, 3, 4), *instances(QUIET, 0, 1), *instances(SPOT, 0, 1))


def fleet_of(*vms: Vm, groups: tuple[Group, ...] = (JOBS, QUIET, SPOT), listens: bool = True) -> State:
    """A state with these scale sets, where somebody listens in each placement group."""
    state = State()
    do(state, c.ApplyFleet(Declaration("declared", groups=groups, vms=vms or VMS)))
    for name in state.fleet.vms if listens else ():
        do(state, c.EnableScope(name))
    return state


def names(state: State, group: Group = JOBS) -> list[str]:
    return [vm.name for vm in state.fleet.vms.values() if vm.group == group.key]


def told(state: State) -> list[str]:
    """Who is going to be deleted, and was told so."""
    return [name for event in state.events.values() if event.type is EventType.TERMINATE for name in event.resources]


def refused(state: State, command: c.Command, kind: type[DuenoticeError], words: str, policy: Policy) -> None:
    before = take(state)
    with pytest.raises(kind, match=words) as refusal:
        do(state, command, policy=policy)
    assert (take(state), bool(refusal.value.hint)) == (before, True)


class TestScaleOut:
    """More instances."""

    def test_new_instances_have_the_next_numbers_and_the_addresses_that_belong_to_them(self) -> None:
        state = fleet_of()
        (put,) = do(state, c.ScaleSet("jobs", SEED, 7))
        assert put == VmsPut(instances(JOBS, 5, 6))
        assert put.vms[0] == Vm(
            "jobs_5", "10.1.0.6", JOBS.key, placement_group=0, update_domain=2, fault_domain=1, zone="1"
        )

    def test_a_number_that_became_free_is_given_out_again(self) -> None:
        state = fleet_of(*instances(JOBS, 0, 2, 4))
        do(state, c.ScaleSet("jobs", SEED, by=3))
        assert sorted(names(state)) == [f"jobs_{number}" for number in range(6)]

    def test_instances_of_a_spot_set_are_spot(self) -> None:
        state = fleet_of()
        do(state, c.ScaleSet("spot", SEED, by=1))
        assert state.fleet.vms["spot_2"].spot

    def test_a_name_that_an_event_still_speaks_of_is_not_free(self) -> None:
        """Else the new one would be hit in the place of the old."""
        state = fleet_of()
        started(state, operate(state, "jobs_4", EventType.REBOOT))
        do(state, c.ApplyFleet(Declaration("fewer", groups=(JOBS,), vms=instances(JOBS, 0, 1, 2, 3))))
        do(state, c.ScaleSet("jobs", SEED, 5))
        assert names(state)[-1] == "jobs_5"

    def test_an_address_that_somebody_else_has_is_left_out(self) -> None:
        state = fleet_of(*instances(JOBS, 0), Vm("other", "10.1.0.2"))
        do(state, c.ScaleSet("jobs", SEED, 2))
        assert names(state) == ["jobs_0", "jobs_2"]

    def test_the_hundred_and_first_is_in_the_next_placement_group(self) -> None:
        wide = structs.replace(JOBS, addresses="10.4.0.0/16")
        state = fleet_of(*instances(JOBS, 0), groups=(wide,))
        do(state, c.ScaleSet("jobs", SEED, 201))
        groups = [vm.placement_group for vm in state.fleet.vms.values()]
        assert [groups.count(number) for number in range(3)] == [100, 100, 1]

    def test_what_leaves_does_not_count(self) -> None:
        state = fleet_of()
        operate(state, "jobs_0", EventType.TERMINATE)
        do(state, c.ScaleSet("jobs", SEED, 5))
        assert (len(names(state)), names(state)[-1]) == (6, "jobs_5")

    def test_many_are_written_in_rows_of_a_readable_size(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bulk, "CHUNK", 2)
        changes = do(fleet_of(), c.ScaleSet("jobs", SEED, by=5))
        assert [len(change.vms) for change in changes if isinstance(change, VmsPut)] == [2, 2, 1]

    def test_the_same_capacity_changes_nothing(self) -> None:
        assert do(fleet_of(), c.ScaleSet("jobs", SEED, 5)) == []


class TestScaleIn:
    """Fewer instances."""

    def test_each_that_goes_is_told_by_a_terminate_with_the_notice_of_its_set(self) -> None:
        state = fleet_of()
        changes = do(state, c.ScaleSet("jobs", SEED, 3))
        events = [change.event for change in changes if isinstance(change, EventRaised)]
        assert len(changes) == len(events) == 2
        assert {(event.type, event.cause, event.phase) for event in events} == {
            (EventType.TERMINATE, Cause.DELETION, Phase.SCHEDULED)
        }
        assert {(event.not_before - NOW.at).total_seconds() for event in events} == {420}
        assert len(names(state)) == 5
        tick(state, NOW.after(420 * SECOND))
        tick(state, NOW.after(450 * SECOND))
        assert names(state) == ["jobs_0", "jobs_1", "jobs_2"]

    def test_the_highest_numbers_go_first(self) -> None:
        state = fleet_of()
        do(state, c.ScaleSet("jobs", SEED, by=-3))
        assert told(state) == ["jobs_4", "jobs_3", "jobs_2"]

    def test_the_fault_domain_that_has_most_gives_first(self) -> None:
        state = fleet_of(*instances(JOBS, 0, 2, 4, 1))
        do(state, c.ScaleSet("jobs", SEED, 2))
        assert told(state) == ["jobs_4", "jobs_2"]

    def test_an_instance_with_an_odd_name_goes_last(self) -> None:
        odd = structs.replace(instances(JOBS, 0)[0], name="jobs_x", address="10.1.0.9")
        state = fleet_of(odd, *instances(JOBS, 0))
        do(state, c.ScaleSet("jobs", SEED, 1))
        assert told(state) == ["jobs_0"]

    def test_asked_twice_it_is_done_once(self) -> None:
        state = fleet_of()
        do(state, c.ScaleSet("jobs", SEED, 3))
        assert do(state, c.ScaleSet("jobs", SEED, 3)) == []

    def test_an_approved_one_waits_for_the_others_of_its_scope(self) -> None:
        """As real scale sets do it, until the notice is over."""
        state = fleet_of()
        do(state, c.ScaleSet("jobs", SEED, 3))
        first, second = state.events.values()
        approve(state, first, vm="jobs_0")
        assert tick(state) == []
        approve(state, second, vm="jobs_0")
        tick(state)
        assert {event.phase for event in state.events.values()} == {Phase.STARTED}

    def test_without_notifications_they_are_gone_at_once(self) -> None:
        state = fleet_of()
        assert do(state, c.ScaleSet("quiet", SEED, 0)) == [VmsRemoved(("quiet_1", "quiet_0"))]

    def test_spot_instances_are_never_told(self) -> None:
        state = fleet_of()
        do(state, c.ScaleSet("spot", SEED, 1))
        assert (told(state), names(state, SPOT)) == ([], ["spot_0"])

    def test_where_nobody_listens_they_are_gone_at_once(self) -> None:
        state = fleet_of(listens=False)
        do(state, c.ScaleSet("jobs", SEED, 4))
        assert (told(state), len(names(state))) == ([], 4)

    def test_an_evicted_one_is_on_its_way_already(self) -> None:
        state = fleet_of()
        evict(state, "spot_1")
        assert do(state, c.ScaleSet("spot", SEED, 1)) == []


class TestDeleteInstances:
    """Those that are named."""

    def test_each_is_told(self) -> None:
        state = fleet_of()
        do(state, c.DeleteInstances("jobs", ("jobs_3", "jobs_0"), SEED))
        assert told(state) == ["jobs_3", "jobs_0"]

    def test_some_may_be_told_and_others_gone_at_once(self) -> None:
        """Of two placement groups one listens."""
        wide = structs.replace(JOBS, addresses="10.4.0.0/16")
        state = fleet_of(*instances(wide, 0, 100), groups=(wide,), listens=False)
        do(state, c.EnableScope("jobs_0"))
        do(state, c.DeleteInstances("jobs", ("jobs_0", "jobs_100"), SEED))
        assert (told(state), names(state)) == (["jobs_0"], ["jobs_0"])


class TestReimage:
    """M15: a user replaces the OS image of an instance."""

    def reimaged(self, state: State, vm: str = "batch_0") -> list[Transition]:
        return do(state, c.OperateVm(id_of(1), vm, EventType.REBOOT, reimage=True))

    def wanted(self) -> State:
        state = listening()
        do(state, c.ChangeScaleSet("batch", SEED, os_image_notice=True))
        return state

    def test_it_is_told_like_a_reboot_of_its_user(self) -> None:
        state = self.wanted()
        (raised,) = self.reimaged(state)
        assert isinstance(raised, EventRaised)
        event = raised.event
        assert (event.type, event.cause, event.source) == (EventType.REBOOT, Cause.REIMAGE, Source.USER)
        assert event.not_before == NOW.after(900 * SECOND).at

    def test_a_restart_beside_it_is_another_operation(self) -> None:
        state = self.wanted()
        self.reimaged(state)
        operate(state, "batch_0", EventType.REBOOT, number=2)
        with pytest.raises(Conflict, match="already has this operation under way"):
            do(state, c.OperateVm(id_of(3), "batch_0", EventType.REBOOT, reimage=True))

    def test_the_owners_word_on_restarts_does_not_count_for_it(self) -> None:
        state = self.wanted()
        do(state, c.SetEventsPolicy("scale-set/batch", EventsPolicy(user_initiated_reboot=True)))
        self.reimaged(state)
        assert state.events[id_of(1)].phase is Phase.SCHEDULED

    @pytest.mark.parametrize("vm", ["batch_0", "alone", "web-0"])
    def test_without_notification_it_is_done_at_once(self, vm: str) -> None:
        assert self.reimaged(listening(), vm) == [OperationPerformed(vm, "reimage")]

    def test_where_nobody_listens_it_is_done_at_once(self) -> None:
        state = state_of()
        do(state, c.ChangeScaleSet("batch", SEED, os_image_notice=True))
        assert self.reimaged(state) == [OperationPerformed("batch_0", "reimage")]

    def test_each_of_many_is_told(self) -> None:
        state = self.wanted()
        do(state, c.OperateInstances("batch", ("batch_0", "batch_1"), EventType.REBOOT, SEED, reimage=True))
        assert {event.cause for event in state.events.values()} == {Cause.REIMAGE}
        assert len(state.events) == 2

    def test_the_notification_is_kept_until_it_is_turned_off(self) -> None:
        state = self.wanted()
        assert state.fleet.groups["scale-set/batch"].os_image_notice
        assert do(state, c.ChangeScaleSet("batch", SEED, os_image_notice=True)) == []
        assert take(restore(take(state))) == take(state)
        do(state, c.ChangeScaleSet("batch", SEED, os_image_notice=False))
        assert not state.fleet.groups["scale-set/batch"].os_image_notice


class TestOperateInstances:
    """Restarts and redeploys of those that are named (G02)."""

    def test_each_is_told_as_if_it_were_alone(self) -> None:
        state = fleet_of()
        do(state, c.OperateInstances("jobs", ("jobs_3", "jobs_0"), EventType.REBOOT, SEED))
        assert [(event.resources, event.cause) for event in state.events.values()] == [
            (("jobs_3",), Cause.USER),
            (("jobs_0",), Cause.USER),
        ]

    def test_if_one_is_refused_all_are(self) -> None:
        state = fleet_of()
        operate(state, "jobs_0", EventType.REBOOT)
        refused(
            state,
            c.OperateInstances("jobs", ("jobs_3", "jobs_0"), EventType.REBOOT, SEED),
            Conflict,
            "already has this operation",
            Policy(),
        )


class TestChange:
    """Another notice before Terminate, alone or with another capacity (G05)."""

    def test_the_notice_is_set_and_turned_off(self) -> None:
        state = fleet_of()
        do(state, c.ChangeScaleSet("quiet", SEED, terminate_notice=900))
        assert state.fleet.groups[QUIET.key].terminate_notice == 900
        do(state, c.ChangeScaleSet("quiet", SEED, terminate_notice=0))
        assert state.fleet.groups[QUIET.key] == QUIET
        assert do(state, c.ChangeScaleSet("quiet", SEED, terminate_notice=0)) == []

    def test_capacity_and_notice_change_together(self) -> None:
        state = fleet_of()
        do(state, c.ChangeScaleSet("jobs", SEED, 4, 600))
        assert (told(state), state.fleet.groups[JOBS.key].terminate_notice) == (["jobs_4"], 600)


LIMITED = Policy(user_operations_limit=2)


@pytest.mark.parametrize(
    ("command", "kind", "words"),
    [
        (c.ScaleSet("nothing", SEED, 1), NotFound, "no scale set named 'nothing'"),
        (c.ScaleSet("jobs", SEED, -1), Refused, "-1 is out of bounds"),
        (c.ScaleSet("jobs", SEED, by=-6), Refused, "-1 is out of bounds"),
        (c.ScaleSet("jobs", SEED, LARGEST_SCALE_SET + 1), Refused, "out of bounds"),
        (c.ScaleSet("jobs", SEED, 15), Refused, "room for 9 more instances of jobs, not 10"),
        (c.ScaleSet("jobs", SEED, 2), Refused, "3 more would be over the limit of 2"),
        (
            c.OperateInstances("jobs", ("jobs_0", "jobs_1", "jobs_2"), EventType.REBOOT, SEED),
            Refused,
            "3 more would be",
        ),
        (c.OperateInstances("jobs", ("jobs_9",), EventType.REBOOT, SEED), NotFound, "jobs has no instance 'jobs_9'"),
        (c.ChangeScaleSet("nothing", SEED, 1), NotFound, "no scale set named 'nothing'"),
        (c.ChangeScaleSet("jobs", SEED, 1, 299), Refused, "299 seconds before Terminate is out of bounds"),
        (c.ChangeScaleSet("jobs", SEED, 1, 901), Refused, "901 seconds"),
        (c.ChangeScaleSet("jobs", SEED, 15, 300), Refused, "room for 9 more"),
        (c.DeleteInstances("nothing", ("jobs_0",), SEED), NotFound, "no scale set"),
        (c.DeleteInstances("jobs", (), SEED), Refused, "each once"),
        (c.DeleteInstances("jobs", ("jobs_0", "jobs_0"), SEED), Refused, "each once"),
        (c.DeleteInstances("jobs", ("jobs_0", "jobs_9"), SEED), NotFound, "jobs has no instance 'jobs_9'"),
        (c.DeleteInstances("jobs", ("jobs_0", "quiet_0"), SEED), NotFound, "jobs has no instance 'quiet_0'"),
    ],
)
def test_what_cannot_be_done_whole_is_refused_whole(command: c.Command, kind: type[DuenoticeError], words: str) -> None:
    refused(fleet_of(), command, kind, words, LIMITED)


@pytest.mark.parametrize(
    ("command", "listing"),
    [
        (c.ScaleSet("nothing", SEED, 1), LookAt.GROUPS),
        (c.DeleteInstances("jobs", ("jobs_9",), SEED), LookAt.VMS),
    ],
)
def test_a_wrong_name_is_refused_with_the_list_that_helps(command: c.Command, listing: LookAt) -> None:
    """Which list, not how to get it: that is another path, command or page at each door."""
    with pytest.raises(NotFound) as refused:
        do(fleet_of(), command)
    assert (refused.value.look_at, refused.value.hint) == (listing, "Look at the list of them.")


def test_a_set_whose_addresses_nobody_knows_cannot_grow() -> None:
    """Such as one from a journal of an older duenotice."""
    state = fleet_of(*instances(JOBS, 0), groups=(structs.replace(JOBS, addresses=""),))
    refused(state, c.ScaleSet("jobs", SEED, 2), Refused, "which addresses jobs may use", Policy())


def test_one_that_is_being_deleted_cannot_be_deleted_again() -> None:
    state = fleet_of()
    operate(state, "jobs_1", EventType.TERMINATE)
    refused(state, c.DeleteInstances("jobs", ("jobs_0", "jobs_1"), SEED), Conflict, "already", Policy())


class OnlyLookedUp(dict[str, Vm]):
    """A fleet may be asked for one VM after the other, but all names at once are too many (S26)."""

    def keys(self) -> NoReturn:
        raise AssertionError("all names were gathered")


def test_a_set_grows_without_gathering_the_names_of_the_whole_fleet() -> None:
    state = fleet_of()
    state.fleet.vms = OnlyLookedUp(state.fleet.vms)
    assert do(state, c.ScaleSet("jobs", SEED, 7)) == [VmsPut(instances(JOBS, 5, 6))]
