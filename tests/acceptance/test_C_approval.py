"""Section C: approving an event, so that it starts before its notice is over."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.acceptance.conftest import DEMO
from tests.support.cli import duenotice
from tests.support.node import HEADER, Answer, Node, events_at, start_requests, wire

POST = (f"POST {events_at()} HTTP/1.1", "Host: 169.254.169.254", "Metadata: true")
MAX_BODY = 64 * 1024


def scheduled(node: Node, *vms: str) -> str:
    """The id of a new Reboot that waits out its notice."""
    node.enable(vms[0])
    return node.schedule("Reboot", *vms)


def alike(answer: Answer, event_id: str) -> tuple[int, set[str], bytes]:
    """What a caller can tell an answer by, apart from the id it sent itself."""
    return answer.status, set(answer.headers), answer.body.replace(event_id.encode(), b"<id>")


# C01


@pytest.mark.parametrize(
    "template",
    [
        '{"StartRequests":[{"EventId":"ID"}]}',
        '{"StartRequests": [{"EventId": "ID"}]}',
        '{"DocumentIncarnation":"5", "StartRequests": [{"EventId": "ID"}]}',
        '{"StartRequests":[{"EventId":"ID"}],"DocumentIncarnation":5}',
        '{"DocumentIncarnation":null,"StartRequests":[{"EventId":"ID"}]}',
        '{"DocumentIncarnation":{"x":[1]},"StartRequests":[{"EventId":"ID"}]}',
        '{\r\n    "StartRequests":  [\r\n        {\r\n            "EventId":  "ID"\r\n        }\r\n    ]\r\n}\r\n',
        '{"Comment":"x","StartRequests":[{"Why":"x","EventId":"ID"}]}',
        '\ufeff{"StartRequests":[{"EventId":"ID"}]}',
        '{"StartRequests":[{"EventId":"ID"},{"EventId":"ID"}]}',
    ],
)
def test_C01_the_bodies_that_real_clients_send(node: Node, template: str):
    """Blanks, key order, unknown keys, a byte order mark and any DocumentIncarnation make no difference."""
    body = template.replace("ID", scheduled(node, "me")).encode()
    assert node.post("me", body).status == 200
    assert node.statuses("me") == ["Started"]


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "application/json",
        "application/json; charset=utf-8",
        "application/x-www-form-urlencoded",
        "text/plain",
        "text/plain; charset=utf-8",
        "multipart/form-data; boundary=x",
        "nonsense",
        "",
    ],
)
def test_C01_any_or_no_content_type_will_do(node: Node, content_type: str | None):
    """What the client calls its body does not matter; curl calls it a form."""
    headers = HEADER if content_type is None else HEADER | {"Content-Type": content_type}
    assert node.post("me", start_requests(scheduled(node, "me")), headers=headers).status == 200
    assert node.statuses("me") == ["Started"]


def test_C01_many_events_at_once(node: Node):
    """One request may approve several events."""
    ids = [scheduled(node, "me") for _ in range(3)]
    assert node.approve("me", *ids).status == 200
    assert node.statuses("me") == ["Started"] * 3


def test_C01_a_body_in_chunks(node: Node):
    """A body may come in chunks, without a length announced."""
    body = start_requests(scheduled(node, "me"))
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:7], body[7:], b""))
    assert node.raw("me", wire(*POST, "Transfer-Encoding: chunked", body=chunks)).status == 200
    assert node.statuses("me") == ["Started"]


# C02


def test_C02_success_is_an_empty_200(node: Node):
    """An approval is answered 200 without a body."""
    answer = node.approve("me", scheduled(node, "me"))
    assert (answer.status, answer.headers["content-length"], answer.body) == (200, "0", b"")


def test_C02_approving_again_changes_nothing(node: Node):
    """Approving an event that has Started, by the same VM or another, is 200 and changes nothing."""
    event_id = scheduled(node, "web-0")
    node.approve("web-0", event_id)
    before = node.get("web-0").body
    assert [node.approve(vm, event_id).status for vm in ("web-0", "web-1", "web-0")] == [200, 200, 200]
    assert node.get("web-0").body == before


def test_C02_approving_again_while_it_waits_changes_nothing(node: Node):
    """Approving twice an event that is held back by another update domain is 200 and changes nothing."""
    node.approve("web-0", scheduled(node, "web-0"))
    waiting = scheduled(node, "web-1")
    before = node.get("web-1").body
    assert [node.approve("web-1", waiting).status for _ in range(2)] == [200, 200]
    assert node.get("web-1").body == before


# C03


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"StartRequests",
        b"{}",
        b'{"DocumentIncarnation":1}',
        b'{"startRequests":[]}',
        b'{"StartRequests":[]}',
        b'{"StartRequests":null}',
        b'{"StartRequests":"x"}',
        b'{"StartRequests":["x"]}',
        b'{"StartRequests":[{}]}',
        b'{"StartRequests":[{"EventId":1}]}',
        b'{"StartRequests":[{"EventId":""}]}',
        b'{"StartRequests":[{"EventId":"x"}]}',
        b'{"StartRequests":[{"EventId":"\xff"}]}',
        b"\xff\xfe",
        b"[" * 10_000,
    ],
    ids=lambda body: repr(body[:40]),
)
def test_C03_a_bad_body_is_refused(shared: Node, body: bytes):
    """Bad JSON, no StartRequests or no usable EventId is refused with 400 and an error."""
    answer = shared.post("me", body)
    assert (answer.status, list(answer.json())) == (400, ["error"])


def test_C03_nothing_of_a_refused_request_takes_effect(node: Node):
    """If one id is unknown, first or last, none of the events named with it starts."""
    first, second = scheduled(node, "me"), scheduled(node, "me")
    unknown = str(uuid4())
    before = node.get("me").body
    for ids in ([first, unknown], [unknown, first], [first, unknown, second]):
        assert node.approve("me", *ids).status == 400
    assert node.get("me").body == before


def test_C03_nothing_of_a_request_with_a_foreign_id_takes_effect(node: Node):
    """The same holds when the other id is an event of somebody else, and that one does not start either."""
    mine, foreign = scheduled(node, "me"), scheduled(node, "db-0")
    assert node.approve("me", mine, foreign).status == 400
    assert (node.statuses("me"), node.statuses("db-0")) == (["Scheduled"], ["Scheduled"])


def test_C03_nothing_of_a_request_with_one_bad_entry_takes_effect(node: Node):
    """The same holds when the other entry is not a StartRequest at all."""
    event_id = scheduled(node, "me")
    body = json.dumps({"StartRequests": [{"EventId": event_id}, {"Id": event_id}]}).encode()
    assert node.post("me", body).status == 400
    assert node.statuses("me") == ["Scheduled"]


def test_C03_unknown_and_foreign_ids_answer_alike(node: Node):
    """Nobody can find out whether an id is an event of somebody else: all answers are the same, byte for byte."""
    foreign, foreign_in_a_set = scheduled(node, "db-0"), scheduled(node, "web-0")
    ids = [str(uuid4()).upper(), foreign, foreign_in_a_set, gone(node, "db-0")]
    first, *others = [alike(node.approve("me", event_id), event_id) for event_id in ids]
    assert first[0] == 400
    assert others == [first] * 3


def gone(node: Node, vm: str) -> str:
    """The id of an event that was cancelled."""
    event_id = scheduled(node, vm)
    node.operate(f"/v1/events/{event_id}/cancel")
    return event_id


def test_C03_an_event_that_is_gone_is_approved_without_effect(node: Node):
    """An event that this scope had in the last 24 hours is taken like one that is there, and nothing changes."""
    over, waiting = gone(node, "me"), scheduled(node, "me")
    before = node.get("me").body
    assert [node.approve("me", event_id)[::2] for event_id in (over, over.lower())] == [(200, b"")] * 2
    assert node.get("me").body == before
    assert node.approve("me", over, waiting).status == 200
    assert node.statuses("me") == ["Started"]


def test_C03_an_event_that_is_gone_for_a_day_is_unknown(node: Node):
    """After 24 hours nobody remembers it."""
    over = gone(node, "me")
    node.advance("23h")
    assert node.approve("me", over).status == 200
    node.advance("1h")
    assert node.approve("me", over).status == 400


def test_C03_a_setting_refuses_what_is_gone():
    """With --gone-approval 400 an event that is gone is like one that never was."""
    with Node(DEMO, gone_approval=400) as node:
        over = gone(node, "me")
        unknown = str(uuid4()).upper()
        first, second = (alike(node.approve("me", event_id), event_id) for event_id in (over, unknown))
        assert first == second
        assert first[0] == 400


def test_C03_what_is_gone_is_known_after_a_restart(tmp_path: Path):
    """Whatever the server has seen: a restart forgets nothing of the last 24 hours."""
    with Node(DEMO, data_dir=str(tmp_path)) as node:
        over = gone(node, "me")
    with Node(DEMO, data_dir=str(tmp_path)) as node:
        assert node.approve("me", over).status == 200


# C04


@pytest.mark.parametrize("approver", ["FrontEnd_IN_0", "BackEnd_IN_0", "FrontEnd_IN_1"])
def test_C04_any_vm_that_is_told_may_approve(node: Node, approver: str):
    """The first VM hit, another one hit, or one that is only told: the approval of any of them counts for all."""
    event_id = scheduled(node, "FrontEnd_IN_0", "BackEnd_IN_0")
    assert node.approve(approver, event_id).status == 200
    for vm in ("FrontEnd_IN_0", "BackEnd_IN_0", "FrontEnd_IN_1"):
        event = node.event(vm)
        assert (event["EventStatus"], event["Resources"]) == ("Started", ["FrontEnd_IN_0", "BackEnd_IN_0"])


def test_C04_a_vm_that_is_not_told_may_not_approve(node: Node):
    """A VM outside the scope cannot approve."""
    event_id = scheduled(node, "FrontEnd_IN_0", "BackEnd_IN_0")
    assert node.approve("web-0", event_id).status == 400
    assert node.statuses("FrontEnd_IN_0") == ["Scheduled"]


# C05


@pytest.mark.parametrize("waited", ["0s", "1s", "14m59s"])
def test_C05_an_approved_event_starts_at_once(node: Node, waited: str):
    """However much of the notice is left, an approval cuts it short."""
    event_id = scheduled(node, "me")
    node.advance(waited)
    assert node.statuses("me") == ["Scheduled"]
    node.approve("me", event_id)
    assert node.statuses("me") == ["Started"]


def test_C05_an_unapproved_event_starts_at_not_before(node: Node):
    """Without an approval the event starts when its notice is over, and never before."""
    scheduled(node, "me")
    node.advance("14m59s")
    assert node.statuses("me") == ["Scheduled"]
    node.advance("999ms")
    assert node.statuses("me") == ["Scheduled"]
    node.advance("1ms")
    assert node.statuses("me") == ["Started"]


def test_C05_only_the_approved_event_starts(node: Node):
    """Approving one event leaves the others waiting."""
    first, second = scheduled(node, "me"), scheduled(node, "me")
    node.approve("me", second)
    status = {event["EventId"]: event["EventStatus"] for event in node.events("me")}
    assert status == {first: "Scheduled", second: "Started"}


# C06


def padded(event_id: str, size: int) -> bytes:
    """An approval of exactly that many bytes."""
    body = start_requests(event_id)
    return body + b" " * (size - len(body))


def test_C06_64_kib_are_read(node: Node):
    """A body of exactly 64 KiB is taken."""
    assert node.post("me", padded(scheduled(node, "me"), MAX_BODY)).status == 200
    assert node.statuses("me") == ["Started"]


@pytest.mark.parametrize("length", [MAX_BODY + 1, 10**9, 10**30])
def test_C06_a_longer_body_is_refused_unread(shared: Node, length: int):
    """One byte more is 413, before a byte of the body was sent, and the connection ends."""
    with shared.connect("me") as line:
        line.send(wire(*POST, f"Content-Length: {length}"))
        answer = line.answer()
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert line.is_over()


def test_C06_a_longer_body_is_not_invited(shared: Node):
    """A client that asks first is told 413 instead of 100."""
    answer = shared.raw("me", wire(*POST, f"Content-Length: {MAX_BODY + 1}", "Expect: 100-continue"))
    assert answer.status == 413


def test_C06_a_longer_body_in_chunks_is_refused(shared: Node):
    """A body in chunks is refused with the chunk that would make it too long."""
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    assert shared.raw("me", wire(*POST, "Transfer-Encoding: chunked", body=chunk * 2 + b"1\r\n")).status == 413


def test_C06_a_refused_body_has_no_effect(node: Node):
    """An approval in a body that is too long starts nothing."""
    event_id = scheduled(node, "me")
    assert node.post("me", padded(event_id, MAX_BODY + 1)).status == 413
    assert node.statuses("me") == ["Scheduled"]


# C07

SHARED = """
[[hosts]]
name = "h1"

[[hosts]]
name = "h2"

[[vms]]
name = "a"
address = "127.0.61.1"
host = "h1"

[[vms]]
name = "b"
address = "127.0.61.2"
host = "h1"

[[vms]]
name = "elsewhere"
address = "127.0.61.3"
host = "h2"

[[availability_sets]]
name = "web"
vms = [
  { name = "web-0", address = "127.0.61.4", host = "h1" },
  { name = "web-1", address = "127.0.61.5", host = "h2" },
]
"""
ON_H1 = ("a", "b", "web-0")


def shared_maintenance(node: Node, **more: Any) -> Any:
    """A maintenance of h1 with the consent of the whole host; everybody listens."""
    node.enable(*ON_H1, "elsewhere")
    return node.operate("/v1/maintenances", {"on": ["host=h1"], "type": "Reboot", "consent": "host", **more})


def approve_own(node: Node, vm: str) -> None:
    """Approve the one event that a VM is told of."""
    assert node.approve(vm, node.event(vm)["EventId"]).status == 200


def test_C07_a_hosts_vms_see_scheduled_until_all_scopes_have_approved():
    """An approval alone starts nothing; the last one starts all of them at once."""
    with Node(SHARED) as node:
        shared_maintenance(node)
        for vm in ON_H1:
            assert [node.statuses(each) for each in ON_H1] == [["Scheduled"]] * 3
            approve_own(node, vm)
        assert [node.statuses(each) for each in ON_H1] == [["Started"]] * 3


def test_C07_who_runs_out_of_notice_is_not_waited_for_any_longer():
    """The notice that VMs were told is the longest that anybody waits."""
    with Node(SHARED) as node:
        shared_maintenance(node)
        approve_own(node, "a")
        node.advance("14m59s")
        assert node.statuses("a") == ["Scheduled"]
        node.advance("2s")
        assert [node.statuses(each) for each in ON_H1] == [["Started"]] * 3


def test_C07_by_default_each_scope_starts_when_it_has_approved():
    """Without the setting nobody waits for the others."""
    with Node(SHARED) as node:
        shared_maintenance(node, consent="scope")
        approve_own(node, "a")
        assert [node.statuses(each) for each in ON_H1] == [["Started"], ["Scheduled"], ["Scheduled"]]


def test_C07_the_operator_sees_who_is_awaited():
    """The maintenance and each of its events name the scopes that have not approved."""
    with Node(SHARED) as node:
        plan = shared_maintenance(node)
        approve_own(node, "b")
        event_id = node.event("b")["EventId"]
        paths = (f"/v1/maintenances/{plan['id']}", f"/v1/events/{event_id}")
        seen = [node.operate(path, method="GET") for path in paths]
        assert [(each["consent"], each["awaited"], each["awaited_in_all"]) for each in seen] == [
            ("host", ["set/web", "vm/a"], 2)
        ] * 2


def test_C07_the_command_line_says_who_is_awaited():
    """`maintenance start --consent host`, `maintenance show` and `events show`."""
    with Node(SHARED) as node:
        node.enable(*ON_H1)
        start = ("maintenance", "start", "--on", "host=h1", "--type", "Freeze", "--consent", "host")
        assert "CONSENT OF" in duenotice(node, *start).out
        approve_own(node, "a")
        event_id = node.event("a")["EventId"]
        for line in (("maintenance", "show"), ("events", "show", event_id)):
            assert duenotice(node, *line, "-o", "json").json()["awaited"] == ["set/web", "vm/b"]
            rows = [row.split() for row in duenotice(node, *line).out.splitlines()]
            assert ["AWAITED", "set/web", "vm/b"] in rows


@pytest.mark.parametrize("leaves", ["deleted", "redeployed"])
def test_C07_a_vm_that_is_deleted_or_leaves_the_host_is_not_awaited(leaves: str):
    """Its event is gone, and those who have approved start."""
    with Node(SHARED) as node:
        shared_maintenance(node)
        approve_own(node, "a")
        approve_own(node, "web-0")
        if leaves == "deleted":
            node.operate("/v1/vms/b/delete")
        else:
            (own,) = node.operate("/v1/vms/b/redeploy")
            node.approve("b", own["id"])
            node.advance("10m")
        assert {event["type"] for event in node.operate("/v1/events?vm=b", method="GET")} == set()
        assert "Scheduled" not in node.statuses("a") + node.statuses("web-0")


def test_C07_what_does_not_go_together_is_refused():
    """A limit on steps, and a consent that there is not."""
    with Node(SHARED) as node:
        plan = {"on": ["host=h1"], "type": "Reboot"}
        assert node.refusal("/v1/maintenances", {**plan, "consent": "host", "at_once": 1})[0] == 422
        assert node.refusal("/v1/maintenances", {**plan, "consent": "world"})[0] == 400
