"""One of three nodes dies, stands still, or loses its database: what that delays at the others (N17, N19, S30)."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.cluster.measured import Row
from tests.cluster.trio import NAMES, Trio
from tests.support.node import unwrapped
from tests.support.served import wait_until

LEASE = 4.5
"""The default."""
VM = "db-0"
SOON, AT_ONCE = 0.25, 0.5
"""Seconds that a change may take that waits for nobody, and a poll."""
AWAY = 3.0
AGAIN = 2.5
"""Seconds after which commands go on when the leader is started again on its machine."""


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

    def finish(self) -> float:
        """Ask no more; how long the slowest took. None was refused."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        assert {status for status, _ in self.answers} == {200}
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


def all_listen(nodes: Trio) -> None:
    """The VM's scope is turned on, and each node answers it."""
    for name in NAMES:
        wait_until(lambda name=name: nodes.poll(name, nodes.place.vms[VM]).status == 200)  # type: ignore[misc]


def bring_back(nodes: Trio, name: str) -> None:
    if nodes.servers[name].alive():
        nodes.servers[name].thaw()
    else:
        nodes.start(name)
    nodes.wait_until_whole()


class Delays(NamedTuple):
    """What was measured after a node was gone."""

    first: Row
    later: Row
    polls: Row


def another_node(nodes: Trio, how: str, rounds: int, may: float = LEASE) -> Delays:
    """`kill` or `freeze` one that does not lead. The living ones answer the scope that changes all the time."""
    firsts, later, slowest = list[float](), list[float](), list[float]()
    for _ in range(rounds):
        leader, (dead, _) = nodes.leader(), nodes.others()
        all_listen(nodes)
        polls = Polls(nodes, *(name for name in NAMES if name != dead))
        getattr(nodes.servers[dead], how)()
        firsts.append(change(nodes, leader))
        later += [change(nodes, leader) for _ in range(3)]
        slowest.append(polls.finish())
        bring_back(nodes, dead)
    fault = f"another node: {how}"
    return Delays(
        Row(fault, "the first change", firsts, may),
        Row(fault, "changes after it", later, SOON),
        Row(fault, "the slowest poll of a round at the living nodes", slowest, AT_ONCE),
    )


def nobody(nodes: Trio, rounds: int) -> Row:
    """What a change takes when all is well, to compare with."""
    leader = nodes.leader()
    all_listen(nodes)
    return Row("none, three nodes", "a change", [change(nodes, leader) for _ in range(5 * rounds)], SOON)


def the_leader(nodes: Trio, rounds: int) -> tuple[Row, Row]:
    """It is killed with changes under way: how long commands stop, and the slowest poll of each round (N19).

    One waits longer only if the leader died inside the hold itself.
    """
    pauses, slowest = list[float](), list[float]()
    for _ in range(rounds):
        leader, (other, third) = nodes.leader(), nodes.others()
        all_listen(nodes)
        busy, over = threading.Event(), threading.Event()
        changing = threading.Thread(target=_change_until, args=(nodes, leader, busy, over))
        changing.start()
        busy.wait()
        polls = Polls(nodes, other, third)
        nodes.servers[leader].kill()
        over.set()
        pauses.append(change(nodes, other))
        slowest.append(polls.finish())
        changing.join()
        bring_back(nodes, leader)
    fault = "the leader: kill, changes under way"
    waits = f"the slowest poll of a round; {sum(took > AT_ONCE for took in slowest)} of {rounds} over {AT_ONCE} s"
    return Row(fault, "commands stop", pauses, LEASE, 50), Row(fault, waits, slowest, AT_ONCE, 50)


def _change_until(nodes: Trio, name: str, busy: threading.Event, over: threading.Event) -> None:
    while not over.is_set():
        made = nodes.operate(name, "POST", "/v1/events", {"type": "Reboot", "resources": [VM]})
        busy.set()
        if made.status == 201:
            (event,) = unwrapped(made.json())
            nodes.operate(name, "POST", f"/v1/events/{event['id']}/cancel", {})


def the_leader_is_back_at_once(nodes: Trio, rounds: int) -> Row:
    """It is killed and started again on its machine: the next process holds its directory, so nobody waits (N18)."""
    times = list[float]()
    for _ in range(rounds):
        leader, (other, _) = nodes.leader(), nodes.others()
        nodes.servers[leader].kill()
        began = time.monotonic()
        nodes.start(leader)
        change(nodes, other)
        times.append(time.monotonic() - began)
        nodes.wait_until_whole()
    return Row("the leader: kill, started again", "commands stop", times, AGAIN)


def without_a_database(nodes: Trio, rounds: int) -> Row:
    """All nodes are cut off for a while. The right to answer is longer than that, so no poll is refused."""
    slowest = list[float]()
    for _ in range(rounds):
        all_listen(nodes)
        polls = Polls(nodes, *NAMES)
        for line in nodes.lines.values():
            line.cut()
        threading.Event().wait(AWAY)
        for line in nodes.lines.values():
            line.mend()
        nodes.wait_until_whole()
        slowest.append(polls.finish())
    return Row(f"the database: away for {AWAY:.0f} s", "the slowest poll of a round", slowest, AT_ONCE)


def all_rows(nodes: Trio, rounds: int, say: Callable[[Row], None]) -> None:
    """All of it."""
    say(nobody(nodes, rounds))
    for how in ("kill", "freeze"):
        for row in another_node(nodes, how, rounds):
            say(row)
    for row in the_leader(nodes, rounds):
        say(row)
    say(without_a_database(nodes, rounds))
    say(the_leader_is_back_at_once(nodes, rounds))
