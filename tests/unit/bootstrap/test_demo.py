"""What goes on in the demo, on a manual clock and over real HTTP."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from duenotice.bootstrap import demo
from duenotice.bootstrap.demo import LONGEST, SHORTEST, patience_of, playing
from duenotice.wire.fleet_file import read_fleet
from tests.support.node import SECONDS, Node

FLEET = Path(__file__).parents[3] / "examples" / "demo-fleet.toml"


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """A node with all of it going on."""
    monkeypatch.setattr(demo, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(demo, "LOOK", 0.01)
    with Node(FLEET) as running:
        on = playing(running.service, read_fleet(FLEET.read_text()))
        running.run(on.__aenter__())
        try:
            yield running
        finally:
            running.run(on.__aexit__(None, None, None))


def wait_until(what: Callable[[], object]) -> None:
    until = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < until, what
        time.sleep(0.02)


def plans(node: Node) -> list[str]:
    return [plan["status"] for plan in node.operate("/v1/maintenances", method="GET")]


def later(node: Node, minutes: int, until: Callable[[], object]) -> None:
    """Let time pass minute by minute, no faster than the VMs can follow."""
    page = node.service.publisher.open_page_of(node.service.publisher.state.fleet.vms["web-0"])
    for _ in range(minutes):
        if until():
            return
        node.advance("1m")
        wait_until(lambda: page.last_poll >= node.service.engine.clock.now().steady)
    assert until()


def test_a_maintenance_rolls_through_at_once_and_the_next_follows(node: Node) -> None:
    """Somebody listens, so there is notice; when it is done another one comes, and so on."""
    wait_until(lambda: plans(node) == ["running"])
    (event,) = node.operate("/v1/events", method="GET")
    assert (event["phase"], event["resources"]) == ("scheduled", ["web-0", "web-5"])
    later(node, 5 * 30, lambda: plans(node) == ["done"])
    later(node, 70, lambda: plans(node) == ["done", "running"])


def test_leaders_approve_over_http(node: Node) -> None:
    """As VMs do, and not as the operator."""
    wait_until(lambda: plans(node))
    later(node, 150, lambda: node.operate("/v1/audit?action=event-approved", method="GET"))
    approved = node.operate("/v1/audit?action=event-approved", method="GET")[0]
    assert approved["details"]["by"].startswith("vm/web-")


def test_a_spot_vm_is_evicted_now_and_then_and_comes_back(node: Node) -> None:
    """So that it does not die out."""

    def vms() -> int:
        return len(node.service.publisher.state.fleet.vms)

    wait_until(lambda: plans(node))
    later(node, 40, lambda: vms() == 59)
    later(node, 20, lambda: vms() == 60)


def test_somebody_elses_fleet_is_left_alone(node: Node) -> None:
    """Whoever applies a file of their own in the middle of the demo keeps it."""
    wait_until(lambda: plans(node))
    node.apply(
        '[[vms]]\nname = "render-0"\naddress = "127.0.1.20"\nspot = true\n[[vms]]\nname = "me"\naddress = "127.0.0.1"\n'
    )
    for _ in range(120):
        node.advance("1m")
    assert len(node.service.publisher.state.fleet.vms) <= 2


def test_one_leader_in_three_lets_the_notice_run_out() -> None:
    """The id decides, so that a demo can be told again."""
    chosen = [patience_of(f"{number:08X}-0000") for number in range(300)]
    assert chosen.count(None) == 100
    assert all(SHORTEST <= each < LONGEST for each in chosen if each is not None)
