"""The past in numbers over real HTTP: from the journal, for all, a group or a VM."""

from typing import Any

from tests.support.node import Node


def days(node: Node, **query: str) -> list[dict[str, Any]]:
    asked = "&".join(f"{key}={value}" for key, value in query.items())
    found = node.operate(f"/v1/history?{asked}", method="GET")["days"]
    return [day for day in found if day["types"]]


def test_what_was_promised_and_given_is_told_day_by_day(node: Node) -> None:
    """One event had its whole notice, one was approved after five minutes, one failed, one nobody could read."""
    node.enable("web-0")
    node.schedule("Reboot", "web-0")
    node.advance("26m")
    approved = node.schedule("Reboot", "web-0")
    node.advance("5m")
    node.approve("web-0", approved)
    node.operate(f"/v1/events/{approved}/report", {"failure": "It did not boot."})
    node.operate("/v1/maintenances", {"on": ["vm=db-0"], "type": "Freeze"})
    node.advance("11m")
    found = node.operate("/v1/history", method="GET")
    assert (found["left_out"], found["complete_since"], len(found["events"]), len(found["days"])) == (0, None, 3, 31)
    by_id = {event["id"]: event for event in found["events"]}
    assert (by_id[approved]["promised"], by_id[approved]["given"], by_id[approved]["to_approval"]) == (900, 300, 300)
    told = days(node)
    assert sum(day["types"].get("Reboot", 0) for day in told) == 2
    assert sum(day["outcomes"].get("failed", 0) for day in told) == 1
    assert [sum(day[kind] for day in told) for kind in ("whole", "cut", "silent")] == [1, 1, 1]
    assert sum(day["impact_in_all"] for day in told) == 1200


def test_the_past_of_a_group_and_of_a_vm(node: Node) -> None:
    """A group by its key or its name."""
    node.enable("web-0", "db-0")
    node.schedule("Reboot", "web-0")
    node.schedule("Freeze", "db-0")
    assert [day["types"] for day in days(node, group="set/web")] == [{"Reboot": 1}]
    assert [day["types"] for day in days(node, group="web")] == [{"Reboot": 1}]
    assert [day["types"] for day in days(node, vm="db-0")] == [{"Freeze": 1}]
    assert days(node, vm="db-0", group="web") == []


def test_what_comes_later_is_in_it_when_it_is_asked_again(node: Node) -> None:
    """The journal is read on from where it was left."""
    node.enable("web-0")
    node.schedule("Reboot", "web-0")
    assert [day["outcomes"] for day in days(node)] == [{}]
    node.advance("26m")
    assert sum(day["outcomes"].get("completed", 0) for day in days(node)) == 1


def test_a_span_that_is_too_long_is_refused(node: Node) -> None:
    """With what to do."""
    answer = node.operator("GET", "/v1/history?from=2020-01-01T00:00:00Z")
    assert (answer.status, bool(answer.json()["hint"])) == (422, True)
