"""Tokens and roles over real HTTP: who may do what, and what the journal remembers of it (S35)."""

import contextlib
import http.client
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duenotice.domain.token import Role
from duenotice.operator_api.app import OperatorApi
from tests.support.node import SECONDS, Node

FLEET = """
[[vms]]
name = "db-0"
address = "127.0.1.10"
"""


@pytest.fixture
def node() -> Iterator[Node]:
    """A node with one VM."""
    with Node(FLEET) as running:
        yield running


def status(node: Node, token: str, method: str, path: str) -> int:
    """What becomes of a call with a token."""
    connection = http.client.HTTPConnection(*node.operator_address, timeout=SECONDS)
    try:
        connection.request(method, path, headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status
    finally:
        connection.close()


@contextlib.contextmanager
def listening(node: Node, token: str) -> Iterator[http.client.HTTPResponse]:
    """The feed as it comes in."""
    connection = http.client.HTTPConnection(*node.operator_address, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", "/v1/feed", headers={"Authorization": f"Bearer {token}"})
        yield connection.getresponse()


def create(node: Node, name: str, role: Role) -> Any:
    return node.operate("/v1/tokens", {"name": name, "role": role.value})


WHO_MAY = {
    "anybody": """
        GET /livez
        GET /readyz
        GET /version
        GET /metrics
        GET /openapi.json
    """,
    "viewer": """
        GET /v1/vms
        GET /v1/vms/{name}
        GET /v1/vms/{name}/document
        GET /v1/groups
        GET /v1/groups/{kind}/{name}
        GET /v1/hosts
        GET /v1/hosts/{name}
        GET /v1/fleet
        GET /v1/events
        GET /v1/events/{id}
        GET /v1/events/{id}/history
        GET /v1/history
        GET /v1/maintenances
        GET /v1/maintenances/{id}
        GET /v1/clock
        GET /v1/azure
        GET /v1/audit
        GET /v1/feed
        GET /v1/me
        GET /v1/states
        GET /v1/attention
        GET /v1/timeline
        GET /v1/timeline/{id}
        GET /v1/event-table
        GET /v1/search
        GET /v1/vm-table
        GET /v1/maintenances/{id}/steps
        GET /v1/maintenances/{id}/outlook
        GET /v1/subscriptions
        GET /v1/subscriptions/{id}
        GET /v1/nodes
    """,
    "operator": """
        POST /v1/vms/{name}/listen
        POST /v1/vms/{name}/restart
        POST /v1/vms/{name}/redeploy
        POST /v1/vms/{name}/delete
        POST /v1/vms/{name}/evict
        PUT /v1/vms/{name}/policy
        PUT /v1/groups/{kind}/{name}/policy
        POST /v1/scale-sets/{name}/scale
        POST /v1/scale-sets/{name}/delete-instances
        POST /v1/hosts/{name}/drain
        POST /v1/hosts/{name}/hold
        POST /v1/hosts/{name}/return
        POST /v1/hosts/{name}/leave
        POST /v1/hosts/{name}/degrade
        POST /v1/hosts/{name}/fail
        POST /v1/hosts/{name}/repair
        POST /v1/events
        POST /v1/events/{id}/approve
        POST /v1/events/{id}/report
        POST /v1/events/{id}/acknowledge
        POST /v1/events/{id}/cancel
        POST /v1/maintenances
        POST /v1/maintenances/{id}/pause
        POST /v1/maintenances/{id}/resume
        POST /v1/maintenances/{id}/retry
        POST /v1/maintenances/{id}/acknowledge
        POST /v1/maintenances/{id}/cancel
        POST /v1/subscriptions
        DELETE /v1/subscriptions/{id}
        POST /v1/subscriptions/{id}/pause
        POST /v1/subscriptions/{id}/resume
        POST /v1/subscriptions/{id}/replay
    """,
    "admin": """
        PUT /v1/fleet
        PUT /v1/vms/{name}/fault
        DELETE /v1/vms/{name}/fault
        POST /v1/vms/{name}/jump
        POST /v1/clock/advance
        POST /v1/clock/speed
        GET /v1/tokens
        POST /v1/tokens
        DELETE /v1/tokens/{id}
    """,
    "follower": """
        GET /v1/follow/snapshot
        GET /v1/follow/records
        POST /v1/follow/beat
        POST /v1/follow/command
    """,
}
"""The least that one must be for each call: written by hand, so that a wrong role in the table is seen."""

RANKS = ["anybody", "viewer", "operator", "admin", "follower"]
MATRIX = [
    (method, path, needed)
    for needed, calls in WHO_MAY.items()
    for method, path in (line.split() for line in calls.split("\n") if line.strip())
]


@pytest.fixture(scope="module")
def everybody() -> Iterator[tuple[Node, dict[str, str]]]:
    """A node, and a token of each role; anybody has one that nobody knows."""
    with Node(FLEET) as running:
        made = {role.value: create(running, f"{role.value}-1", role)["token"] for role in Role}
        yield running, made | {"anybody": "dn_nobody_knows_this_one"}


def test_the_matrix_has_every_call_and_only_those(node: Node) -> None:
    """A call that is new has to be added here, with the role that may use it."""
    table = {(call.method, call.path) for call in OperatorApi(node.service.engine, node.service.ticker).calls}
    assert {(method, path) for method, path, _ in MATRIX} == table


@pytest.mark.parametrize("who", RANKS)
@pytest.mark.parametrize(("method", "path", "needed"), MATRIX)
def test_a_role_may_do_what_it_may_and_nothing_else(
    everybody: tuple[Node, dict[str, str]], method: str, path: str, needed: str, who: str
) -> None:
    """401 without a token that is known, 403 with one whose role is too small, else the call is heard."""
    node, tokens = everybody
    named = path.replace("{id}", "x").replace("{name}", "nobody").replace("{kind}", "set")
    ranks = RANKS[:4] if needed != "follower" else []
    allowed = needed == "anybody" or who == needed or (who in ranks and ranks.index(who) >= ranks.index(needed))
    refusal = 401 if who == "anybody" else 403
    found = status(node, tokens[who], method, named)
    assert (found not in (401, 403) and found < 500) if allowed else found == refusal


def test_a_viewer_may_listen_to_the_feed(node: Node) -> None:
    """It only reads."""
    assert status(node, create(node, "v", Role.VIEWER)["token"], "GET", "/v1/feed") == 200


def test_a_revoked_token_hears_the_feed_no_more(node: Node) -> None:
    """Who listens with it is let go, at once and without a word of what comes after; others stay."""
    made = {name: create(node, name, Role.VIEWER) for name in ("gone", "stays")}
    with listening(node, made["gone"]["token"]) as gone, listening(node, made["stays"]["token"]) as stays:
        node.operate(f"/v1/tokens/{made['gone']['id']}", method="DELETE")
        after_the_first_frame = [[answer.readline() for _ in range(5)][4] for answer in (gone, stays)]
    assert after_the_first_frame == [b"", b"event: token-revoked\n"]


def test_a_secret_is_shown_once_and_stored_nowhere(tmp_path: Path) -> None:
    """Neither in lists nor in the journal; the admin's is in its file, for its owner only."""
    data = tmp_path / "data"
    with Node(FLEET, data_dir=str(data)) as node:
        made = create(node, "ci", Role.OPERATOR)
        assert set(made) == {"id", "name", "role", "created_at", "token"}
        assert made["token"] not in str(node.operate("/v1/tokens", method="GET"))
        secrets = (made["token"].encode(), node.token.encode())
    for file in data.iterdir():
        if file.name == "admin.token":
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
        else:
            assert not any(secret in file.read_bytes() for secret in secrets), file


def test_what_a_token_does_is_remembered_under_its_name(node: Node) -> None:
    """In the audit trail."""
    node.enable("db-0")
    secret, node.token = node.token, create(node, "ci", Role.OPERATOR)["token"]
    node.schedule("Reboot", "db-0")
    node.token = secret
    (raised,) = node.operate("/v1/audit?action=event-raised", method="GET")
    assert raised["actor"] == "token/ci"
    (created,) = node.operate("/v1/audit?action=token-created&actor=token/admin", method="GET")
    assert "digest" not in str(created)


def test_a_revoked_token_lets_nobody_in(node: Node) -> None:
    """At once; and the last admin's stays."""
    made = create(node, "ci", Role.VIEWER)
    assert status(node, made["token"], "GET", "/v1/events") == 200
    assert node.operator("DELETE", f"/v1/tokens/{made['id'][:13].lower()}").status == 204
    assert status(node, made["token"], "GET", "/v1/events") == 401
    (admin,) = node.operate("/v1/tokens", method="GET")
    assert node.refusal(f"/v1/tokens/{admin['id']}", method="DELETE") == (409, "This is the last admin token.")


@pytest.mark.parametrize(
    ("body", "expected"),
    [({"name": "admin", "role": "viewer"}, 409), ({"name": "a b", "role": "viewer"}, 422), ({"name": "a"}, 400),
     ({"name": "a", "role": "king"}, 400)],
)  # fmt: skip
def test_a_token_that_makes_no_sense_is_refused(node: Node, body: Any, expected: int) -> None:
    """One clear line."""
    answer = node.operator("POST", "/v1/tokens", body)
    assert (answer.status, bool(answer.json()["hint"])) == (expected, True)


def test_tokens_survive_a_restart_and_a_revoked_one_does_not_come_back(tmp_path: Path) -> None:
    """Not even the one in admin.token."""
    data = str(tmp_path / "data")
    with Node(FLEET, data_dir=data) as node:
        first, mine = node.token, create(node, "mine", Role.ADMIN)["token"]
        tokens = {token["name"]: token["id"] for token in node.operate("/v1/tokens", method="GET")}
        node.operate(f"/v1/tokens/{tokens['admin']}", method="DELETE")
    with Node(data_dir=data) as node:
        assert status(node, mine, "GET", "/v1/tokens") == 200
        assert status(node, first, "GET", "/v1/tokens") == 401


def test_a_data_directory_with_a_token_file_from_before_keeps_it(tmp_path: Path) -> None:
    """An upgrade locks nobody out."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "admin.token").touch(0o600)
    (data / "admin.token").write_text("dn_a-token-from-before\n")
    with Node(FLEET, data_dir=str(data)) as node:
        assert status(node, "dn_a-token-from-before", "GET", "/v1/tokens") == 200


def test_whoever_lost_the_admin_token_deletes_its_file_and_starts_again(tmp_path: Path) -> None:
    """The new one takes the place of the old."""
    data = tmp_path / "data"
    with Node(FLEET, data_dir=str(data)) as node:
        lost = node.token
    (data / "admin.token").unlink()
    with Node(data_dir=str(data)) as node:
        assert status(node, lost, "GET", "/v1/tokens") == 401
        assert status(node, node.token, "GET", "/v1/tokens") == 200
