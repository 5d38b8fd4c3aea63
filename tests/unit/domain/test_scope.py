"""Who shares a document with whom (E01-E05)."""

import pytest

from duenotice.domain.fleet import Group, GroupKind, Vm, alone_in, domain_of, group_of, is_cloud_service, scope_of
from tests.unit.domain.build import VMS

BY_NAME = {vm.name: vm for vm in VMS}


@pytest.mark.parametrize(
    ("vm", "scope"),
    [
        ("alone", "vm/alone"),  # E01
        ("Front_IN_0", "service/shop"),  # E02
        ("web-0", "set/web"),  # E03
        ("zonal", "vm/zonal"),  # E04
        ("batch_0", "scale-set/batch/0"),  # E05
        ("batch_100", "scale-set/batch/1"),
    ],
)
def test_each_kind_of_vm_has_its_circle(vm: str, scope: str) -> None:
    assert scope_of(BY_NAME[vm]) == scope


def test_all_vms_of_a_set_share_one_scope_whatever_their_update_domain() -> None:
    assert {scope_of(vm) for vm in VMS if vm.name.startswith("web-")} == {"set/web"}


def test_a_zonal_scale_set_is_told_by_placement_group() -> None:
    assert scope_of(Vm("b_0", "10.0.0.9", "scale-set/b", 0, zone="1")) == "scale-set/b/0"


def test_each_vm_of_some_scale_sets_is_told_alone() -> None:
    """E05: its scope is one of the set all the same, for those who approve for the set."""
    gpu = Group(GroupKind.SCALE_SET, "gpu", fault_domains=1, tells_only_hit=True).instance(107, "10.0.0.9")
    assert (scope_of(gpu), group_of(scope_of(gpu)), gpu.placed_in) == ("scale-set/gpu/vm/gpu_107", "scale-set/gpu", 1)
    told_alone = {"vm/a": "a", "scale-set/gpu/vm/gpu_107": "gpu_107", "scale-set/gpu/1": None, "set/vm": None}
    assert {scope: alone_in(scope) for scope in told_alone} == told_alone


def test_an_event_stays_within_the_scope_and_update_domain_of_its_vms() -> None:
    assert domain_of(BY_NAME["web-1"]) == ("set/web", 1)
    assert domain_of(BY_NAME["alone"]) == ("vm/alone", None)


def test_cloud_services_are_told_from_iaas_vms() -> None:
    assert [name for name, vm in BY_NAME.items() if is_cloud_service(scope_of(vm))] == ["Front_IN_0", "Front_IN_1"]


def test_a_vm_named_like_a_group_stays_alone() -> None:
    """Keys of different kinds never meet (S16)."""
    assert scope_of(Vm("web", "10.0.0.9")) == "vm/web"
