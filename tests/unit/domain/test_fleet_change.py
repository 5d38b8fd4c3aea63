"""From the fleet as it stands to the fleet as declared; events and incarnations are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from duenotice.domain import fleet
from duenotice.domain.apply import apply
from duenotice.domain.commands import ApplyFleet, OperateVm
from duenotice.domain.decide import decide
from duenotice.domain.event import EventType, Phase
from duenotice.domain.fleet import Condition, Declaration, Group, GroupKind, Host, Site, Vm
from duenotice.domain.state import State
from duenotice.domain.transitions import (
    EventCompleted,
    FleetDeclared,
    GroupsPut,
    GroupsRemoved,
    HostsPut,
    HostsRemoved,
    VmsPut,
    VmsRemoved,
)
from duenotice.errors import Refused
from tests.unit.domain.build import (
    HOSTS,
    NOW,
    POLICY,
    SECOND,
    VMS,
    WEB,
    approve,
    declaration,
    degrade,
    do,
    fail,
    id_of,
    listening,
    schedule,
    started,
    state_of,
    tick,
)

WITHOUT_ALONE = tuple(vm for vm in VMS if vm.name != "alone")


def test_a_first_fleet_is_put_in_whole() -> None:
    state = state_of()
    assert set(state.fleet.vms) == {vm.name for vm in VMS}
    assert set(state.fleet.hosts) == {"host-1", "host-2", "host-3"}
    assert set(state.fleet.groups) == {"set/web", "service/shop", "scale-set/batch", "scale-set/plain"}
    assert state.fleet.digest == "declared"


def test_a_vm_runs_at_first_where_it_was_declared() -> None:
    vm = state_of().fleet.vms["alone"]
    assert (vm.host, vm.declared_host) == ("host-1", "host-1")


def test_the_same_fleet_again_is_no_change() -> None:
    assert do(state_of(), ApplyFleet(declaration())) == []


def test_another_file_with_the_same_content_is_only_noted() -> None:
    assert do(state_of(), ApplyFleet(declaration(digest="comments moved"))) == [FleetDeclared("comments moved", Site())]


def test_another_site_is_only_noted() -> None:
    declared = structs.replace(declaration(), site=Site("westeurope"))
    assert do(state_of(), ApplyFleet(declared)) == [FleetDeclared("declared", Site("westeurope"))]


def test_only_what_differs_is_changed() -> None:
    vms = (*WITHOUT_ALONE, Vm("new", "10.0.0.9"))
    assert do(state_of(), ApplyFleet(declaration(*vms, digest="2"))) == [
        VmsRemoved(("alone",)),
        VmsPut((Vm("new", "10.0.0.9"),)),
        FleetDeclared("2", Site()),
    ]


def test_hosts_and_groups_come_before_the_vms_in_them_and_go_after() -> None:
    state = state_of()
    group = Group(GroupKind.AVAILABILITY_SET, "new")
    vm = Vm("new-0", "10.0.0.9", group.key, host="host-9")
    declared = Declaration("2", hosts=(Host("host-9"),), groups=(group,), vms=(vm,))
    done = do(state, ApplyFleet(declared))
    kinds = [HostsPut, GroupsPut, VmsRemoved, VmsPut, GroupsRemoved, HostsRemoved, FleetDeclared]
    assert [type(change) for change in done] == kinds
    assert list(state.fleet.hosts) == ["host-9"]
    assert list(state.fleet.groups) == ["set/new"]
    assert list(state.fleet.vms) == ["new-0"]


def test_a_changed_group_is_put_again() -> None:
    state = state_of()
    plain = Group(GroupKind.SCALE_SET, "plain", terminate_notice=600)
    groups = (*declaration().groups[:-1], plain)
    assert do(state, ApplyFleet(structs.replace(declaration(), groups=groups)))[0] == GroupsPut((plain,))
    assert state.fleet.groups["scale-set/plain"].terminate_notice == 600


def test_a_known_host_keeps_its_condition() -> None:
    state = listening()
    degrade(state, "host-3")
    do(state, ApplyFleet(declaration(digest="2")))
    assert state.fleet.hosts["host-3"].condition is Condition.DEGRADED


class TestWhereVmsRun:
    """A VM that was moved stays where it is, unless the file now says otherwise."""

    def moved(self) -> State:
        state = state_of()
        do(state, OperateVm(id_of(1), "alone", EventType.REDEPLOY))
        assert state.fleet.vms["alone"].host == "host-2"
        return state

    def test_a_moved_vm_stays_when_the_file_says_the_same_as_before(self) -> None:
        state = self.moved()
        do(state, ApplyFleet(declaration(digest="2")))
        assert state.fleet.vms["alone"].host == "host-2"

    def test_a_moved_vm_goes_where_the_file_newly_puts_it(self) -> None:
        state = self.moved()
        do(state, ApplyFleet(declaration(Vm("alone", "10.0.0.1", host="host-3"), *WITHOUT_ALONE, digest="2")))
        assert state.fleet.vms["alone"].host == "host-3"

    def test_a_moved_vm_goes_back_when_its_host_has_left_the_fleet(self) -> None:
        state = self.moved()
        vms = (Vm("alone", "10.0.0.1", host="host-1"),)
        do(state, ApplyFleet(declaration(*vms, digest="2", hosts=(HOSTS[0],))))
        assert state.fleet.vms["alone"].host == "host-1"

    def test_a_vm_that_went_elsewhere_is_not_put_back_on_the_host_that_failed(self) -> None:
        only = (Vm("alone", "10.0.0.1", host="host-1"),)
        state = State()
        do(state, ApplyFleet(declaration(*only, hosts=(HOSTS[0],))))
        fail(state, "host-1")
        tick(state, NOW.after(600 * SECOND))
        assert state.fleet.vms["alone"].host is None
        do(state, ApplyFleet(declaration(*only, digest="2", hosts=(HOSTS[0],))))
        assert state.fleet.vms["alone"].host is None


def test_events_of_vms_that_leave_and_stay_are_kept() -> None:
    state = listening()
    leaving, staying = schedule(state, "alone", number=1), started(state, schedule(state, "web-0", number=2))
    before = state.document("set/web")
    do(state, ApplyFleet(declaration(*WITHOUT_ALONE, digest="2")))
    assert list(state.events.values()) == [leaving, staying]
    assert state.document("set/web") == before


class TestEventsFollow:
    """A VM that comes to another scope takes its events along: who is going to be hit must go on being told."""

    ALONE_IN_WEB = Vm("alone", "10.0.0.1", WEB.key, update_domain=1)

    def test_to_its_new_scope_and_update_domain(self) -> None:
        state = listening()
        event = schedule(state, "alone")
        do(state, ApplyFleet(declaration(self.ALONE_IN_WEB, *WITHOUT_ALONE, digest="2")))
        (moved,) = state.document("set/web").events
        assert moved == event.with_(scope="set/web", update_domain=1)
        assert state.document("vm/alone").events == ()

    def test_and_its_new_neighbours_may_approve_it(self) -> None:
        state = listening()
        event = schedule(state, "alone")
        do(state, ApplyFleet(declaration(self.ALONE_IN_WEB, *WITHOUT_ALONE, digest="2")))
        assert approve(state, event, vm="web-0")
        tick(state)
        assert state.events[event.id].phase is Phase.STARTED

    def test_a_started_event_goes_along_too_and_ends_there(self) -> None:
        state = listening()
        event = started(state, schedule(state, "alone"))
        do(state, ApplyFleet(declaration(self.ALONE_IN_WEB, *WITHOUT_ALONE, digest="2")))
        assert tick(state, NOW.after(600 * SECOND)) == [EventCompleted(event.id, "set/web")]

    def test_all_vms_of_an_event_together(self) -> None:
        state = listening()
        schedule(state, "web-0", "web-2")
        apart = [structs.replace(vm, update_domain=1) if vm.name in ("web-0", "web-2") else vm for vm in VMS]
        do(state, ApplyFleet(declaration(*apart, digest="2")))
        assert [event.update_domain for event in state.document("set/web").events] == [1]

    def test_one_that_would_be_torn_apart_is_cancelled(self) -> None:
        """Resources of an event lie in one update domain (S10)."""
        state = listening()
        schedule(state, "web-0", "web-2")
        torn = [structs.replace(vm, update_domain=1) if vm.name == "web-0" else vm for vm in VMS]
        do(state, ApplyFleet(declaration(*torn, digest="2")))
        assert not state.events

    def test_to_whoever_is_left_of_its_vms(self) -> None:
        """A started event that was torn apart goes with the one VM that stays in the fleet."""
        state = listening()
        event = started(state, schedule(state, "web-0", "web-2"))
        torn = [structs.replace(vm, update_domain=1) if vm.name == "web-0" else vm for vm in VMS]
        do(state, ApplyFleet(declaration(*torn, digest="2")))
        do(state, ApplyFleet(declaration(*(vm for vm in torn if vm.name != "web-2"), digest="3")))
        assert state.events[event.id].update_domain == 1

    def test_unless_it_has_started(self) -> None:
        state = listening()
        event = started(state, schedule(state, "web-0", "web-2"))
        torn = [structs.replace(vm, update_domain=1) if vm.name == "web-0" else vm for vm in VMS]
        do(state, ApplyFleet(declaration(*torn, digest="2")))
        assert list(state.events.values()) == [event]

    def test_a_vm_that_was_away_finds_its_event_where_it_returns_to(self) -> None:
        state = listening()
        schedule(state, "alone")
        do(state, ApplyFleet(declaration(*WITHOUT_ALONE, digest="2")))
        do(state, ApplyFleet(declaration(self.ALONE_IN_WEB, *WITHOUT_ALONE, digest="3")))
        assert [event.resources for event in state.document("set/web").events] == [("alone",)]

    def test_a_change_that_is_no_move_leaves_events_alone(self) -> None:
        state = listening()
        event = schedule(state, "alone")
        bigger = Vm("alone", "10.0.0.1", host="host-1", size="Big")
        do(state, ApplyFleet(declaration(bigger, *WITHOUT_ALONE, digest="2")))
        assert state.document("vm/alone").events == (event,)
        assert state.document("vm/alone").incarnation == 1


def test_an_address_may_pass_from_a_vm_that_goes_to_one_that_comes() -> None:
    """Removals come first, so that at no moment two VMs have one address."""
    state = state_of()
    done = do(state, ApplyFleet(declaration(Vm("heir", "10.0.0.1"), *WITHOUT_ALONE, digest="2")))
    kinds = [type(change) for change in done]
    assert kinds.index(VmsRemoved) < kinds.index(VmsPut)
    assert [vm.name for vm in state.fleet.vms.values() if vm.address == "10.0.0.1"] == ["heir"]


def test_two_vms_may_swap_their_addresses() -> None:
    state = state_of(Vm("a", "10.0.0.1"), Vm("b", "10.0.0.2"))
    do(state, ApplyFleet(declaration(Vm("a", "10.0.0.2"), Vm("b", "10.0.0.1"), digest="2")))
    assert [vm.address for vm in state.fleet.vms.values()] == ["10.0.0.2", "10.0.0.1"]


def test_a_large_fleet_comes_and_goes_in_rows_of_a_readable_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "CHUNK", 3)
    vms = tuple(Vm(f"vm-{n}", f"10.0.0.{n}") for n in range(7))
    state = State()
    done = decide(state, ApplyFleet(declaration(*vms)), NOW, POLICY)
    assert [len(change.vms) for change in done if isinstance(change, VmsPut)] == [3, 3, 1]
    for change in done:
        apply(state, change)
    done = decide(state, ApplyFleet(declaration(Vm("one", "10.0.1.1"), digest="2")), NOW, POLICY)
    assert [len(change.names) for change in done if isinstance(change, VmsRemoved)] == [3, 3, 1]


NAMES = st.sampled_from(["a", "b", "c", "d"])
FLEETS = st.dictionaries(NAMES, st.sampled_from(["host-1", "host-2", None]), min_size=1)


@given(st.lists(FLEETS, max_size=4))
def test_after_any_sequence_of_fleets_the_fleet_is_the_last_one(fleets: list[dict[str, str | None]]) -> None:
    state = State()
    for number, hosts in enumerate(fleets):
        vms = [Vm(name, f"10.0.0.{n}", host=host) for n, (name, host) in enumerate(hosts.items())]
        do(state, ApplyFleet(declaration(*vms, digest=str(number))))
        assert {vm.name: vm.host for vm in state.fleet.vms.values()} == hosts
        assert do(state, ApplyFleet(declaration(*vms, digest=str(number)))) == []


def test_an_empty_declaration_does_not_take_every_vm_away() -> None:
    """More likely a file that was cut short than a wish; one that was empty before may stay so."""
    state = state_of()
    vms = dict(state.fleet.vms)
    with pytest.raises(Refused, match="would remove all") as refusal:
        do(state, ApplyFleet(Declaration("empty")))
    assert (state.fleet.vms, bool(refusal.value.hint)) == (vms, True)
    do(State(), ApplyFleet(Declaration("empty")))
