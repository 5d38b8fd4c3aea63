"""What a VM is told about itself (A12)."""

import json
import re
from typing import Any

import pytest

from duenotice.domain.fleet import Group, GroupKind, Site, Vm
from duenotice.errors import NotFound
from duenotice.wire.instance import ANSWERED_VERSIONS, INSTANCE_VERSIONS, as_json, as_text, describe, find, vm_id

SITE = Site("westeurope", "shop", "11111111-2222-3333-4444-555555555555")
SOLO = Vm("db-0", "10.1.2.3", zone="2", size="Standard_E4s_v5", os="Windows", tags=(("env", "test"), ("a", "b:c")))
SCALE_SET = Group(GroupKind.SCALE_SET, "batch")
INSTANCE = Vm(
    "batch_7", "10.1.4.7", group="scale-set/batch", placement_group=0, update_domain=3, fault_domain=1, spot=True
)


def compute(vm: Vm, group: Group | None = None) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(as_json(find(describe(vm, group, SITE), ("compute",))))
    return told


def test_a_standalone_vm_is_described() -> None:
    told = compute(SOLO)
    assert (told["name"], told["location"], told["resourceGroupName"]) == ("db-0", "westeurope", "shop")
    assert told["subscriptionId"] == "11111111-2222-3333-4444-555555555555"
    assert (told["zone"], told["vmSize"], told["osType"]) == ("2", "Standard_E4s_v5", "Windows")
    assert (told["platformUpdateDomain"], told["platformFaultDomain"]) == ("0", "0")
    assert (told["vmScaleSetName"], told["placementGroupId"], told["priority"]) == ("", "", "Regular")
    assert told["resourceId"] == (
        "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/shop"
        "/providers/Microsoft.Compute/virtualMachines/db-0"
    )


def test_tags_come_as_text_and_as_a_list() -> None:
    told = compute(SOLO)
    assert told["tags"] == "env:test;a:b:c"
    assert told["tagsList"] == [{"name": "env", "value": "test"}, {"name": "a", "value": "b:c"}]


def test_an_instance_of_a_scale_set_is_described() -> None:
    told = compute(INSTANCE, SCALE_SET)
    assert (told["name"], told["vmScaleSetName"]) == ("batch_7", "batch")
    assert (told["platformUpdateDomain"], told["platformFaultDomain"]) == ("3", "1")
    assert (told["priority"], told["evictionPolicy"], told["zone"]) == ("Spot", "Delete", "")
    assert told["resourceId"].endswith("/virtualMachineScaleSets/batch/virtualMachines/7")


def test_a_vm_of_another_group_is_in_no_scale_set() -> None:
    vm = Vm("web-0", "10.0.0.1", group="set/web", update_domain=1)
    told = compute(vm, Group(GroupKind.AVAILABILITY_SET, "web"))
    assert (told["vmScaleSetName"], told["platformUpdateDomain"]) == ("", "1")
    assert told["resourceId"].endswith("/virtualMachines/web-0")


def test_the_vms_of_a_placement_group_share_its_id_and_others_do_not() -> None:
    same, other = (Vm("x", "10.0.0.9", group="scale-set/batch", placement_group=number) for number in (0, 1))
    ids = [compute(vm, SCALE_SET)["placementGroupId"] for vm in (INSTANCE, same, other)]
    assert ids[0] == ids[1] != ids[2]
    assert re.fullmatch(r"[0-9a-f-]{36}", ids[0])


def test_a_vm_has_one_id_for_ever() -> None:
    assert compute(SOLO)["vmId"] == vm_id(SOLO) == "08404dc1-7410-5593-beaa-fb4a1f97b7fe"
    assert vm_id(SOLO) != vm_id(INSTANCE)


def test_the_network_has_one_interface_with_the_address() -> None:
    (interface,) = json.loads(as_json(find(describe(SOLO, None, SITE), ("network", "interface"))))
    assert interface["ipv4"] == {
        "ipAddress": [{"privateIpAddress": "10.1.2.3", "publicIpAddress": ""}],
        "subnet": [{"address": "10.1.2.0", "prefix": "24"}],
    }
    assert interface["ipv6"] == {"ipAddress": []}
    assert re.fullmatch(r"000D3A[0-9A-F]{6}", interface["macAddress"])


def test_an_ipv6_address_stands_with_ipv6() -> None:
    (interface,) = json.loads(as_json(find(describe(Vm("six", "fd00::1"), None, SITE), ("network", "interface"))))
    assert interface["ipv4"] == {"ipAddress": [], "subnet": []}
    assert interface["ipv6"]["ipAddress"][0]["privateIpAddress"] == "fd00::1"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "compute/\nnetwork/"),
        (("COMPUTE", "Name"), "db-0"),
        (("network",), "interface/"),
        (("network", "interface"), "0/"),
        (("network", "interface", "0", "ipv4", "ipaddress", "0", "privateipaddress"), "10.1.2.3"),
        (("compute", "tagslist", "1"), "name\nvalue"),
        (("compute", "customdata"), ""),
    ],
)
def test_any_part_can_be_read_as_text(path: tuple[str, ...], text: str) -> None:
    assert as_text(find(describe(SOLO, None, SITE), path)) == text.encode()


def test_a_leaf_is_a_json_string() -> None:
    assert as_json(find(describe(SOLO, None, SITE), ("compute", "name"))) == b'"db-0"'


@pytest.mark.parametrize(
    "path", [("x",), ("compute", "x"), ("compute", "name", "x"), ("network", "interface", "1"), ("",)]
)
def test_a_part_that_is_not_there_is_not_found(path: tuple[str, ...]) -> None:
    with pytest.raises(NotFound, match="There is no"):
        find(describe(SOLO, None, SITE), path)


def test_the_versions_that_real_clients_ask_for_are_known() -> None:
    asked_for = {"2017-04-02", "2019-08-01", "2020-07-01", "2021-02-01", "2021-08-01", "2021-12-13", "2025-04-07"}
    assert asked_for <= set(ANSWERED_VERSIONS)


@pytest.mark.parametrize("versions", [INSTANCE_VERSIONS, ANSWERED_VERSIONS])
def test_versions_are_in_order_and_each_is_there_once(versions: tuple[str, ...]) -> None:
    assert list(versions) == sorted(set(versions))
