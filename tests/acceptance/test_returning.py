"""A host is drained and returns, over real HTTP and on the command line."""

import threading
from typing import Any

import pytest

from tests.support.cli import duenotice
from tests.support.node import Node
from tests.support.served import wait_until


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


def test_who_was_moved_is_brought_back_and_asking_again_shows_how_far_that_is(node: Node) -> None:
    """201 for a plan that begins, 200 for the one that is under way."""
    away = emptied(node)
    first = node.operator("POST", "/v1/hosts/host-2/return", {})
    again = node.operator("POST", "/v1/hosts/host-2/return", {})
    assert (first.status, again.status, again.json()["id"]) == (201, 200, first.json()["id"])
    plan = first.json()
    assert (plan["title"], plan["type"], plan["cause"]) == ("Return host-2", "Freeze", "live-migration")
    assert sum(plan["vms"].values()) == away > 1
    node.advance("10h")
    assert (host_of(node)["away"], host_of(node)["vms"]) == (0, away)
    assert node.refusal("/v1/hosts/host-2/return", {}) == (409, "No VM is away from host-2.")


def test_with_redeploy_they_are_shut_down_and_started_there(node: Node) -> None:
    """For guests that cannot migrate."""
    away = emptied(node)
    done = duenotice(node, "host", "return", "host-2", "--redeploy", "--at-once", "1")
    assert (done.code, f"0 of {away} are back." in done.err) == (0, True), done
    (plan,) = (plan for plan in node.operate("/v1/maintenances", method="GET") if plan["title"] == "Return host-2")
    assert (plan["type"], plan["cause"], plan["at_once"]) == ("Redeploy", "maintenance", 1)


def test_with_leave_moved_they_stay_where_they_are(node: Node) -> None:
    """Also those that were told already."""
    assert emptied(node)
    duenotice(node, "host", "return", "host-2")
    done = duenotice(node, "host", "return", "host-2", "--leave-moved")
    assert (done.code, "host-2 is in service again." in done.err) == (0, True), done
    node.advance("10h")
    assert (host_of(node)["away"], host_of(node)["vms"]) == (0, 0)


def test_with_wait_it_ends_when_they_are_back(node: Node) -> None:
    """Scripts need no loop of their own."""
    away = emptied(node)

    def is_told() -> bool:
        plans = node.operate("/v1/maintenances", method="GET")
        return any(plan["title"] == "Return host-2" for plan in plans)

    def time_passes() -> None:
        wait_until(is_told)
        node.advance("10h")

    other = threading.Thread(target=time_passes)
    other.start()
    done = duenotice(node, "host", "return", "host-2", "--wait", "--wait-timeout", "1m")
    other.join()
    assert (done.code, f"{away} of {away} are back." in done.err) == (0, True), done


def test_if_they_cannot_come_back_now_it_says_why_and_that_the_host_is_in_service(node: Node) -> None:
    """Another maintenance has their set."""
    away = emptied(node)
    node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Reboot"})
    done = duenotice(node, "host", "return", "host-2")
    assert done.code == 1
    assert f"host-2 is in service again, but VMs cannot come back now ({away} are away): " in done.err
    assert "Run this again when that is over." in done.err
    assert host_of(node)["condition"] == "healthy"
