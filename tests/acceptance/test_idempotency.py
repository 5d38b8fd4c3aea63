"""What timed out took effect at most once (S6): the same request with the same key again, also after a restart."""

import contextlib
import http.client
import json
from pathlib import Path
from typing import Any

from duenotice.operator_api.app import OperatorApi
from tests.acceptance.conftest import DEMO
from tests.support.node import SECONDS, Answer, Node, Outside

REBOOT = {"type": "Reboot", "resources": ["db-0"]}


def ask(node: Outside, path: str, body: Any, key: str = "k-1") -> Answer:
    """A POST with an Idempotency-Key."""
    with contextlib.closing(http.client.HTTPConnection(*node.operator_address, timeout=SECONDS)) as connection:
        headers = {"Authorization": f"Bearer {node.token}", "Idempotency-Key": key}
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())


def everything(node: Node) -> list[tuple[str, str, Any]]:
    """A request for each kind of answer: a key, its path, its body."""
    event, other = node.schedule("Reboot", "db-0"), node.schedule("Freeze", "db-1")
    plan = node.operate("/v1/maintenances", {"on": ["service=shop"], "type": "Reboot"})["id"]
    return [
        ("listen", "/v1/vms/me/listen", None),
        ("restart", "/v1/vms/me/restart", None),
        ("schedule", "/v1/events", REBOOT),
        ("approve", f"/v1/events/{event}/approve", None),
        ("cancel", f"/v1/events/{other}/cancel", {"reason": "no"}),
        ("fail", "/v1/hosts/host-1/fail", None),
        ("drain", "/v1/hosts/host-3/drain", {}),
        ("scale", "/v1/scale-sets/workers/scale", {"by": 2}),
        ("delete", "/v1/scale-sets/workers/delete-instances", {"instances": ["workers_0"]}),
        ("pause", f"/v1/maintenances/{plan}/pause", None),
        ("plan", "/v1/maintenances", {"on": ["vm=db-1"], "type": "Freeze"}),
        ("advance", "/v1/clock/advance", {"by": "15m"}),
    ]


def test_after_a_restart_every_answer_is_given_again_and_nothing_is_done_again(tmp_path: Path) -> None:
    """Byte for byte, with its Location, also when what it was about is long gone."""
    with Node(DEMO, data_dir=str(tmp_path / "data")) as node:
        node.enable("me", "db-0", "db-1", "workers_0", "web-0")
        asked = everything(node)
        first = [ask(node, path, body, key) for key, path, body in asked]
        assert {answer.status for answer in first} <= {200, 201}, first
        assert all("idempotent-replayed" not in answer.headers for answer in first)
        node.advance("3h")
    with Node(DEMO, data_dir=str(tmp_path / "data")) as node:
        before = node.operate("/v1/audit?limit=1000&action=", method="GET")
        again = [ask(node, path, body, key) for key, path, body in asked]
        assert [(a.status, a.body, a.headers.get("location")) for a in again] == [
            (a.status, a.body, a.headers.get("location")) for a in first
        ]
        assert {answer.headers["idempotent-replayed"] for answer in again} == {"true"}
        assert node.operate("/v1/audit?limit=1000&action=", method="GET") == before
        assert ask(node, "/v1/vms/me/redeploy", None, "restart").status == 422


def test_every_post_that_changes_something_keeps_its_answer(node: Node) -> None:
    """All but those whose answer is a secret, and those of which a second changes nothing: those of followers."""
    posts = {call.path for call in OperatorApi(node.service.engine, node.service.ticker).calls if call.method == "POST"}
    asked = {path.replace("me", "{name}") for _, path, _ in everything(node)}
    like = {"/v1/vms/{name}/redeploy", "/v1/vms/{name}/delete", "/v1/vms/{name}/evict"}
    like |= {"/v1/hosts/{name}/degrade", "/v1/hosts/{name}/repair", "/v1/hosts/{name}/hold", "/v1/clock/speed"}
    like |= {"/v1/hosts/{name}/return", "/v1/hosts/{name}/leave"}
    like |= {"/v1/events/{id}/report", "/v1/events/{id}/acknowledge", "/v1/vms/{name}/jump"}
    like |= {f"/v1/maintenances/{{id}}/{turn}" for turn in ("resume", "cancel", "retry", "acknowledge")}
    like |= {f"/v1/subscriptions/{{id}}/{turn}" for turn in ("pause", "resume", "replay")}
    shapes = {shape(path) for path in asked | like}
    not_kept = {"/v1/tokens", "/v1/subscriptions", "/v1/follow/beat", "/v1/follow/command"}
    assert {shape(path) for path in posts} - shapes == not_kept


def shape(path: str) -> str:
    """A path of ours without what it names."""
    parts = path.split("/")
    return "/".join("*" if place == 3 and len(parts) > 4 else part for place, part in enumerate(parts))


def test_that_time_was_told_to_pass_is_durable_before_it_does(node: Node) -> None:
    """That time was told to pass is durable before it does: a crash on the way must not let it pass twice."""
    node.enable("db-0")
    node.schedule("Reboot", "db-0")
    ask(node, "/v1/clock/advance", {"by": "15m"})
    (answered,) = node.operate("/v1/audit?action=request-answered", method="GET")
    (started,) = node.operate("/v1/audit?action=event-started", method="GET")
    assert answered["position"] < started["position"]
    assert answered["details"] == {"status": 200, "location": ""}


def test_a_new_token_of_an_old_name_does_not_get_the_old_answer() -> None:
    """A key belongs to the token that used it: the name may be somebody else's by now."""
    with Node(DEMO) as node:
        node.enable("db-0")
        admin = node.token
        first = node.operate("/v1/tokens", {"name": "ci", "role": "operator"})
        node.token = first["token"]
        before = ask(node, "/v1/events", REBOOT)
        node.token = admin
        node.operate(f"/v1/tokens/{first['id']}", method="DELETE")
        node.token = node.operate("/v1/tokens", {"name": "ci", "role": "operator"})["token"]
        after = ask(node, "/v1/events", REBOOT)
        assert "idempotent-replayed" not in after.headers
        assert before.json()["events"][0]["id"] != after.json()["events"][0]["id"]
        assert ask(node, "/v1/events", REBOOT).headers["idempotent-replayed"] == "true"


def test_a_request_with_two_keys_is_refused(node: Node) -> None:
    """Which of them counts would be a guess. Nothing is done."""
    with contextlib.closing(http.client.HTTPConnection(*node.operator_address, timeout=SECONDS)) as connection:
        connection.putrequest("POST", "/v1/events")
        body = json.dumps(REBOOT).encode()
        headers = [("Authorization", f"Bearer {node.token}"), ("Content-Length", str(len(body)))]
        for name, value in [*headers, ("Idempotency-Key", "k-1"), ("Idempotency-Key", "k-2")]:
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        assert (answer.status, "more than one Idempotency-Key" in answer.read().decode()) == (400, True)
    assert not node.operate("/v1/events", method="GET")
