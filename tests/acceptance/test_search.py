"""The search over HTTP: everything by what names it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.node import Node

FLEET = """
[[hosts]]
name = "web-host"
[[availability_sets]]
name = "web"
vms = [ { name = "web-1", address = "127.0.2.1", host = "web-host" }, { name = "web-10", address = "127.0.2.10" },
        { name = "web-2", address = "127.0.2.2" } ]
"""


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(FLEET) as running:
        running.enable("web-1")
        yield running


def hits(node: Node, text: str) -> list[tuple[str, str, bool]]:
    found: Any = node.operate(f"/v1/search?q={text}", method="GET")
    return [(hit["kind"], hit["name"], hit["exact"]) for hit in found["items"]]


def test_vms_groups_and_hosts_are_found_the_best_first(node: Node) -> None:
    """A whole name first, then beginnings as people count."""
    assert hits(node, "web") == [
        ("group", "set/web", True),
        ("vm", "web-1", False),
        ("vm", "web-2", False),
        ("vm", "web-10", False),
        ("host", "web-host", False),
    ]
    assert hits(node, "WEB-1") == [("vm", "web-1", True), ("vm", "web-10", False)]
    assert hits(node, "") == [] == hits(node, "nothing")


def test_a_vm_is_found_by_its_address_and_a_new_one_at_once(node: Node) -> None:
    """A search sees what the last command has changed."""
    assert hits(node, "127.0.2.10") == [("vm", "web-10", True)]
    node.apply(FLEET + '\n[[vms]]\nname = "fresh"\naddress = "127.0.9.9"\n')
    assert hits(node, "fresh") == [("vm", "fresh", True)]


def test_events_and_maintenances_are_found_by_id_also_when_they_are_over(node: Node) -> None:
    """A maintenance by its description as well."""
    event = node.schedule("Reboot", "web-2")
    node.operate(f"/v1/events/{event}/cancel")
    assert hits(node, event[:8].lower()) == [("event", event, False)]
    assert hits(node, event) == [("event", event, True)]
    plan = node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Freeze", "description": "Quarterly BIOS"})[
        "id"
    ]
    assert hits(node, "bios") == [("maintenance", plan, False)]
    assert ("maintenance", plan, True) in hits(node, plan)


@pytest.mark.parametrize("query", [f"q={'x' * 101}", "q=a&limit=51", "q=a&limit=0"])
def test_a_search_has_limits(node: Node, query: str) -> None:
    """Of the text, and of what is found."""
    assert node.refusal(f"/v1/search?{query}", method="GET")[0] == 400
