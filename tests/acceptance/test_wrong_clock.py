"""S34: the time of day is wrong for a moment, and nothing is given up by that; it loses no service either."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from duenotice.clock import LAST_READABLE, micros_of
from duenotice.domain.rules.timing import LAST_TOLD
from duenotice.wire.operator import SubscriptionRequest
from tests.acceptance.conftest import DEMO
from tests.acceptance.test_idempotency import ask
from tests.acceptance.test_maintenances import PLAN
from tests.cluster.trio import NodeServer
from tests.cluster.versions import wrong_clock
from tests.support.node import Node
from tests.support.push_receiver import PushReceiver
from tests.support.served import Served, wait_until

HOURS, DAYS = 3600, 86_400
BEYOND = int((LAST_READABLE - datetime.now(UTC)).total_seconds()) + 400 * DAYS
PUSH = {"push-allow": "127.0.0.0/8", "push-retry-after": "0.02", "push-timeout": "1"}


class OnAWrongClock(Served):
    """A service of its own on a machine whose time of day somebody sets."""

    def __init__(self, folder: Path) -> None:
        self._off = folder / "off-by"
        self._off.write_text("0")
        self.server = NodeServer(wrong_clock(self._off), folder / "data", DEMO, **PUSH)

    def set_clock(self, seconds: int) -> None:
        """Set it off by so much, and wait until the service has looked at it."""
        before = self._off.with_name("new")
        before.write_text(str(seconds))
        before.replace(self._off)
        wanted = min(datetime.now(UTC) + timedelta(seconds=seconds), LAST_READABLE)
        wait_until(lambda: abs(self._shown() - wanted) < timedelta(minutes=1))
        for _ in range(3):  # each lets all happen that is due by now
            self.operate("/v1/vms/db-1/listen")

    def _shown(self) -> datetime:
        return datetime.fromisoformat(self.operate("/v1/clock", method="GET")["now"])


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OnAWrongClock]:
    running = OnAWrongClock(tmp_path)
    with running:
        running.enable("web-0", "web-1", "web-2", "web-3", "db-0")
        yield running


@pytest.fixture
def receiver() -> Iterator[PushReceiver]:
    with PushReceiver() as running:
        yield running


def window(*hours: float) -> str:
    """A window from so many hours from now to so many hours from now."""
    begins, ends = (datetime.now(UTC) + timedelta(hours=each) for each in hours)
    return f"{begins:%Y-%m-%dT%H:%M:%SZ}/{ends:%Y-%m-%dT%H:%M:%SZ}"


def plan_of(node: Served, plan: Any) -> Any:
    return node.operate(f"/v1/maintenances/{plan['id']}", method="GET")


@pytest.mark.parametrize("wrong", [25 * HOURS, 2 * DAYS, -2 * DAYS, BEYOND], ids=["+25h", "+2d", "-2d", "beyond 2262"])
def test_a_clock_that_is_wrong_for_a_moment_loses_nothing(
    node: OnAWrongClock, receiver: PushReceiver, wrong: int
) -> None:
    """Two plans, one in its window and one before it, a message that waits, a request that is tried again (S34)."""
    receiver.answer = lambda _: 503
    with node.client() as client:
        known = client.create_subscription(SubscriptionRequest(receiver.url, "eventgrid"))
        wait_until(lambda: client.subscription(known.id).status == "active")
        inside = node.operate("/v1/maintenances", PLAN | {"window": window(0, 3)})
        before = node.operate("/v1/maintenances", PLAN | {"on": ["vm=db-0"], "window": window(5, 6)})
        told = node.events("web-0")
        first = ask(node, "/v1/vms/me/restart", {})
        wait_until(lambda: len(receiver.deliveries) > 2)
        node.set_clock(wrong)
        tries = len(receiver.deliveries)
        wait_until(lambda: len(receiver.deliveries) > tries + 2)
        assert node.events("web-0") == told
        node.set_clock(0)
        assert (plan_of(node, inside)["status"], plan_of(node, before)["status"]) == ("running", "running")
        assert plan_of(node, before)["waits_until"] == before["waits_until"]
        assert node.events("web-0") == told
        assert client.subscription(known.id).dead_letters == 0
        assert ask(node, "/v1/vms/me/restart", {}).body == first.body
        receiver.answer = lambda _: 200
        wait_until(lambda: (told[0]["EventId"], "Scheduled") in {each.told for each in receiver.taken})


YEARS_BEHIND = -41 * 365 * DAYS
"""A machine whose battery is empty begins in 1985, or thereabouts."""


def test_what_began_while_the_clock_was_41_years_behind_is_neither_early_nor_lost_when_it_is_right(
    node: OnAWrongClock, receiver: PushReceiver
) -> None:
    """Events with their notice, approvals, a plan, a message, a kept answer, a token, a session (S1, S2, S34)."""
    receiver.answer = lambda _: 503
    node.enable("render-0")
    node.set_clock(YEARS_BEHIND)
    with node.client() as client:
        known = client.create_subscription(SubscriptionRequest(receiver.url, "eventgrid"))
        wait_until(lambda: client.subscription(known.id).status == "active")
        viewer = node.operate("/v1/tokens", {"name": "of-1985", "role": "viewer"})["token"]
        cookie = node.cookie(viewer)
        reboot, first = node.schedule("Reboot", "web-0"), ask(node, "/v1/vms/me/restart", {})
        plan = node.operate("/v1/maintenances", PLAN | {"on": ["vm=web-1"]})
        begun = monotonic()
        evicted = node.operate("/v1/vms/render-0/evict", {})[0]["id"]
        told = {vm: node.events(vm) for vm in ("web-0", "render-0")}
        assert all(event["EventStatus"] == "Scheduled" for events in told.values() for event in events)
        wait_until(lambda: len(receiver.deliveries) > 2)
        node.set_clock(0)
        assert {vm: node.events(vm) for vm in told} == told
        assert plan_of(node, plan)["status"] == "running"
        assert ask(node, "/v1/vms/me/restart", {}).body == first.body
        assert _status(node, "/v1/me", {"Authorization": f"Bearer {viewer}"}) == 200
        assert _status(node, "/audit", {"Cookie": cookie}) == 200
        assert client.subscription(known.id).dead_letters == 0
        receiver.answer = lambda _: 200
        wait_until(lambda: {(reboot, "Scheduled"), (evicted, "Scheduled")} <= {each.told for each in receiver.taken})
        wait_until(lambda: node.events("render-0")[0]["EventStatus"] == "Started", seconds=90)
    assert monotonic() - begun >= 30
    assert node.events("web-0") == told["web-0"]
    assert node.approve("web-0", reboot).status == 200
    wait_until(lambda: node.events("web-0")[0]["EventStatus"] == "Started")


def _status(node: OnAWrongClock, path: str, headers: dict[str, str]) -> int:
    connection = HTTPConnection(*node.operator_address, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_clock_beyond_the_year_2262_ends_no_service_and_is_told_of_loudly(node: OnAWrongClock) -> None:
    """Python cannot read it; that had ended the operator's port, and with it the process."""
    node.set_clock(BEYOND)
    wait_until(lambda: "clock-unreadable" in node.server.log())
    (line,) = [json.loads(line) for line in node.server.log().splitlines() if "clock-unreadable" in line]
    assert (line["level"], line["hint"]) == ("error", "Set the clock right (NTP).")
    assert node.get("web-0").status == 200
    assert node.operator("GET", "/readyz").status == 200
    event_id = node.schedule("Reboot", "web-0")
    assert node.approve("web-0", event_id).status == 200
    wait_until(lambda: node.events("web-0")[0]["EventStatus"] == "Started")
    node.set_clock(0)
    wait_until(lambda: "clock-readable" in node.server.log())


def test_a_service_starts_on_a_clock_beyond_the_year_2262(tmp_path: Path) -> None:
    """A machine whose battery is empty may boot so; the service is there before NTP is."""
    server = NodeServer(wrong_clock(BEYOND), tmp_path, DEMO)
    server.wait_until_serving()
    server.stop()


def test_near_the_end_of_all_dates_what_needs_one_is_refused_and_the_rest_works() -> None:
    """A clock that is told where to go ends there; what VMs read has no later dates."""
    with Node(DEMO) as node:
        node.run(node.service.ticker.advance(micros_of(LAST_TOLD - node.service.engine.clock.now().at)))
        for path, asked in (
            ("/v1/hosts/host-1/degrade", {}),
            ("/v1/vms/me/restart", {}),
            ("/v1/events", {"type": "Reboot", "resources": ["web-0"]}),
            ("/v1/maintenances", PLAN),
            ("/v1/maintenances?dry_run=true", PLAN),
        ):
            answer = node.operator("POST", path, asked)
            assert (answer.status, "no dates left" in answer.json()["title"]) == (422, True), path
        for path in ("/v1/timeline", "/v1/attention", "/v1/states", "/v1/history", "/v1/events", "/metrics"):
            assert node.operator("GET", path).status == 200, path
        assert node.get("web-0").status == 200
