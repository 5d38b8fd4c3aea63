"""An operator looks at the fleet, at events, and at what has happened, over real HTTP."""

import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from duenotice.operator_api import audit
from tests.support.node import SECONDS, Node, events_at


def get(node: Node, path: str) -> Any:
    """The JSON of a GET as it is, wrapping and all."""
    answer = node.operator("GET", path)
    assert answer.status == 200, answer
    return answer.json()


def all_pages(node: Node, path: str) -> list[Any]:
    """All items of all pages."""
    items, cursor = [], ""
    while True:
        page = get(node, f"{path}&cursor={cursor}")
        items += page["items"]
        cursor = page["next"]
        if cursor is None:
            return items


def test_vms_come_in_pages_that_add_up_to_the_fleet(node: Node) -> None:
    """Each once, by name, whatever the size of a page."""
    names = sorted(node.service.publisher.state.fleet.vms)
    assert [vm["name"] for vm in all_pages(node, "/v1/vms?limit=7")] == names


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "x", "9" * 30])
def test_a_page_has_1_to_1000_items(node: Node, limit: str) -> None:
    """Anything else is a mistake and told so."""
    assert node.operator("GET", f"/v1/vms?limit={limit}").status == 400


def test_vms_are_chosen_by_group_and_host(node: Node) -> None:
    """A group by its key or its name."""
    web = [vm["name"] for vm in get(node, "/v1/vms?group=web")["items"]]
    assert web == [vm["name"] for vm in get(node, "/v1/vms?group=set/web")["items"]] == [f"web-{n}" for n in range(5)]
    hosts = {vm["host"] for vm in get(node, "/v1/vms?host=host-1")["items"]}
    assert hosts == {"host-1"}


@pytest.mark.parametrize(
    ("query", "status", "title", "hint"),
    [
        ("vms?group=wbe", 404, "There is no group 'wbe'.", "Did you mean 'web'?"),
        ("vms?group=set/wbe", 404, "There is no group 'set/wbe'.", "Did you mean 'set/web'?"),
        ("vms?group=SET/WEB", 404, "There is no group 'SET/WEB'.", "Did you mean 'set/web'?"),
        ("states?host=host1", 404, "There is no host 'host1'.", "Did you mean 'host-1'?"),
        ("vms?host=zzz", 404, "There is no host 'zzz'.", "There are host-1, host-2, host-3."),
        ("audit?action=event-rised", 400, "'event-rised' is not an action.", "Did you mean 'event-raised'?"),
    ],
)
def test_a_name_that_is_not_there_is_no_empty_list(node: Node, query: str, status: int, title: str, hint: str) -> None:
    """The error names the nearest name there is."""
    answer = node.operator("GET", f"/v1/{query}")
    assert (answer.status, answer.json()["title"], answer.json()["hint"]) == (status, title, hint)


def test_a_vm_is_shown_with_its_scope_its_events_and_whether_it_listens(node: Node) -> None:
    """Looking at it does not count as a poll (F01)."""
    assert get(node, "/v1/vms/web-0")["listens"] is False
    node.enable("web-1")
    event_id = node.schedule("Reboot", "web-0")
    vm = get(node, "/v1/vms/web-0")
    assert (vm["scope"], vm["listens"], [event["id"] for event in vm["events"]]) == ("set/web", True, [event_id])
    assert get(node, "/v1/vms/web-1")["events"] == []
    assert node.operator("GET", "/v1/vms/nobody").status == 404


@pytest.mark.parametrize("version", ["2017-03-01", "2017-08-01", "2019-04-01", "2020-07-01"])
def test_the_document_is_byte_for_byte_what_the_vm_gets(node: Node, version: str) -> None:
    """In every api-version."""
    node.enable("web-0")
    node.schedule("Reboot", "web-0")
    shown = node.operator("GET", f"/v1/vms/web-1/document?api-version={version}")
    assert shown.body == node.ask("web-1", "GET", events_at(version)).body
    assert node.operator("GET", "/v1/vms/web-1/document?api-version=1999-01-01").status == 400


def test_groups_hosts_and_fleet_are_counted(node: Node) -> None:
    """What stands where."""
    groups = {group["key"]: group["vms"] for group in get(node, "/v1/groups")["items"]}
    assert groups["set/web"] == 5
    hosts = {host["name"]: host for host in get(node, "/v1/hosts")["items"]}
    assert hosts["host-1"]["condition"] == "healthy"
    node.operate("/v1/hosts/host-1/degrade")
    hosts = {host["name"]: host for host in get(node, "/v1/hosts")["items"]}
    assert hosts["host-1"]["condition"] == "degraded"
    fleet = get(node, "/v1/fleet")
    assert (fleet["vms"], fleet["hosts"]) == (len(node.service.publisher.state.fleet.vms), len(hosts))


def test_events_are_filtered_paged_and_found_by_a_prefix(node: Node) -> None:
    """By VM, scope, type and phase; soonest first."""
    node.enable("web-0", "db-0")
    web, db = node.schedule("Reboot", "web-0"), node.schedule("Freeze", "db-0")
    for query, ids in [
        ("vm=web-0", [web]),
        ("scope=vm/db-0", [db]),
        ("type=freeze", [db]),
        ("phase=started", []),
        ("phase=scheduled&vm=db-0", [db]),
    ]:
        assert [event["id"] for event in get(node, f"/v1/events?{query}")["items"]] == ids, query
    assert {event["id"] for event in all_pages(node, "/v1/events?limit=1")} == {web, db}
    assert node.operator("GET", "/v1/events?phase=gone").status == 400
    assert get(node, f"/v1/events/{web[:13].lower()}")["id"] == web


def test_a_prefix_that_fits_several_events_is_refused(node: Node) -> None:
    """With what to do about it."""
    node.enable("web-0")
    ids = [node.schedule("Freeze", "web-0") for _ in range(17)]
    first = next(id_[0] for id_ in ids if sum(other[0] == id_[0] for other in ids) > 1)
    answer = node.operator("GET", f"/v1/events/{first}")
    assert (answer.status, answer.json()["hint"]) == (409, "Give more of the id.")


def test_the_audit_trail_tells_who_did_what(node: Node) -> None:
    """Oldest first, in pages, by actor and action."""
    node.enable("web-0")
    event_id = node.schedule("Reboot", "web-0")
    node.approve("web-1", event_id)
    (raised,) = get(node, "/v1/audit?action=event-raised")["items"]
    assert (raised["actor"], raised["event_id"]) == ("token/admin", event_id)
    (approved,) = get(node, "/v1/audit?action=event-approved")["items"]
    assert approved["actor"].startswith("vm/")
    assert approved["details"] == {"scope": "set/web", "by": "vm/web-1"}
    everything = [record["position"] for record in all_pages(node, "/v1/audit?limit=3")]
    assert everything == sorted(set(everything))
    assert "clock-marked" not in {record["action"] for record in all_pages(node, "/v1/audit?limit=3")}
    after = get(node, f"/v1/audit?after={raised['position']}&actor=duenotice")["items"]
    assert [record["action"] for record in after] == ["event-started"]


def test_a_page_of_the_audit_trail_looks_through_a_bounded_number_of_records(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rare actor in a long journal costs many short pages, not one that keeps everybody waiting."""
    monkeypatch.setattr(audit, "LOOKED_THROUGH", 2)
    monkeypatch.setattr(audit, "READ_AT_ONCE", 2)
    node.enable("web-0")
    event_id = node.schedule("Reboot", "web-0")
    first = get(node, "/v1/audit?action=event-raised")
    assert (first["items"], first["next"]) == ([], "2")
    assert [record["event_id"] for record in all_pages(node, "/v1/audit?action=event-raised")] == [event_id]


def test_the_history_of_an_event_outlives_it(node: Node) -> None:
    """From raised to gone, also by a prefix."""
    node.enable("web-0")
    event_id = node.schedule("Reboot", "web-0")
    node.operate(f"/v1/events/{event_id}/cancel", {"reason": "Not today."})
    records = get(node, f"/v1/events/{event_id[:18]}/history")["items"]
    assert [record["action"] for record in records] == ["event-raised", "event-cancelled"]
    assert records[1]["details"]["reason"] == "Not today."
    assert node.operator("GET", "/v1/events/x/history").status == 404


@contextlib.contextmanager
def feed(node: Node, query: str = "", **headers: str) -> Iterator[http.client.HTTPResponse]:
    """The feed as it comes in, after its first line."""
    connection = http.client.HTTPConnection(*node.operator_address, timeout=SECONDS)
    connection.request("GET", f"/v1/feed{query}", headers={"Authorization": f"Bearer {node.token}", **headers})
    answer = connection.getresponse()
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert next_frame(answer).keys() == {"id", "retry"}
    try:
        yield answer
    finally:
        connection.close()


def next_frame(answer: http.client.HTTPResponse) -> dict[str, str]:
    """The fields of the next event."""
    lines = iter(lambda: answer.readline().decode().rstrip("\n"), "")
    return dict(line.split(": ", 1) for line in lines)


def test_the_feed_tells_what_happens_as_it_happens(node: Node) -> None:
    """From now on, with the position as its id."""
    node.enable("web-0")
    with feed(node) as live:
        event_id = node.schedule("Reboot", "web-0")
        frame = next_frame(live)
        record = json.loads(frame["data"])
        assert (frame["event"], record["event_id"]) == ("event-raised", event_id)
        assert frame["id"] == str(record["position"])


def test_the_feed_goes_on_where_a_reader_left_off(node: Node) -> None:
    """What was missed comes first, then what happens, nothing twice and nothing left out."""
    node.enable("web-0")
    event_id = node.schedule("Reboot", "web-0")
    (raised,) = get(node, "/v1/audit?action=event-raised")["items"]
    before = str(raised["position"] - 1)
    with feed(node, **{"Last-Event-ID": before}) as live, feed(node, f"?after={before}") as other:
        node.operate(f"/v1/events/{event_id}/cancel")
        for reader in (live, other):
            assert [next_frame(reader)["event"] for _ in range(2)] == ["event-raised", "event-cancelled"]


def test_the_feed_begins_with_its_position(node: Node) -> None:
    """A reader that loses the connection before anything came still knows where to go on from."""
    node.enable("web-0")
    with feed(node, "?after=2") as live:
        assert next_frame(live)["id"] == "3"
    path = "/v1/feed"
    connection = http.client.HTTPConnection(*node.operator_address, timeout=SECONDS)
    connection.request("GET", path, headers={"Authorization": f"Bearer {node.token}"})
    with contextlib.closing(connection), connection.getresponse() as answer:
        assert next_frame(answer)["id"] == str(node.service.engine.state.position)


def test_a_node_with_readers_of_its_feed_stops_at_once() -> None:
    """They are let go, and their connection ends cleanly."""
    with Node() as node, feed(node) as live:
        node.run(node.service.stop())
        assert live.read() == b""
        node.service.stop = _nothing  # type: ignore[method-assign]


async def _nothing() -> None:
    """It has stopped already."""
