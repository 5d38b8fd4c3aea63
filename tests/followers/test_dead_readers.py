"""One dead reader delays nobody: a change waits only for those that answer a VM of it, and each once (N17, N19, S30).

Real processes. A lease is long here beside anything that a busy machine takes, so a wait for a lease is seen.
"""

import http.client
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.followers.flock import EVERY, Asked, Flock, changes, flock
from tests.support.node import SECONDS
from tests.support.served import wait_until

LEASE = 4.0
SOON = LEASE / 2
"""What does not wait for a lease is done by then, on any machine; it takes some milliseconds."""
OF_H1, OF_H2 = "db-0", "db-1"
ROUNDS = [2, pytest.param(20, marks=[pytest.mark.soak, pytest.mark.timeout(900)])]


@pytest.fixture
def herd(tmp_path: Path) -> Iterator[Flock]:
    """A node that can be followed; both VMs listen."""
    with flock(tmp_path, lease=LEASE) as made:
        made.node.enable(OF_H1, OF_H2)
        yield made


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def told(what: str, times: list[float]) -> None:
    """For docs/benchmarks.md: `pytest -s`."""
    ordered = sorted(times)
    p50, p99 = (ordered[len(ordered) * part // 100] for part in (50, 99))
    sys.stdout.write(f"{what}: {len(ordered)} changes, p50 {p50:.3f} s, p99 {p99:.3f} s, slowest {ordered[-1]:.3f} s\n")


def kill(follower: Asked) -> None:
    follower.server.kill()


def freeze(follower: Asked) -> None:
    follower.server.freeze()


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("hurt", [kill, freeze])
def test_a_dead_follower_of_one_host_delays_no_change_of_another(
    herd: Flock, hurt: Callable[[Asked], None], rounds: int
) -> None:
    """Nor does it delay a VM of its own for more than a lease; and that is answered all the time by the node."""
    others, own = list[float](), list[float]()
    for _ in range(rounds):
        follower = herd.follower(only="host=h1")
        assert follower.get(OF_H1).status == 200
        hurt(follower)
        others += [seconds(lambda: changes(herd.node, OF_H2)) for _ in range(5)]
        polls = Polls(herd.node, OF_H1)
        own.append(seconds(lambda: changes(herd.node, OF_H1)))
        assert polls.slowest() < SOON
        others += [seconds(lambda: changes(herd.node, OF_H2)) for _ in range(5)]
        if follower.server.alive():
            follower.server.thaw()
            follower.server.kill()
    told(f"another host, {hurt.__name__}", others)
    told(f"its own host, {hurt.__name__}", own)
    assert max(others) < SOON
    assert max(own) < LEASE + SOON


def test_while_changes_of_a_dead_host_are_asked_for_each_second_only_the_first_delays_others(herd: Flock) -> None:
    """It is waited for once, and is put out then."""
    follower = herd.follower(only="host=h1")
    assert follower.get(OF_H1).status == 200
    kill(follower)
    assert seconds(lambda: changes(herd.node, OF_H1)) < LEASE + SOON
    over = threading.Event()

    def ask() -> None:
        while not over.wait(1.0):
            changes(herd.node, OF_H1)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        times = [seconds(lambda: changes(herd.node, OF_H2)) for _ in range(50)]
    finally:
        over.set()
        asking.join(SECONDS)
    told("another host, beside changes of the dead one", times)
    assert max(times) < SOON


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_follower_that_is_killed_again_and_again_delays_no_change_of_another_host(herd: Flock, rounds: int) -> None:
    """A crash loop: each life is waited for by changes of its own VMs alone."""
    times = list[float]()
    for _ in range(rounds):
        kill(herd.follower(only="host=h1"))
        times += [seconds(lambda: changes(herd.node, OF_H2)) for _ in range(5)]
    told("another host, crash loop", times)
    assert max(times) < SOON


def test_who_joins_and_never_beats_delays_nothing(herd: Flock) -> None:
    """It was never given the right to answer, so nobody waits for it, though it answers for the whole fleet (N17)."""
    token = herd.token_file.read_text()
    mute, streams = Asked(herd.node.server, token), list[http.client.HTTPConnection]()
    try:
        for _ in range(5):
            snapshot = mute.operate("/v1/follow/snapshot", method="GET")
            line = http.client.HTTPConnection(*herd.node.operator_address, timeout=SECONDS)
            query = f"after={snapshot['position']}&node={snapshot['node']}&life={secrets.token_hex(8)}"
            line.request("GET", f"/v1/follow/records?{query}", headers={"Authorization": f"Bearer {token}"})
            assert b"hello" in line.getresponse().readline()
            streams.append(line)
            assert seconds(lambda: changes(herd.node, OF_H1)) < SOON
    finally:
        for line in streams:
            line.close()


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
