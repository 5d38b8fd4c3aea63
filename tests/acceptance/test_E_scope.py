"""Section E: who is told of an event, and by which names."""

from collections import Counter

import pytest

from tests.support.node import Node

HUNDRED = """
[[availability_sets]]
name = "big"
vms = [
{vms}
]

[[availability_sets]]
name = "other"
vms = [{{ name = "other-0", address = "127.0.3.1" }}]
""".format(vms="\n".join(f'  {{ name = "big-{n}", address = "127.0.2.{n + 1}" }},' for n in range(100)))

ZONES = """
[[vms]]
name = "a"
address = "127.0.1.1"
zone = "1"

[[vms]]
name = "b"
address = "127.0.1.2"
zone = "1"

[[vms]]
name = "c"
address = "127.0.1.3"
zone = "2"
"""

EVERYBODY = ("me", "db-0", "db-1", "render-0", "web-0", "web-4", "FrontEnd_IN_0", "batch_0", "batch_100", "workers_0")


def told(node: Node, vms: list[str]) -> list[str]:
    """Which of these VMs are told of any event."""
    return [vm for vm in vms if node.events(vm)]


# E01


def test_E01_an_event_on_a_standalone_vm_is_told_to_it_alone(node: Node):
    """A standalone VM is told of its own events and nobody else is."""
    node.schedule("Reboot", "me")
    assert told(node, list(EVERYBODY)) == ["me"]


# E02


@pytest.mark.parametrize("hit", ["FrontEnd_IN_0", "FrontEnd_IN_1", "BackEnd_IN_0"])
def test_E02_an_event_in_a_cloud_service_is_told_to_all_of_it(node: Node, hit: str):
    """All roles and instances of a cloud service are told which of them is hit."""
    node.schedule("Reboot", hit)
    for vm in ("FrontEnd_IN_0", "FrontEnd_IN_1", "BackEnd_IN_0"):
        assert node.event(vm)["Resources"] == [hit]
    assert told(node, ["me", "web-0", "workers_0"]) == []


# E03


def test_E03_an_event_on_one_vm_of_a_set_is_told_to_all_of_it():
    """When one VM of an availability set of a hundred is hit, all hundred are told, and another set is not."""
    with Node(HUNDRED) as node:
        node.enable("big-99")
        event_id = node.schedule("Reboot", "big-42")
        for number in range(100):
            event = node.event(f"big-{number}")
            assert (event["EventId"], event["Resources"]) == (event_id, ["big-42"])
        assert node.events("other-0") == []


def test_E03_all_of_a_set_read_the_same_bytes():
    """The document is one for the whole set."""
    with Node(HUNDRED) as node:
        node.schedule("Reboot", "big-42")
        assert len({node.get(f"big-{number}").body for number in range(100)}) == 1


# E04


@pytest.mark.parametrize("hit", ["a", "b", "c"])
def test_E04_in_a_zone_only_the_vms_hit_are_told(hit: str):
    """Individual VMs of a zone are told of their own events only, not of those of the zone."""
    with Node(ZONES) as node:
        node.schedule("Reboot", hit)
        assert told(node, ["a", "b", "c"]) == [hit]


# E05


@pytest.mark.parametrize(
    ("hit", "first", "last"), [("batch_5", 0, 99), ("batch_100", 100, 199), ("batch_249", 200, 249)]
)
def test_E05_an_event_in_a_scale_set_is_told_to_its_placement_group(node: Node, hit: str, first: int, last: int):
    """Of a scale set of 250 the placement group of the VM hit is told, a hundred VMs or the remaining fifty."""
    node.schedule("Reboot", hit)
    everybody = [f"batch_{number}" for number in range(250)]
    assert told(node, everybody) == everybody[first : last + 1]


def test_E05_a_placement_group_has_at_most_a_hundred_vms(node: Node):
    """250 instances make placement groups of 100, 100 and 50, by the id that each VM is given."""
    path = "/metadata/instance/compute/placementGroupId?api-version=2021-12-13&format=text"
    groups = Counter(node.ask(f"batch_{number}", "GET", path).body for number in range(250))
    assert sorted(groups.values()) == [50, 100, 100]


GPU = """
[[scale_sets]]
name = "gpu"
capacity = {capacity}
addresses = "127.0.5.0/24"
fault_domains = 1
update_domains = 2
{more}
"""
ALONE = "tells_only_hit = true"


def test_E05_a_scale_set_with_one_fault_domain_tells_only_the_vms_hit():
    """With its key in the fleet file each VM reads its own events only; without it the placement group is told."""
    for more, expected in ((ALONE, ["gpu_1"]), ("", ["gpu_0", "gpu_1", "gpu_2"])):
        with Node(GPU.format(capacity=3, more=more)) as node:
            node.enable("gpu_0", "gpu_1", "gpu_2")
            event_id = node.schedule("Reboot", "gpu_1")
            assert told(node, ["gpu_0", "gpu_1", "gpu_2"]) == expected
            assert node.approve("gpu_0", event_id).status == (200 if more == "" else 400)
            assert node.approve("gpu_1", event_id).status == 200


def test_E05_a_maintenance_of_such_a_scale_set_still_goes_one_update_domain_at_a_time():
    """G01: who is told does not change who is hit together; the placement group is in the instance metadata (A12)."""
    with Node(GPU.format(capacity=4, more=ALONE)) as node:
        node.enable("gpu_0", "gpu_1", "gpu_2", "gpu_3")
        node.operate("/v1/maintenances", {"on": ["scale-set=gpu"], "type": "Reboot"})
        assert told(node, ["gpu_0", "gpu_1", "gpu_2", "gpu_3"]) == ["gpu_0", "gpu_2"]
        described = node.ask("gpu_0", "GET", "/metadata/instance/compute?api-version=2021-02-01").json()
        assert described["placementGroupId"]


def test_E05_a_scale_set_can_begin_to_tell_only_those_hit():
    """The event goes on with its VM, which sees no incarnation twice; new instances are told alone too (S3)."""
    with Node(GPU.format(capacity=2, more="")) as node:
        node.enable("gpu_0")
        node.schedule("Reboot", "gpu_0")
        before = node.incarnation("gpu_0")
        node.apply(GPU.format(capacity=2, more=ALONE))
        assert (told(node, ["gpu_0", "gpu_1"]), node.incarnation("gpu_0") > before) == (["gpu_0"], True)
        node.operate("/v1/scale-sets/gpu/scale", {"capacity": 3})
        node.enable("gpu_2")
        node.schedule("Reboot", "gpu_2")
        assert told(node, ["gpu_0", "gpu_1", "gpu_2"]) == ["gpu_0", "gpu_2"]
        node.operate("/v1/scale-sets/gpu/scale", {"capacity": 0})
        node.operate("/v1/scale-sets/gpu/scale", {"capacity": 1})
        assert node.incarnation("gpu_0") > before


def test_E05_several_fault_domains_do_not_go_with_it(node: Node):
    """The fleet file is refused with the place and what to do."""
    status, title = node.refusal("/v1/fleet", GPU.format(capacity=2, more=ALONE).replace("= 1", "= 2").encode(), "PUT")
    assert (status, "tells_only_hit needs fault_domains = 1" in title) == (422, True)


def test_E05_scale_sets_do_not_hear_of_each_other(node: Node):
    """Another scale set is not told."""
    node.schedule("Reboot", "batch_0")
    assert told(node, ["workers_0", "workers_9"]) == []


# E06


@pytest.mark.parametrize("vm", ["db-0", "web-3", "batch_249", "workers_0", "FrontEnd_IN_1"])
def test_E06_names_in_resources(node: Node, vm: str):
    """Resources holds the VM's name, {set}_{n} in a scale set and {Role}_IN_{n} in a cloud service."""
    node.schedule("Reboot", vm)
    assert node.event(vm)["Resources"] == [vm]


@pytest.mark.parametrize("vm", ["db-0", "web-3", "batch_249", "workers_0", "FrontEnd_IN_1"])
def test_E06_a_vm_finds_its_own_name(node: Node, vm: str):
    """The name that a VM is told as its own is the one that stands in Resources."""
    node.schedule("Reboot", vm)
    path = "/metadata/instance/compute/name?api-version=2021-12-13&format=text"
    assert node.event(vm)["Resources"] == [node.ask(vm, "GET", path).body.decode()]
