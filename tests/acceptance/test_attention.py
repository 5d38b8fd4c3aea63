"""What needs a person: what failed, what stands still, who would be hit without notice, and how far plans are."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.acceptance.conftest import DEMO
from tests.acceptance.test_windows import moment, window
from tests.support.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(DEMO) as running:
        yield running


def attention(node: Node) -> Any:
    return node.operate("/v1/attention", method="GET")


def plan(node: Node, **more: object) -> Any:
    return node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Reboot", "settle": "5m", **more})


def test_a_fleet_that_listens_and_has_no_plans_needs_nobody(node: Node) -> None:
    """A fleet that listens and has no plans needs nobody."""
    for vm in node.operate("/v1/vms?limit=1000", method="GET"):
        node.operate(f"/v1/vms/{vm['name']}/listen")
    seen = attention(node)
    assert (seen["needed"], seen["plans"], seen["failures"], seen["silent"]) == (0, [], [], 0)
    assert seen["hosts"] == {"healthy": 3, "suspect": 0, "degraded": 0, "failed": 0, "drained": 0}


def test_vms_without_notice_hosts_and_failed_events_are_counted(node: Node) -> None:
    """A failure until somebody has dealt with it, however long that takes."""
    node.enable("web-0", "db-0")
    assert (attention(node)["vms"], attention(node)["silent"], attention(node)["needed"]) == (272, 266, 1)
    event_id = node.schedule("Reboot", "db-0")
    node.approve("db-0", event_id)
    node.operate(f"/v1/events/{event_id}/report", {"failure": "It did not boot."})
    node.operate("/v1/hosts/host-3/degrade", {"risk": "low"})
    seen = attention(node)
    assert (seen["needed"], seen["failed_events"], seen["ill_hosts"]) == (3, 1, ["host-3"])
    (failed,) = seen["failures"]
    assert (failed["id"], failed["resources"], failed["reason"]) == (event_id, ["db-0"], "It did not boot.")
    node.advance("30d")
    assert attention(node)["failed_events"] == 1
    node.operate(f"/v1/events/{event_id[:8]}/acknowledge", {"note": "It has a new disk."})
    assert (attention(node)["failed_events"], attention(node)["failures"]) == (0, [])
    said = node.operate("/v1/audit?action=failure-acknowledged", method="GET")
    assert [(record["event_id"], record["details"]["note"]) for record in said] == [(event_id, "It has a new disk.")]


def test_a_running_plan_tells_its_step_the_next_one_and_its_end(node: Node) -> None:
    """The end is that of its last step, as long as nobody approves; also between two steps."""
    node.enable("web-0")
    outlook = node.operate("/v1/maintenances?dry_run=true", {"on": ["set=web"], "type": "Reboot", "settle": "5m"})
    plan(node)
    (seen,) = attention(node)["plans"]
    starts = outlook["timeline"][0]["not_before"]
    assert seen["under_way"] == [{"group": "set/web", "domain": 0, "vms": 1, "at": starts}]
    assert (seen["next"]["domain"], seen["next"]["at"]) == (1, outlook["timeline"][1]["scheduled_at"])
    assert seen["ends_at"] == outlook["timeline"][-1]["ends_at"]
    node.approve("web-0", node.event("web-0")["EventId"])  # it starts now, and all that follows is sooner
    (sooner,) = attention(node)["plans"]
    assert sooner["ends_at"] < seen["ends_at"] and sooner["under_way"][0]["at"] < starts
    node.advance("11m")
    (between,) = attention(node)["plans"]
    assert (between["status"], between["under_way"], between["next"]["domain"]) == ("running", [], 1)
    assert between["progress"]["done"] == 1 and attention(node)["needed"] == 1  # only the silent VMs


def test_what_comes_next_is_never_stale(node: Node) -> None:
    """A new window, another event in the way and VMs that begin to listen change it, although the plan looks alike."""
    node.enable("web-0")
    plan_id = plan(node, window=window(node, 1, 40))["id"]

    def seen() -> tuple[Any, Any]:
        """As told, and as the outlook has it."""
        (told,) = attention(node)["plans"]
        timeline = node.operate(f"/v1/maintenances/{plan_id}/outlook", method="GET")["timeline"]
        assert told["next"]["at"] == min(step["scheduled_at"] for step in timeline)
        assert told["ends_at"] == max(step["ends_at"] for step in timeline)
        return told["next"]["at"], told["ends_at"]

    first = seen()
    node.operate(f"/v1/maintenances/{plan_id}/pause")
    node.operate(f"/v1/maintenances/{plan_id}/resume", {"window": window(node, 5, 44)})
    later = seen()
    assert later > first
    event_id = node.schedule(
        "Reboot", "web-0", not_before=moment(node, minutes=357)
    )  # before a turn of the plan, and not with it
    in_the_way = seen()
    assert in_the_way != later
    node.operate(f"/v1/events/{event_id}/cancel")
    assert seen() == later


def test_a_paused_and_a_failed_plan_need_somebody(node: Node) -> None:
    """A failed one until its failures are acknowledged, or tried again."""
    node.enable("web-0")
    plan_id = plan(node)["id"]
    before = attention(node)["needed"]
    node.operate(f"/v1/maintenances/{plan_id}/pause")
    assert attention(node)["needed"] == before + 1
    assert attention(node)["plans"][0]["status"] == "paused"
    node.operate(f"/v1/maintenances/{plan_id}/resume")
    (step, *_) = node.steps(plan_id)
    node.approve("web-0", step["event_id"])
    node.operate(f"/v1/events/{step['event_id']}/report", {"failure": "No."})
    (seen,) = attention(node)["plans"]
    assert (seen["status"], attention(node)["needed"]) == ("failed", before + 2)  # the plan and its event
    node.advance("30d")
    assert [one["status"] for one in attention(node)["plans"]] == ["failed"]
    assert attention(node)["failures"][0]["maintenance"] == plan_id
    node.operate(f"/v1/maintenances/{plan_id}/acknowledge")
    assert (attention(node)["plans"], attention(node)["failures"]) == ([], [])
    refused = node.operator("POST", f"/v1/maintenances/{plan_id}/acknowledge")
    assert (refused.status, refused.json()["title"]) == (409, "No failure of this maintenance is open.")


def test_who_listens_is_counted_as_it_is(node: Node) -> None:
    """Whatever happened, the kept numbers of groups and states are those of a look at each VM."""
    random = Random(seed := 17)
    names = [vm["name"] for vm in node.operate("/v1/vms?limit=1000", method="GET")]
    for _ in range(5):
        for name in random.sample(names, 3):
            node.operate(f"/v1/vms/{name}/listen")
            node.schedule("Reboot", name)
        node.operator("POST", f"/v1/hosts/host-{random.randint(1, 3)}/{random.choice(('fail', 'repair'))}")
        vms = node.operate("/v1/vms?limit=1000", method="GET")
        listening = sum(vm["listens"] for vm in vms)
        states = node.operate("/v1/states?limit=1000", method="GET")
        assert states["listening"] == listening, seed
        assert sum(group["listening"] for group in states["groups"]) == listening, seed
        columns = [column for group in states["groups"] for column in group["columns"]]
        assert sum(column["listening"] for column in columns) == listening, seed
        for group in states["groups"]:
            those = [vm for vm in vms if vm["group"] == group["key"]]
            assert group["vms"] == len(those), seed
            assert group["counts"] == {state: sum(vm["state"] == state for vm in those) for state in group["counts"]}
        assert attention(node)["silent"] == len(names) - listening, seed
        silent = node.operate("/v1/vms?limit=1000&listens=false", method="GET")
        assert [vm["name"] for vm in silent] == [vm["name"] for vm in vms if not vm["listens"]], seed
        hosts = {host["name"]: host["listening"] for host in node.operate("/v1/hosts", method="GET")}
        assert hosts == {name: sum(vm["listens"] for vm in vms if vm["host"] == name) for name in hosts}, seed
    node.advance("25h")  # nobody has asked: all scopes are silent again (F02)
    assert node.operate("/v1/states?limit=0&listens=true", method="GET")["vms"] == 0
