"""How the operator's API behaves at its edges: repeated requests, its description, its numbers, exact methods."""

import http.client
import json
import re
from typing import Any

import pytest

from duenotice.clock import MICROS
from duenotice.operator_api.app import OperatorApi
from tests.support.node import SECONDS, Answer, Node

REBOOT = {"type": "Reboot", "resources": ["db-0"]}


def post(node: Node, key: str, body: Any, path: str = "/v1/events") -> Answer:
    """A POST with an Idempotency-Key."""
    connection = http.client.HTTPConnection(*node.operator_address, timeout=SECONDS)
    try:
        headers = {"Authorization": f"Bearer {node.token}", "Idempotency-Key": key}
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def events(node: Node) -> list[Any]:
    return list(node.operate("/v1/events", method="GET"))


def test_the_same_request_with_the_same_key_is_done_once(node: Node) -> None:
    """And answered alike, Location and all."""
    node.enable("db-0")
    first, second = post(node, "k-1", REBOOT), post(node, "k-1", REBOOT)
    assert (first.status, first.body, first.headers["location"]) == (201, second.body, second.headers["location"])
    assert (second.status, second.headers["idempotent-replayed"]) == (201, "true")
    assert len(events(node)) == 1
    post(node, "k-2", REBOOT)
    assert len(events(node)) == 2


def test_a_key_for_another_request_is_422(node: Node) -> None:
    """Another body or another path."""
    node.enable("db-0")
    post(node, "k-1", REBOOT)
    for answer in (post(node, "k-1", REBOOT | {"duration": 5}), post(node, "k-1", REBOOT, "/v1/vms/db-0/restart")):
        assert (answer.status, bool(answer.json()["hint"])) == (422, True)
    assert len(events(node)) == 1


def test_a_refused_request_may_be_asked_again_with_its_key(node: Node) -> None:
    """It has changed nothing."""
    node.enable("db-0")
    assert post(node, "k-1", {}, "/v1/vms/nobody/restart").status == 404
    assert post(node, "k-1", REBOOT).status == 201


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_has_1_to_255_characters(node: Node, key: str) -> None:
    """Anything else is a mistake and told so."""
    assert post(node, key, REBOOT).status == 400


def test_a_secret_is_not_kept_for_a_second_answer(node: Node) -> None:
    """It is shown once, whatever the key; the name is taken by then."""
    token = {"name": "ci", "role": "viewer"}
    assert [post(node, "k-1", token, "/v1/tokens").status for _ in range(2)] == [201, 409]


def test_a_body_beyond_all_use_is_refused(node: Node) -> None:
    """Before it is read as anything."""
    assert node.refusal("/v1/events", b" " * (256 * 1024 + 1)) == (413, "The body is larger than 262144 bytes.")


def test_a_token_s_keys_are_its_own(node: Node) -> None:
    """Nobody meets another's answers."""
    node.enable("db-0")
    post(node, "k-1", REBOOT)
    node.token = node.operate("/v1/tokens", {"name": "ci", "role": "operator"})["token"]
    assert "idempotent-replayed" not in post(node, "k-1", REBOOT).headers


def test_the_description_has_every_call_and_only_those(node: Node) -> None:
    """With the role that each needs, and the schema of what it reads; every reference leads somewhere."""
    described = node.operate("/openapi.json", method="GET")
    table = {(call.path, call.method.lower()) for call in OperatorApi(node.service.engine, node.service.ticker).calls}
    paths = described["paths"]
    assert {(path, method) for path, methods in paths.items() for method in methods} == table
    assert paths["/v1/events"]["post"]["x-role"] == "operator"
    schemas = described["components"]["schemas"]
    assert set(schemas["ScheduleRequest"]["required"]) == {"type", "resources"}
    assert set(re.findall(r"#/components/schemas/(\w+)", json.dumps(described))) <= set(schemas)
    ids = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(ids) == len(set(ids))


def test_the_numbers_are_there_for_anybody_and_name_no_vm(node: Node) -> None:
    """Labels are bounded: types, phases, conditions, actions."""
    node.enable("db-0")
    node.schedule("Reboot", "db-0")
    answer = node.operator("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    text = answer.body.decode()
    assert 'duenotice_events{phase="scheduled",type="reboot"} 1.0' in text
    assert 'duenotice_records_total{action="event-raised"} 1.0' in text
    assert "duenotice_info{version=" in text
    assert "db-0" not in text
    assert all(line.startswith(("#", "duenotice_")) for line in text.splitlines())


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/events", {"GET", "HEAD", "POST"}),
        ("/v1/fleet", {"GET", "HEAD", "PUT"}),
        ("/v1/tokens/x", {"DELETE"}),
        ("/v1/vms/db-0/restart", {"POST"}),
    ],
)
def test_a_wrong_method_is_told_exactly_the_right_ones(node: Node, path: str, allowed: set[str]) -> None:
    """In Allow."""
    answer = node.operator("PATCH", path)
    assert (answer.status, set(answer.headers["allow"].split(", "))) == (405, allowed)


def test_the_pace_of_a_scaled_clock_can_be_set() -> None:
    """It goes on from where it is; a manual one has no pace."""
    with Node(clock="60x") as node:
        before = node.now()
        assert node.operate("/v1/clock/speed", {"speed": "1000x"})["clock"] == "1000x"
        assert (node.now() - before).total_seconds() < 3600
        assert node.service.engine.policy.commit_allowance == 1000 * MICROS
        assert node.operator("POST", "/v1/clock/speed", {"speed": "fast"}).status == 400
    with Node() as node:
        assert node.operator("POST", "/v1/clock/speed", {"speed": "60x"}).status == 422


def test_a_host_is_drained_by_a_maintenance_of_live_migrations(node: Node) -> None:
    """Of all the VMs that run there."""
    answer = node.operator("POST", "/v1/hosts/host-1/drain", {"settle": "1m"})
    plan = answer.json()
    assert (answer.status, answer.headers["location"]) == (201, f"/v1/maintenances/{plan['id']}")
    assert (plan["type"], plan["cause"]) == ("Freeze", "live-migration")
    hit = {name for step in node.steps(plan["id"]) for name in step["resources"]}
    assert hit == {vm["name"] for vm in node.operate("/v1/vms?host=host-1&limit=1000", method="GET")}
    assert node.operator("POST", "/v1/hosts/nobody/drain").status == 404


@pytest.mark.parametrize(
    ("body", "days"), [({}, 7), ({"risk": "low"}, 7), ({"risk": "high"}, 1), ({"notice": "3d"}, 3)]
)
def test_a_degraded_host_gives_notice_by_its_risk(node: Node, body: dict[str, str], days: int) -> None:
    """Low is seven days, high one (D03)."""
    node.enable("db-0")
    host = node.operate("/v1/vms/db-0", method="GET")["host"]
    raised = [event for event in node.operate(f"/v1/hosts/{host}/degrade", body) if "db-0" in event["resources"]]
    waits = node.now().fromisoformat(raised[0]["not_before"]) - node.now()
    assert round(waits.total_seconds() / 86_400, 2) == days
    assert node.operator("POST", f"/v1/hosts/{host}/degrade", {"risk": "odd"}).status == 400
