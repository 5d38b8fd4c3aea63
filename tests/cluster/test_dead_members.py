"""One dead node delays a change by a lease, once, and no poll: three nodes on a real PostgreSQL (N17, N19, S30)."""

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.trio import FLEET, NAMES, Trio
from tests.crash.server import Server
from tests.support.node import unwrapped
from tests.support.postgres import Database
from tests.support.served import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]

LEASE = 4.5
"""The default."""
SOON = LEASE / 2
AWAY = 3.0
ROUNDS = [1, pytest.param(20, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]
VM = "db-0"


@pytest.fixture(scope="module")
def nodes(postgres_folder: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    """Three nodes, for all stories."""
    folder = tmp_path_factory.mktemp("dead")
    Database(postgres_folder, "postgres").sql("CREATE DATABASE dead TEMPLATE template0 ENCODING 'UTF8'")
    made = Trio(folder, Database(postgres_folder, "dead"), lease=LEASE)
    try:
        made.wait_until_whole()
        yield made
    finally:
        made.stop()


class Polls:
    """A VM that polls some nodes, each from a thread of its own, and notes each answer and how long it took."""

    def __init__(self, nodes: Trio, *names: str) -> None:
        self._nodes, self._over = nodes, threading.Event()
        self.answers: list[tuple[int, float]] = []
        self._threads = [threading.Thread(target=self._poll, args=(name,)) for name in names]
        for thread in self._threads:
            thread.start()
        wait_until(lambda: len(self.answers) > len(names))

    def _poll(self, name: str) -> None:
        address, source = self._nodes.servers[name].metadata, self._nodes.place.vms[VM]
        while not self._over.wait(0.01):
            began = time.monotonic()
            status = self._nodes.poll_at(address, source, patience=3 * LEASE).status
            self.answers.append((status, time.monotonic() - began))

    def finish(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    @property
    def statuses(self) -> set[int]:
        return {status for status, _ in self.answers}

    @property
    def slowest(self) -> float:
        return max(took for _, took in self.answers)


def change(nodes: Trio, name: str) -> float:
    """A new document of the VM, asked for at a node until it is done; how long that took."""
    began = time.monotonic()
    found = list[str]()

    def is_raised() -> bool:
        made = nodes.operate(name, "POST", "/v1/events", {"type": "Reboot", "resources": [VM]}, key=f"{began}")
        if made.status == 201:
            (event,) = unwrapped(made.json())
            found.append(event["id"])
        return bool(found)

    wait_until(is_raised)
    took = time.monotonic() - began
    wait_until(lambda: nodes.operate(name, "POST", f"/v1/events/{found[0]}/cancel", {}).status in (200, 409))
    return took


def bring_back(nodes: Trio, name: str) -> None:
    if nodes.servers[name].alive():
        nodes.servers[name].thaw()
    else:
        nodes.start(name)
    nodes.wait_until_whole()


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_a_dead_node_delays_one_change_by_a_lease_and_no_poll(nodes: Trio, how: str, rounds: int) -> None:
    """The scope that changes is answered at the living nodes all the time, with what was there before."""
    firsts, nexts, slowest = list[float](), list[float](), list[float]()
    for _ in range(rounds):
        leader, (dead, _) = nodes.leader(), nodes.others()
        for name in NAMES:
            wait_until(lambda name=name: nodes.poll(name, nodes.place.vms[VM]).status == 200)  # type: ignore[misc]
        polls = Polls(nodes, *(name for name in NAMES if name != dead))
        getattr(nodes.servers[dead], how)()
        firsts.append(change(nodes, leader))
        nexts += [change(nodes, leader) for _ in range(3)]
        polls.finish()
        assert polls.statuses == {200}
        slowest.append(polls.slowest)
        bring_back(nodes, dead)
    sys.stdout.write(f"{how}: first {_told(firsts)}; next {_told(nexts)}; slowest poll {_told(slowest)}\n")
    assert max(firsts) < LEASE + SOON
    assert max(nexts) < SOON
    assert max(slowest) < SOON


@pytest.mark.parametrize("rounds", ROUNDS)
def test_no_poll_is_refused_when_the_leader_is_killed_with_changes_under_way(nodes: Trio, rounds: int) -> None:
    """One waits longer only if it died inside the hold itself, and never longer than another leader takes (N19)."""
    pauses, slowest = list[float](), list[float]()
    for _ in range(rounds):
        leader, (other, third) = nodes.leader(), nodes.others()
        for name in NAMES:
            wait_until(lambda name=name: nodes.poll(name, nodes.place.vms[VM]).status == 200)  # type: ignore[misc]
        busy, over = threading.Event(), threading.Event()
        changing = threading.Thread(target=_change_until, args=(nodes, leader, busy, over))
        changing.start()
        busy.wait()
        polls = Polls(nodes, other, third)
        nodes.servers[leader].kill()
        over.set()
        pauses.append(change(nodes, other))
        polls.finish()
        changing.join()
        assert polls.statuses == {200}
        slowest.append(polls.slowest)
        bring_back(nodes, leader)
    held = sum(took > 0.5 for took in slowest)
    sys.stdout.write(
        f"leader: commands {_told(pauses)}; slowest poll {_told(slowest)}; {held} of {rounds} rounds over 500 ms\n"
    )
    assert max(slowest) < 1.5 * LEASE + SOON


def _change_until(nodes: Trio, name: str, busy: threading.Event, over: threading.Event) -> None:
    while not over.is_set():
        made = nodes.operate(name, "POST", "/v1/events", {"type": "Reboot", "resources": [VM]})
        busy.set()
        if made.status == 201:
            (event,) = unwrapped(made.json())
            nodes.operate(name, "POST", f"/v1/events/{event['id']}/cancel", {})


def test_a_database_that_is_away_for_a_while_stops_no_poll(nodes: Trio) -> None:
    """Of a scope without a change under way: the right to answer is longer than that."""
    for name in NAMES:
        wait_until(lambda name=name: nodes.poll(name, nodes.place.vms[VM]).status == 200)  # type: ignore[misc]
    polls = Polls(nodes, *NAMES)
    for line in nodes.lines.values():
        line.cut()
    threading.Event().wait(AWAY)
    for line in nodes.lines.values():
        line.mend()
    nodes.wait_until_whole()
    polls.finish()
    assert polls.statuses == {200}


def _told(times: list[float]) -> str:
    ordered = sorted(times)
    return f"p50 {ordered[len(ordered) // 2]:.3f} s, most {ordered[-1]:.3f} s"


def test_commands_go_on_as_soon_as_the_leader_is_started_again_on_its_machine(
    postgres_folder: str, tmp_path: Path
) -> None:
    """The next process holds its directory: the last one has surely ended, so nobody waits for its lease (N18)."""
    Database(postgres_folder, "postgres").sql("CREATE DATABASE again TEMPLATE template0 ENCODING 'UTF8'")
    nodes = Trio(tmp_path, Database(postgres_folder, "again"), lease=60)
    try:
        nodes.wait_until_whole()
        times = list[float]()
        for _ in range(3):
            leader, (other, _) = nodes.leader(), nodes.others()
            nodes.servers[leader].kill()
            began = time.monotonic()
            nodes.start(leader)
            change(nodes, other)
            times.append(time.monotonic() - began)
        sys.stdout.write(f"leader started again: commands {_told(times)}\n")
        assert max(times) < 30
    finally:
        nodes.stop()


def test_a_node_that_has_to_be_alone_starts_a_lease_after_another_one_was_killed(
    postgres_folder: str, tmp_path: Path
) -> None:
    """It watches that one for a lease before it begins, and does not wait for the same once more (N04)."""
    database = Database(postgres_folder, "lonely")
    Database(postgres_folder, "postgres").sql("CREATE DATABASE lonely TEMPLATE template0 ENCODING 'UTF8'")
    settings = {"journal": database.url, "clock": "manual", "lease": 6}
    first = Server(tmp_path / "first", FLEET, node="first", **settings)
    first.wait_until_serving()
    first.kill()
    began = time.monotonic()
    second = Server(tmp_path / "second", FLEET, node="second", **settings)
    try:
        second.wait_until_serving()
        took = time.monotonic() - began
        sys.stdout.write(f"a node with a manual clock after another one: {took:.2f} s, lease 6 s\n")
        assert took < 2 * 6
    finally:
        second.kill()
