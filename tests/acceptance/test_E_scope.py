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
