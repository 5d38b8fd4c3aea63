"""What pictures are made of: states of VMs, the fleet in numbers, lives on a timeline, the audit trail backwards."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.acceptance.conftest import DEMO
from tests.support.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(DEMO) as running:
        running.enable("web-0", "db-0")
        yield running


def get(node: Node, path: str, **query: object) -> Any:
    answer = node.operator("GET", f"/v1/{path}?{urlencode(query)}")
    assert answer.status == 200, answer
    return answer.json()


def state(node: Node, vm: str) -> str:
    return str(get(node, f"vms/{vm}")["state"])


def test_a_vm_is_in_the_state_of_its_most_urgent_event(node: Node) -> None:
    """A vm is in the state of its most urgent event."""
    first, _ = node.schedule("Reboot", "web-0"), node.schedule("Redeploy", "web-0")
    assert state(node, "web-0") == "scheduled"
    node.approve("web-0", first)
    assert state(node, "web-0") == "started"
    assert state(node, "web-1") == "fine"


def test_a_vm_without_events_on_an_ill_host_is_degraded(node: Node) -> None:
    """A vm without events on an ill host is degraded."""
    for event in node.operate("/v1/hosts/host-3/degrade", {"risk": "high"}):
        node.operate(f"/v1/events/{event['id']}/cancel")
    assert (state(node, "web-2"), state(node, "web-0")) == ("degraded", "fine")
    assert get(node, "states", limit=0)["counts"]["degraded"] == 2


def test_vms_are_found_by_state_and_by_what_is_in_them(node: Node) -> None:
    """Vms are found by state and by what is in them."""
    node.schedule("Reboot", "web-0")
    assert [vm["name"] for vm in get(node, "vms", state="scheduled,started")["items"]] == ["web-0"]
    assert [vm["name"] for vm in get(node, "vms", q="HOST-3")["items"]] == ["render-0", "web-2"]
    assert [vm["name"] for vm in get(node, "vms", group="alone", q="db")["items"]] == ["db-0", "db-1"]
    assert node.refusal("/v1/vms?state=tired", method="GET") == (400, "'tired' is not a state.")


def test_the_fleet_in_numbers_adds_up_whichever_way_it_is_asked(node: Node) -> None:
    """The fleet in numbers adds up whichever way it is asked."""
    node.schedule("Reboot", "web-0")
    whole, grouped = get(node, "states", limit=0), get(node, "states", limit=2)
    assert whole["counts"] == grouped["counts"] and whole["vms"] == 272
    assert (grouped["groups"][0]["key"], len(grouped["groups"]), grouped["left_out"]) == ("set/web", 2, 3)
    web = grouped["groups"][0]
    assert [column["counts"]["scheduled"] for column in web["columns"]] == [1, 0, 0, 0, 0]
    every = get(node, "states", limit=1000)["groups"]
    assert sum(group["vms"] for group in every) == 272


def test_a_life_is_told_from_its_first_day_to_its_last_also_after_a_restart(tmp_path: Path) -> None:
    """A life is told from its first day to its last also after a restart."""
    folder = str(tmp_path / "data")
    with Node(DEMO, data_dir=folder) as node:
        node.enable("web-0")
        event_id = node.schedule("Reboot", "web-0")
        node.approve("web-0", event_id)
    with Node(data_dir=folder) as node:
        life = get(node, f"timeline/{event_id[:8]}")
        assert life["raised_at"] and life["approved_at"] and life["approved_by"] == "vm/web-0"
        assert life["outcome"] is None
        node.advance("2h")
        assert get(node, f"timeline/{event_id}")["outcome"] == "completed"
        assert node.refusal("/v1/timeline/FFFF", method="GET")[0] == 404


def test_a_timeline_has_what_had_a_part_in_its_span(node: Node) -> None:
    """A timeline has what had a part in its span."""
    event_id = node.schedule("Reboot", "web-0")
    node.operate(f"/v1/events/{event_id}/cancel")
    node.advance("3h")
    later = node.schedule("Redeploy", "db-0")
    lives = get(node, "timeline")["items"]
    assert [life["id"] for life in lives] == [later]
    since = {"from": "2000-01-01T00:00:00Z"}
    assert [life["id"] for life in get(node, "timeline", **since)["items"]] == [event_id, later]
    assert [life["id"] for life in get(node, "timeline", **since, vm="web-0")["items"]] == [event_id]
    assert [life["id"] for life in get(node, "timeline", **since, type="Redeploy")["items"]] == [later]
    assert node.refusal("/v1/timeline?from=soon", method="GET")[0] == 400


def test_the_outlook_of_a_plan_moves_with_it(node: Node) -> None:
    """The outlook of a plan moves with it."""
    plan = node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Reboot", "settle": "5m"})["id"]
    assert [step["domain"] for step in get(node, f"maintenances/{plan}/outlook")["timeline"]] == [1, 2, 3, 4]
    node.advance("40m")
    assert [step["domain"] for step in get(node, f"maintenances/{plan}/outlook")["timeline"]] == [2, 3, 4]
    assert [one["id"] for one in get(node, "maintenances", status="running")["items"]] == [plan]
    assert get(node, "maintenances", status="paused")["items"] == []
    assert node.refusal("/v1/maintenances?status=odd", method="GET")[0] == 400


def test_the_audit_trail_reads_backwards_page_by_page(node: Node) -> None:
    """The audit trail reads backwards page by page."""
    for _ in range(5):
        node.operate(f"/v1/events/{node.schedule('Reboot', 'web-0')}/cancel")
    forwards = [record["position"] for record in get(node, "audit", limit=1000)["items"]]
    seen: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        page = get(node, "audit", before=10**9, limit=3, cursor=cursor)
        seen += [record["position"] for record in page["items"]]
        cursor = page["next"]
    assert seen == forwards[::-1]
    assert [r["position"] for r in get(node, "audit", before=forwards[2], limit=1)["items"]] == [forwards[1]]


def test_whose_token_it_is(node: Node) -> None:
    """Whose token it is."""
    assert (get(node, "me")["name"], get(node, "me")["role"]) == ("admin", "admin")
