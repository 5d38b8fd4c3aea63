"""A host is drained and returns, over real HTTP and on the command line."""

from typing import Any

import pytest

from tests.support.cli import duenotice
from tests.support.node import Node


@pytest.fixture(autouse=True)
def _somebody_listens(node: Node) -> None:
    node.enable("web-0", "db-1")


def emptied(node: Node, host: str = "host-2") -> int:
    """How many VMs are away from a host that was drained, and is in service again."""
    node.operate(f"/v1/hosts/{host}/hold", {})
    node.operate(f"/v1/hosts/{host}/drain", {})
    node.advance("10h")
    node.operate(f"/v1/hosts/{host}/repair", {})
    return int(host_of(node, host)["away"])


def host_of(node: Node, host: str = "host-2") -> Any:
    return node.operate(f"/v1/hosts/{host}", method="GET")


def test_a_return_in_the_middle_of_a_drain_that_stops_begins_no_further_step(node: Node) -> None:
    """Those who were told only are told that it is not to be; nobody is shut down on a host in service."""
    plan = duenotice(node, "host", "drain", "host-2", "--stop", "--at-once", "1", "-o", "json").json()
    assert (plan["type"], plan["cause"], plan["title"]) == ("Reboot", "maintenance", "Drain host-2")
    duenotice(node, "host", "return", "host-2")
    now = node.operate(f"/v1/maintenances/{plan['id']}", method="GET")
    assert now["status"] == "cancelled"
    assert [event["phase"] for event in node.operate("/v1/events", method="GET")] == []
