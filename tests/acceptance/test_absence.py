"""S25: notice is time in which it could be read; while nobody could answer, none of it goes by."""

import asyncio
import re
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duenotice import clock
from duenotice.bootstrap.node import Service
from duenotice.clock import MICROS, micros_of
from duenotice.domain.records import ClockMarked
from duenotice.settings import ServeSettings
from duenotice.store.sqlite import SqliteJournal
from duenotice.wire.spans import parse_time
from tests.acceptance.conftest import DEMO
from tests.support.node import Node
from tests.support.served import Served, wait_until

SPOT = "render-0"
NOTICE = timedelta(seconds=30)


class Machine:
    """The machine of a test; it can go ahead of the real one, as if nobody had been there for so long."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = timedelta()
        self._booted = clock.boot_micros
        monkeypatch.setattr(clock, "wall", lambda: datetime.now(UTC) + self.ahead)
        monkeypatch.setattr(clock, "boot_micros", lambda: self._booted() + micros_of(self.ahead))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def on_real_time(data_dir: Path) -> Node:
    return Node(DEMO, data_dir=str(data_dir), clock="real")


def promised(event: Any) -> datetime:
    return parse_time(event["NotBefore"])


def test_an_hour_away_costs_no_notice(tmp_path: Path, machine: Machine) -> None:
    """The first document after it says Scheduled, with what was left of the notice still ahead."""
    with on_real_time(tmp_path) as node:
        node.enable(SPOT)
        node.operate(f"/v1/vms/{SPOT}/evict")
        before, seen_at = node.event(SPOT), node.now()
    machine.ahead = timedelta(hours=1)
    with on_real_time(tmp_path) as node:
        after, now = node.event(SPOT), node.now()
        given = timedelta(seconds=5)  # what could be read before and since, at the most
        assert (after["EventId"], after["EventStatus"]) == (before["EventId"], "Scheduled")
        assert promised(after) - now >= NOTICE - given
        assert promised(after) > promised(before) + (now - seen_at) - given
        assert node.incarnation(SPOT) == 2


def test_away_for_a_while_again_and_again_costs_none_either(tmp_path: Path, machine: Machine) -> None:
    """What is left of a notice is left after every start."""
    with on_real_time(tmp_path) as node:
        node.enable("me")
        node.schedule("Reboot", "me")
    told = []
    for _ in range(3):
        machine.ahead += timedelta(minutes=14)
        with on_real_time(tmp_path) as node:
            assert node.statuses("me") == ["Scheduled"]
            told.append(promised(node.event("me")) - node.now())
    assert min(told) > timedelta(minutes=14)


def test_what_a_start_takes_is_no_notice(tmp_path: Path, machine: Machine) -> None:
    """Steady time goes on when the door is open, and stands still again when it closes."""
    settings = ServeSettings(
        fleet=str(DEMO), data_dir=str(tmp_path), operator_listen="127.0.0.1:0", metadata_listen="127.0.0.1:0"
    )

    class SlowDoor(socket.socket):
        """It takes ten minutes to open."""

        def fileno(self) -> int:
            if machine.ahead == timedelta():
                machine.ahead = timedelta(minutes=10)
            return super().fileno()

    async def life() -> tuple[int, int]:
        door = SlowDoor(socket.AF_INET, socket.SOCK_STREAM)
        door.bind(("127.0.0.1", 0))
        service = Service(settings, metadata_socket=door)
        await service.start()
        opened = service.engine.clock.now().steady
        await service.stop()
        closed = service.engine.clock.now().steady
        machine.ahead += timedelta(minutes=10)
        assert service.engine.clock.now().steady == closed
        return opened, closed

    opened, closed = asyncio.run(life())
    assert machine.ahead == timedelta(minutes=20)
    assert 0 <= opened <= closed < 60 * MICROS


def test_what_had_started_says_when_it_is_over_now(tmp_path: Path, machine: Machine) -> None:
    """That is later by as long as the node was away, in every answer that shows it."""
    with on_real_time(tmp_path) as node:
        node.enable("me")
        event_id = node.schedule("Reboot", "me")
        begun = node.operate(f"/v1/events/{event_id}/approve")
    machine.ahead = timedelta(hours=1)
    with on_real_time(tmp_path) as node:
        told = [
            *node.operate("/v1/events", method="GET"),
            *node.operate("/v1/vms/me", method="GET")["events"],
            *node.operate("/v1/timeline", method="GET")["items"],
            node.operate(f"/v1/events/{event_id}", method="GET"),
            node.operate(f"/v1/timeline/{event_id}", method="GET"),
        ]
    assert [event["id"] for event in told] == [event_id] * 5
    later = [datetime.fromisoformat(event["ends_at"]) - datetime.fromisoformat(begun["ends_at"]) for event in told]
    assert timedelta(hours=1) - timedelta(seconds=1) <= min(later) <= max(later) < timedelta(hours=1, minutes=1)


@pytest.mark.parametrize("pace", ["manual", "60x"])
def test_both_faces_of_other_clocks_stand_still_together(tmp_path: Path, machine: Machine, pace: str) -> None:
    """So what a document says of the time left stays true without a change."""
    with Node(DEMO, data_dir=str(tmp_path), clock=pace) as node:
        node.enable("me")
        node.schedule("Reboot", "me")
        before = node.get("me").body
    machine.ahead = timedelta(hours=1)
    with Node(DEMO, data_dir=str(tmp_path), clock=pace) as node:
        now = node.service.engine.clock.now()
        (event,) = node.service.engine.state.events.values()
        assert micros_of(event.not_before - now.at) == event.notice_ends - now.steady
        assert node.get("me").body == before


def test_a_kill_and_a_late_start_cost_no_notice(tmp_path: Path) -> None:
    """Real processes, real time: killed before the VM asks, the first document that it reads has it all ahead."""
    killed = Served(tmp_path, DEMO, clock="real")
    with killed as node:
        node.enable(SPOT)
        (raised,) = node.operate(f"/v1/vms/{SPOT}/evict")
        killed.server.kill()
    time.sleep(4)  # what nobody could be told in: more than a restart that is not worth telling
    with Served(tmp_path, DEMO, clock="real") as node:
        first, now = node.event(SPOT), node.now()
        assert (first["EventId"], first["EventStatus"]) == (raised["id"], "Scheduled")
        assert promised(first) >= datetime.fromisoformat(raised["not_before"]) + timedelta(seconds=3)
        assert promised(first) - now >= NOTICE - timedelta(seconds=3)


def test_what_could_be_read_before_a_kill_counts(tmp_path: Path) -> None:
    """To the second: a node that is killed often must not put its events off for ever."""
    killed = Served(tmp_path, DEMO, clock="real")
    with killed:
        wait_until(lambda: noted(tmp_path) >= 2 * MICROS)
        killed.server.kill()
    last = noted(tmp_path)
    with Served(tmp_path, DEMO, clock="real"):
        pass
    first_start, second_start, *_ = marks(tmp_path)
    assert first_start < MICROS
    assert 0 <= second_start - last < MICROS


@pytest.mark.serial
def test_a_process_that_was_stopped_says_when_the_notice_ends_now(tmp_path: Path) -> None:
    """SIGSTOP, and what looks the same from inside: a debugger, a frozen cgroup, a machine that sleeps."""
    with Served(tmp_path, DEMO, clock="real") as node:
        node.enable(SPOT)
        (raised,) = node.operate(f"/v1/vms/{SPOT}/evict")
        before = noted(tmp_path)
        stopped_for_a_while(node)
        owed = datetime.fromisoformat(raised["not_before"]) + STOPPED - timedelta(seconds=1)
        wait_until(lambda: promised(node.event(SPOT)) >= owed)
        assert node.statuses(SPOT) == ["Scheduled"]
        assert noted(tmp_path) - before < micros_of(STOPPED)


@pytest.mark.serial
def test_what_was_due_while_a_process_was_stopped_starts_after_its_whole_notice(tmp_path: Path) -> None:
    """At ten times the pace: 40 seconds are promised, and the clock would go on by 40 while nobody can answer."""
    with Served(tmp_path, DEMO, clock="10x") as node:
        node.enable(SPOT)
        (raised,) = node.operate(f"/v1/vms/{SPOT}/evict")
        told = time.monotonic()
        stopped_for_a_while(node)
        assert node.statuses(SPOT) == ["Scheduled"]
        wait_until(lambda: node.statuses(SPOT) == ["Started"])
        assert time.monotonic() - told >= (STOPPED + NOTICE / 10).total_seconds()
        assert node.history(raised["id"])[-1].action == "event-started"


STOPPED = timedelta(seconds=4)


def stopped_for_a_while(node: Served) -> None:
    node.server.freeze()
    time.sleep(STOPPED.total_seconds())
    node.server.thaw()


def noted(data_dir: Path) -> int:
    """Until when VMs could be answered, as it stands beside the journal."""
    found = re.search(r"answered until (\d{20}) on", (data_dir / "journal.lock").read_text())
    return int(found[1]) if found else 0


def marks(data_dir: Path) -> list[int]:
    """Where steady time stood whenever it was written down."""
    journal = SqliteJournal(data_dir)
    try:
        changes = [record.transition for record in journal.read(0)]
        return [change.mark.steady for change in changes if isinstance(change, ClockMarked)]
    finally:
        journal.close()
