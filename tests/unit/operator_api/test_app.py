"""The operator's door over real HTTP: who may enter, what a problem looks like, and each status (PROMISES, Doors)."""

import http.client
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from duenotice import __version__
from duenotice.operator_api.app import OperatorApi
from duenotice.operator_api.calls import Call
from tests.support.node import SECONDS, Answer, Node

FLEET = """
[[hosts]]
name = "host-1"
[[hosts]]
name = "host-2"
[[vms]]
name = "db-0"
address = "127.0.1.10"
host = "host-1"
[[vms]]
name = "spot-0"
address = "127.0.1.11"
spot = true
[[availability_sets]]
name = "web"
vms = [
  { name = "web-0", address = "127.0.2.1", update_domain = 0 },
  { name = "web-1", address = "127.0.2.2", update_domain = 1 },
]
"""


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node that these tests ask but do not change for each other."""
    with Node(FLEET) as running:
        yield running


@pytest.fixture
def fresh() -> Iterator[Node]:
    """A node of one's own, with VMs that listen."""
    with Node(FLEET) as running:
        for vm in ("db-0", "spot-0", "web-0"):
            running.document(vm)
        yield running


def anonymous(node: Node, method: str, path: str, headers: dict[str, str]) -> Answer:
    """A call with just these headers."""
    connection = http.client.HTTPConnection(*node.service.operator_address, timeout=SECONDS)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def calls_of(node: Node) -> list[Call]:
    """The whole table of a node."""
    return OperatorApi(node.service.engine, node.service.ticker).calls


def path_of(call: Call) -> str:
    """A path that this call answers to, and that names nothing there is."""
    return call.path.replace("{id}", "x").replace("{name}", "nobody").replace("{kind}", "set")


def is_problem(answer: Answer, status: int) -> bool:
    """Whether an answer is an RFC 9457 problem with this status, in the header and in the body."""
    body = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(body) - {"look_at"} == {"type", "status", "title", "hint"}
    assert body["title"]
    return bool(answer.status == body["status"] == status)


class TestWhoMayEnter:
    """A token on every call, from wherever it comes."""

    def test_without_a_token_no_route_lets_anybody_in_loopback_included(self, node: Node) -> None:
        for call in calls_of(node):
            if call.path.startswith("/v1"):
                answer = anonymous(node, call.method, path_of(call), {})
                assert is_problem(answer, 401), call
                assert answer.headers["www-authenticate"] == "Bearer"
                assert "admin.token" in answer.json()["hint"]

    @pytest.mark.parametrize(
        "header", ["Bearer", "Bearer ", "Bearer wrong", "Bearer é", "Basic {token}", "{token}", "Bearer x{token}"]
    )
    def test_with_a_wrong_token_neither(self, node: Node, header: str) -> None:
        value = header.format(token=node.service.token)
        assert anonymous(node, "GET", "/v1/events", {"Authorization": value}).status == 401

    @pytest.mark.parametrize("header", ["Bearer {token}", "bearer {token}", "BEARER  {token} "])
    def test_with_the_token_one_is_in(self, node: Node, header: str) -> None:
        value = header.format(token=node.service.token)
        assert anonymous(node, "GET", "/v1/events", {"Authorization": value}).status == 200

    def test_a_token_in_the_address_is_no_token(self, node: Node) -> None:
        """It would end up in logs."""
        assert anonymous(node, "GET", f"/v1/events?token={node.service.token}", {}).status == 401

    def test_whether_it_lives_anybody_may_know(self, node: Node) -> None:
        assert anonymous(node, "GET", "/livez", {}).json() == {"status": "ok"}
        assert anonymous(node, "GET", "/readyz", {}).json() == {"status": "ok"}
        said = anonymous(node, "GET", "/version", {}).json()
        assert (said["version"], said["api_versions"][0]) == (__version__, "2020-07-01")

    def test_who_is_not_let_in_changes_nothing(self, fresh: Node) -> None:
        anonymous(fresh, "POST", "/v1/vms/db-0/restart", {})
        assert fresh.operate("/v1/events", method="GET") == []


class TestProblems:
    """Every error is a problem that says what to do."""

    @pytest.mark.parametrize(
        ("method", "path", "body", "status", "words"),
        [
            # the bytes are wrong
            ("POST", "/v1/events", b"{", 400, "is not valid"),
            ("POST", "/v1/events", b"[" * 10_000, 400, "is not valid"),
            ("POST", "/v1/events", b"\xff", 400, "is not valid"),
            ("POST", "/v1/events", {}, 400, "type"),
            ("POST", "/v1/events", {"type": "Reboot", "resources": "db-0"}, 400, "resources"),
            ("POST", "/v1/events", {"type": "Reboot", "resources": ["db-0"], "when": 1}, 400, "when"),
            ("POST", "/v1/events", {"type": "Explode", "resources": ["db-0"]}, 400, "is not an event type"),
            ("POST", "/v1/events", {"type": "Reboot", "resources": ["db-0"], "cause": "x"}, 400, "is not a cause"),
            (
                "POST",
                "/v1/events",
                {"type": "Reboot", "resources": ["db-0"], "not_before": "2026-01-01T00:00:00"},
                400,
                "has no offset",
            ),
            (
                "POST",
                "/v1/events",
                {"type": "Reboot", "resources": ["db-0"], "not_before": "9999-12-31T23:59:59-01:00"},
                400,
                "is out of range",
            ),
            ("POST", "/v1/clock/advance", {"by": "soon"}, 400, "is not a span of time"),
            ("POST", "/v1/clock/advance", {"by": "9" * 30}, 400, "is not a span of time"),
            ("POST", "/v1/clock/advance", {"for": "5m"}, 400, "for"),
            ("POST", "/v1/hosts/host-1/degrade", {"notice": "soon"}, 400, "is not a span of time"),
            ("PUT", "/v1/fleet", b"\xff", 400, "not UTF-8"),
            ("PUT", "/v1/fleet?dry_run=yes", b"", 400, "dry_run=yes is not valid"),
            ("PUT", "/v1/fleet?dry_run=", b"", 400, "dry_run= is not valid"),
            ("GET", "/v1/vms?limit=", None, 400, "limit= is not valid"),
            ("GET", "/v1/vms?limit=1&limit=2", None, 400, "limit is given more than once"),
            ("GET", "/v1/vms?hots=host-1", None, 400, "does not know 'hots'"),
            ("POST", "/v1/maintenances?dryrun=true", b"{}", 400, "does not know 'dryrun'"),
            ("PUT", "/v1/fleet?dry-run=true", b"", 400, "does not know 'dry-run'"),
            ("POST", "/v1/hosts/host-1/drain?dry_run=true", b"{}", 400, "does not know 'dry_run'"),
            ("GET", "/v1/audit?cursor=1&cursor=2", None, 400, "cursor is given more than once"),
            ("GET", "/v1/audit?cursor=x", None, 400, "cursor=x is not valid"),
            ("GET", "/v1/events?phase=", None, 400, "is not a phase"),
            ("GET", "/v1/events?type=", None, 400, "is not an event type"),
            # there is no such thing
            ("GET", "/v1/nothing", None, 404, "Not Found"),
            ("GET", "/v1/nothing", None, 404, "Not Found"),
            ("GET", "/v1/events/x", None, 404, "There is no event x"),
            ("POST", "/v1/events/x/approve", None, 404, "There is no event x"),
            ("POST", "/v1/events/x/cancel", None, 404, "There is no event x"),
            ("POST", "/v1/vms/nobody/restart", None, 404, "no VM named 'nobody'"),
            ("POST", "/v1/vms/db-0/dance", None, 404, "Not Found"),
            ("POST", "/v1/hosts/host-9/fail", None, 404, "no host named 'host-9'"),
            ("POST", "/v1/hosts/host-1/dance", None, 404, "Not Found"),
            ("POST", "/v1/events", {"type": "Reboot", "resources": ["nobody"]}, 404, "no VM named"),
            # not this way
            ("DELETE", "/v1/events", None, 405, "Method Not Allowed"),
            ("POST", "/v1/fleet", None, 405, "Method Not Allowed"),
            ("POST", "/livez", None, 405, "Method Not Allowed"),
            # the rules forbid it
            ("POST", "/v1/events", {"type": "Reboot", "resources": []}, 422, "needs VMs"),
            ("POST", "/v1/events", {"type": "Reboot", "resources": ["web-0", "web-1"]}, 422, "same update domain"),
            ("POST", "/v1/events", {"type": "Preempt", "resources": ["db-0"]}, 422, "not a spot VM"),
            ("POST", "/v1/events", {"type": "Reboot", "resources": ["db-0"], "duration": -9}, 422, "out of bounds"),
            (
                "POST",
                "/v1/events",
                {"type": "Reboot", "resources": ["db-0"], "not_before": "2020-01-01T00:00:00Z"},
                422,
                "minimum notice",
            ),
            (
                "POST",
                "/v1/events",
                {"type": "Reboot", "resources": ["db-0"], "not_before": "9999-12-31T23:59:59.999999Z"},
                422,
                "more than a year ahead",
            ),
            ("POST", "/v1/vms/db-0/evict", None, 422, "not a spot VM"),
            ("POST", "/v1/hosts/host-1/degrade", {"notice": "1m"}, 422, "out of bounds"),
            ("PUT", "/v1/fleet", b"[[vm]]", 422, "unknown key 'vm'"),
        ],
    )
    def test_it_has_its_status_and_says_what_is_wrong(
        self, node: Node, method: str, path: str, body: object, status: int, words: str
    ) -> None:
        answer = node.operator(method, path, body)
        assert is_problem(answer, status), answer
        assert words in answer.json()["title"]

    @pytest.mark.parametrize(
        "path",
        [
            "/v1/audit?to=9999-12-31T23:59:59Z",
            "/v1/audit?from=0001-01-01T00:00:01Z",
            "/v1/history?from=9999-12-01T00:00:00Z&to=9999-12-31T23:59:59Z",
        ],
    )
    def test_the_first_and_the_last_day_that_there_are_can_be_asked_for(self, node: Node, path: str) -> None:
        assert node.operator("GET", path).status == 200

    def test_a_clock_at_the_end_of_all_dates_leaves_room_for_what_comes_later(self, fresh: Node) -> None:
        """No call counts beyond the last date that there is."""
        while (days := (datetime(9989, 12, 31, tzinfo=UTC) - fresh.now()).days) > 0:
            fresh.advance(f"{min(days, 36_600)}d")
        for path in ("/v1/timeline", "/v1/attention", "/v1/history", "/v1/event-table"):
            assert fresh.operator("GET", path).status == 200, path
        asked = {"on": ["set=web"], "type": "Reboot", "window": "daily 01:00-02:00", "settle": "7d"}
        for path in ("/v1/maintenances?dry_run=true", "/v1/maintenances"):
            assert fresh.operator("POST", path, asked).status in (200, 201), path
        for path, body in (("/v1/hosts/host-1/degrade", {"notice": "7d"}), ("/v1/hosts/host-1/fail", {})):
            assert fresh.operator("POST", path, body).status in (200, 201), path
        assert is_problem(fresh.operator("POST", "/v1/clock/advance", {"by": "2d"}), 422)

    def test_every_refusal_of_ours_has_a_hint(self, node: Node) -> None:
        for path in ("/v1/events/x/cancel", "/v1/vms/db-0/evict", "/v1/hosts/host-9/fail"):
            assert node.operator("POST", path).json()["hint"]

    def test_a_wrong_method_is_told_the_right_ones(self, node: Node) -> None:
        allowed = node.operator("DELETE", "/v1/events").headers["allow"]
        assert set(allowed.split(", ")) == {"GET", "HEAD", "POST"}

    def test_what_clashes_is_409(self, fresh: Node) -> None:
        fresh.operate("/v1/vms/db-0/restart")
        assert is_problem(fresh.operator("POST", "/v1/vms/db-0/restart"), 409)
        event_id = fresh.schedule("Reboot", "web-0")
        fresh.operate(f"/v1/events/{event_id}/approve")
        answer = fresh.operator("POST", f"/v1/events/{event_id}/cancel")
        assert is_problem(answer, 409)
        assert "already started" in answer.json()["title"]

    def test_after_all_these_mistakes_the_service_is_well(self, node: Node) -> None:
        """S23: no input, however odd, stops the engine."""
        assert node.operate("/v1/events", method="GET") == []
        assert not node.service.engine.failed.done()


class TestEvents:
    """What an operator does with events."""

    def test_a_scheduled_event_is_listed_shown_approved_and_gone(self, fresh: Node) -> None:
        event_id = fresh.schedule("Freeze", "web-0", description="Rack move", duration=5)
        (listed,) = fresh.operate("/v1/events", method="GET")
        assert listed == fresh.operate(f"/v1/events/{event_id.lower()}", method="GET")
        assert (listed["phase"], listed["description"], listed["duration"]) == ("scheduled", "Rack move", 5)
        assert fresh.operator("POST", f"/v1/events/{event_id.lower()}/approve").json()["phase"] == "started"
        shown = fresh.operate(f"/v1/events/{event_id}", method="GET")
        assert (shown["phase"], shown["approved_by"]) == ("started", "operator")
        fresh.advance("10m")
        assert fresh.operator("GET", f"/v1/events/{event_id}").status == 404

    def test_a_cancelled_event_is_gone(self, fresh: Node) -> None:
        event_id = fresh.schedule("Reboot", "db-0")
        assert fresh.operator("POST", f"/v1/events/{event_id}/cancel").json()["id"] == event_id
        assert fresh.events("db-0") == []

    def test_what_raises_an_event_is_201_with_the_event(self, fresh: Node) -> None:
        for act in ("vms/db-0/restart", "vms/db-0/redeploy", "vms/spot-0/evict", "hosts/host-1/degrade"):
            answer = fresh.operator("POST", f"/v1/{act}")
            assert answer.status == 201, act
            (event,) = answer.json()["events"]
            assert answer.headers["location"] == f"/v1/events/{event['id']}"

    def test_what_raises_none_is_200_with_no_events(self, node: Node) -> None:
        """Nobody listens (F03)."""
        answer = node.operator("POST", "/v1/vms/web-1/restart")
        assert (answer.status, answer.json()) == (200, {"events": []})

    def test_a_moment_may_be_asked_for_with_any_offset(self, fresh: Node) -> None:
        now = datetime.fromisoformat(fresh.operate("/v1/clock", method="GET")["now"]).astimezone(UTC)
        asked = f"{now.year + 1}-01-15T10:00:00+02:00"
        event = fresh.operate("/v1/events", {"type": "Reboot", "resources": ["db-0"], "not_before": asked})[0]
        assert event["not_before"] == f"{now.year + 1}-01-15T08:00:00Z"


class TestFleetAndClock:
    """Applying a fleet, reading and advancing the clock."""

    def test_a_fleet_is_applied_and_the_same_again_changes_nothing(self, fresh: Node) -> None:
        more = FLEET + '[[vms]]\nname = "new"\naddress = "127.0.9.9"\n'
        change = {"added": ["new"], "removed": [], "changed": [], "changes": 2}
        assert fresh.operate("/v1/fleet?dry_run=true", more.encode(), "PUT") == change | {"dry_run": True}
        assert fresh.operate("/v1/fleet", method="GET")["vms"] == 4
        assert fresh.operate("/v1/fleet", more.encode(), "PUT") == change | {"dry_run": False}
        none = {"added": [], "removed": [], "changed": [], "changes": 0, "dry_run": False}
        assert fresh.operate("/v1/fleet", more.encode(), "PUT") == none

    def test_a_manual_clock_advances_by_what_it_is_told(self, fresh: Node) -> None:
        before = fresh.operate("/v1/clock", method="GET")
        after = fresh.operate("/v1/clock/advance", {"by": "1h30m"})
        assert before["clock"] == after["clock"] == "manual"
        passed = datetime.fromisoformat(after["now"]) - datetime.fromisoformat(before["now"])
        assert passed.total_seconds() == 5400

    def test_a_real_clock_cannot_be_told(self) -> None:
        with Node(FLEET, clock="real") as real:
            answer = real.operator("POST", "/v1/clock/advance", {"by": "1h"})
            assert is_problem(answer, 422)
            assert answer.json()["hint"] == "Use --clock manual."
