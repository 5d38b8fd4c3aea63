"""One reader of a node dies, stands still, or comes and goes: what that delays (N17, N18, N20, S30)."""

import http.client
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.cluster.measured import Row, seconds
from tests.followers.flock import EVERY, Asked, Flock
from tests.support.node import SECONDS
from tests.support.served import wait_until

OF_H1, OF_H2 = "db-0", "db-1"
SOON, AT_ONCE = 0.25, 0.5
"""Seconds that changes may take that wait for nobody, and a poll."""
NOTHING = 0.05
"""Seconds by which the end of a worker may delay a change."""
REPLACED = 1.0


class Polls:
    """A VM that polls all the time, until it is asked how slow the slowest answer was; each is a document."""

    def __init__(self, door: Asked, vm: str) -> None:
        self._door, self._vm, self._times = door, vm, list[float]()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        wait_until(lambda: self._times)

    def _run(self) -> None:
        while not self._over.wait(EVERY):
            with suppress(OSError):
                began = time.monotonic()
                assert self._door.get(self._vm).status == 200
                self._times.append(time.monotonic() - began)

    def slowest(self) -> float:
        self._over.set()
        self._thread.join(SECONDS)
        return max(self._times)


def two_changes(node: Asked, vm: str) -> None:
    """Raise an event on a VM and cancel it."""
    (event,) = node.operate("/v1/events", {"type": "Reboot", "resources": [vm]})
    node.operate(f"/v1/events/{event['id']}/cancel", {})


def _follower_of_h1(herd: Flock) -> Asked:
    follower = herd.follower(only="host=h1")
    assert follower.get(OF_H1).status == 200
    return follower


def one_of_another_host(herd: Flock, how: str, rounds: int, lease: float) -> tuple[Row, Row, Row]:
    """`kill` or `freeze` a follower of h1. Its own VM is answered all the time by the node."""
    others, own, slowest = list[float](), list[float](), list[float]()
    for _ in range(rounds):
        follower = _follower_of_h1(herd)
        getattr(follower.server, how)()
        others += [seconds(lambda: two_changes(herd.node, OF_H2)) for _ in range(5)]
        polls = Polls(herd.node, OF_H1)
        own.append(seconds(lambda: two_changes(herd.node, OF_H1)))
        slowest.append(polls.slowest())
        others += [seconds(lambda: two_changes(herd.node, OF_H2)) for _ in range(5)]
        if follower.server.alive():
            follower.server.thaw()
            follower.server.kill()
    fault = f"a follower of one host: {how}"
    return (
        Row(fault, "two changes of another host", others, SOON),
        Row(fault, "the first two of its own host", own, lease),
        Row(fault, "the slowest poll of a round at the node", slowest, AT_ONCE),
    )


def beside_changes_of_a_dead_host(herd: Flock, rounds: int, lease: float) -> tuple[Row, Row]:
    """One of its own VM is asked for each second: it is waited for once, and is put out then."""
    own = list[float]()
    _follower_of_h1(herd).server.kill()
    own.append(seconds(lambda: two_changes(herd.node, OF_H1)))
    over = threading.Event()

    def ask() -> None:
        while not over.wait(1.0):
            two_changes(herd.node, OF_H1)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        times = [seconds(lambda: two_changes(herd.node, OF_H2)) for _ in range(50 * rounds)]
    finally:
        over.set()
        asking.join(SECONDS)
    fault = "a follower of one host: kill, a change of its own each second"
    return Row(fault, "the first two of its own host", own, lease), Row(fault, "two of another host", times, SOON)


def crash_loop(herd: Flock, rounds: int) -> Row:
    """Each life is waited for by changes of its own VMs alone."""
    times = list[float]()
    for _ in range(rounds):
        herd.follower(only="host=h1").server.kill()
        times += [seconds(lambda: two_changes(herd.node, OF_H2)) for _ in range(5)]
    return Row("a follower in a crash loop", "two changes of another host", times, SOON)


@contextmanager
def mute_reader(herd: Flock) -> Iterator[None]:
    """It joins for the whole fleet and never beats: it was never given the right to answer (N17)."""
    token = herd.token_file.read_text()
    snapshot = Asked(herd.node.server, token).operate("/v1/follow/snapshot", method="GET")
    line = http.client.HTTPConnection(*herd.node.operator_address, timeout=SECONDS)
    query = f"after={snapshot['position']}&node={snapshot['node']}&life={secrets.token_hex(8)}"
    line.request("GET", f"/v1/follow/records?{query}", headers={"Authorization": f"Bearer {token}"})
    assert b"hello" in line.getresponse().readline()
    try:
        yield
    finally:
        line.close()


def joins_that_never_beat(herd: Flock, rounds: int) -> Row:
    """One more each time, while a change is asked for."""
    times = list[float]()
    for _ in range(rounds):
        with mute_reader(herd):
            times.append(seconds(lambda: two_changes(herd.node, OF_H2)))
    return Row("a token that joins and never beats", "two changes", times, SOON)


def nobody(herd: Flock, rounds: int) -> Row:
    """What changes take when all is well, to compare with."""
    times = [seconds(lambda: two_changes(herd.node, OF_H2)) for _ in range(10 * rounds)]
    return Row("none, one node", "two changes", times, SOON)


# --- workers ---


def workers_of(pid: int) -> list[int]:
    """The processes that a node has started, the oldest first; a spare is one of them.

    Not one that is just being made: until it has its own program, it has the sockets of the node.
    """
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if any("cli.worker" in word for word in said_to(int(child)))]


def said_to(pid: int) -> list[str]:
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


def listens(pid: int, port: int) -> bool:
    """Whether a process listens on a port."""
    inodes = set()
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                inodes.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
        rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    except OSError:
        return False
    return any(int(row[1].partition(":")[2], 16) == port and row[3] == "0A" and row[9] in inodes for row in rows)


def serving(node: Asked) -> list[int]:
    """The workers of a node that listen on its metadata port."""
    pid, port = node.server.pid, node.metadata_address[1]
    return [worker for worker in workers_of(pid) if listens(worker, port)]


def has_loaded(pid: int) -> bool:
    """Whether a spare waits until it is wanted: it sleeps, and has loaded all that it needs."""
    state, maps = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0], Path(f"/proc/{pid}/maps")
    return state == "S" and "uvloop" in maps.read_text()


def spare_of(node: Asked, workers: int) -> int:
    """The process that takes the place of the next one that ends, once it is there."""
    wait_until(lambda: len(serving(node)) == workers and len(workers_of(node.server.pid)) == workers + 1)
    spare = workers_of(node.server.pid)[-1]
    wait_until(lambda: has_loaded(spare))
    return spare


def until_it_serves(node: Asked, pid: int) -> Callable[[], None]:
    """To be measured."""

    def wait() -> None:
        while not listens(pid, node.metadata_address[1]):
            time.sleep(0.005)

    return wait


def a_worker(herd: Flock, rounds: int, workers: int, control: Row) -> list[Row]:
    """One is killed, or stopped: a change, an approval by a VM, the polls, and when the next one serves."""
    node, rows = herd.node, list[Row]()
    for how in (signal.SIGKILL, signal.SIGSTOP):
        first, approved, slowest, replaced = list[float](), list[float](), list[float](), list[float]()
        for _ in range(rounds):
            for into in (first, approved):
                spare = spare_of(node, workers)
                wait_until(lambda: not node.document(OF_H1)["Events"])  # beside one that has started, others start
                (event,) = node.operate("/v1/events", {"type": "Reboot", "resources": [OF_H1]})
                polls = Polls(node, OF_H1)
                os.kill(serving(node)[0], how)
                began = time.monotonic()
                if into is approved:
                    approve(node, OF_H1, event["id"])
                else:
                    two_changes(node, OF_H2)
                into.append(time.monotonic() - began)
                until_it_serves(node, spare)()
                replaced.append(time.monotonic() - began)
                slowest.append(polls.slowest())
                node.operate(f"/v1/events/{event['id']}/cancel", {}) if into is first else None
        fault = f"a worker: {how.name}"
        may = max(control.times) + NOTHING if how is signal.SIGKILL else SOON + AT_ONCE
        rows += [
            Row(fault, "two changes after it", first, may),
            Row(fault, "an approval of a VM after it", approved, may),
            Row(fault, "the slowest poll of a round that had an answer", slowest, AT_ONCE),
            Row(fault, "another one serves", replaced, REPLACED),
        ]
    return rows


def approve(node: Asked, vm: str, event_id: str) -> None:
    """As a VM does: it asks again if its connection was to the process that has ended."""
    wait_until(lambda: _is_approved(node, vm, event_id))


def _is_approved(node: Asked, vm: str, event_id: str) -> bool:
    with suppress(OSError, http.client.HTTPException):
        return node.approve(vm, event_id).status == 200
    return False
