"""Hosts and the VMs on them."""

from duenotice.domain.apply import apply
from duenotice.domain.fleet import Condition, Fleet, Group, GroupKind, Host, Vm
from duenotice.domain.records import HostsPut
from duenotice.domain.state import State
from tests.unit.domain.build import state_of


def fleet_with(*hosts: Host) -> Fleet:
    state = State()
    apply(state, HostsPut(hosts))
    return state.fleet


def test_a_group_is_named_among_all_kinds_by_its_key() -> None:
    assert [Group(kind, "web").key for kind in GroupKind] == ["set/web", "service/web", "scale-set/web"]


def test_the_vms_on_a_host_are_those_that_run_there() -> None:
    names = [vm.name for vm in state_of().fleet.on_host("host-1")]
    assert names == ["alone", "zonal", "web-0", "web-2", "web-3"]


def test_a_vm_moves_to_the_first_healthy_host_by_name_that_is_not_its_own() -> None:
    fleet = fleet_with(Host("c"), Host("b", Condition.DEGRADED), Host("a", Condition.FAILED), Host("d"))
    assert fleet.other_host(avoid="c") == "d"
    assert fleet.other_host(avoid="d") == "c"


def test_without_a_healthy_host_a_vm_moves_elsewhere() -> None:
    assert fleet_with(Host("a"), Host("b", Condition.FAILED)).other_host(avoid="a") is None


def test_a_moved_vm_is_the_same_vm_on_another_host() -> None:
    assert Vm("a", "10.0.0.1", host="h").moved_to("i") == Vm("a", "10.0.0.1", host="i")


def test_two_vms_that_change_their_addresses_with_each_other_are_both_found() -> None:
    """A09: each by the one that it has now, whichever comes first."""
    fleet = state_of(Vm("a", "10.0.0.1"), Vm("b", "10.0.0.2")).fleet
    fleet.put(Vm("a", "10.0.0.2"))
    fleet.put(Vm("b", "10.0.0.1"))
    assert {address: vm.name for address, vm in fleet.by_address.items()} == {"10.0.0.1": "b", "10.0.0.2": "a"}
