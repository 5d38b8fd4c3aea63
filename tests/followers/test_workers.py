"""Several processes on one port: VMs see one service, whoever of them answers, and never go back (S27)."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from duenotice.bootstrap.workers import Workers, count_of
from duenotice.errors import Misconfigured
from duenotice.settings import ServeSettings, resolve
from tests.cluster.measured import seconds
from tests.crash.server import Server
from tests.followers.dead_readers import (
    REPLACED,
    listens,
    said_to,
    serving,
    spare_of,
    until_it_serves,
    workers_of,
)
from tests.followers.flock import FLEET, LEASE, Asked, Walker, changes, said_at_start
from tests.support.node import Line
from tests.support.served import wait_until

WORKERS = 3
TRIES = 5
"""On a busy machine one may take longer."""
EVERYWHERE = [f"127.0.9.{last}" for last in range(1, 20)]
"""Addresses of no VM; the workers are spread over them."""


def serve_together(pid: int, port: int) -> int:
    """How many of a node's workers listen on the metadata port."""
    return sum(listens(worker, port) for worker in workers_of(pid))


def is_gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Asked]:
    """A node with two more processes."""
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(FLEET)
    server = Server(tmp_path / "data", fleet, workers=WORKERS, lease=LEASE, default_vm="db-0")
    try:
        server.wait_until_serving()
        node = Asked(server, server.token)
        wait_until(lambda: serve_together(server.pid, node.metadata_address[1]) == WORKERS - 1)
        yield node
    finally:
        if server.alive():
            server.kill()


def test_a_vm_never_goes_back_whichever_worker_it_gets(node: Asked) -> None:
    """Not even while a worker is killed; another one takes its place."""
    node.enable("db-0")
    walker = Walker("db-0", [node], seed=1, sources=EVERYWHERE)
    walker.start()
    for _ in range(20):
        changes(node, "db-0")
    wait_until(lambda: workers_of(node.server.pid))  # on a busy machine one may just be replaced
    killed = workers_of(node.server.pid)[0]
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: killed not in workers_of(node.server.pid))
    for _ in range(5):
        changes(node, "db-0")
    wait_until(lambda: serve_together(node.server.pid, node.metadata_address[1]) == WORKERS - 1)
    changes(node, "db-0")
    wait_until(lambda: walker.newest >= 52)
    walker.finish()
    assert walker.wrong == []


def test_sigterm_ends_all_of_them(node: Asked) -> None:
    workers = workers_of(node.server.pid)
    node.server.stop()
    assert len(workers) >= WORKERS - 1
    assert all(is_gone(worker) for worker in workers)


def test_workers_end_with_their_node(node: Asked) -> None:
    """A node that is killed cannot tell them, and nobody else would end them."""
    workers = workers_of(node.server.pid)
    node.server.kill()
    wait_until(lambda: all(is_gone(worker) for worker in workers))


def test_the_token_of_workers_is_in_no_file_that_a_kill_would_leave(node: Asked) -> None:
    """They read it from memory that ends with the last of them."""
    for worker in workers_of(node.server.pid):
        (told,) = (word for word in said_to(worker) if word.startswith("--follow-token-file="))
        assert "memfd:" in str(Path(told.partition("=")[2].replace("self", str(worker))).readlink())


def test_a_setting_that_is_zero_reaches_workers() -> None:
    """0 is not the same as nothing: without a watchdog there is none in workers either."""
    flags = Workers(ServeSettings(watchdog=0, throttle=0), None)._flags(("127.0.0.1", 80), ("127.0.0.1", 81), 7)
    assert {"--watchdog=0", "--throttle=0"} <= set(flags)
    assert not [flag for flag in flags if "leaf-json" in flag or "default-vm" in flag]


def test_one_vm_gets_one_worker_so_its_limits_hold(tmp_path: Path) -> None:
    """On any number of connections: as many answers as one process would give, and as many connections (A08, S24)."""
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(FLEET)
    limits = {"throttle": 2, "connections_per_address": 3}
    server = Server(tmp_path / "data", fleet, workers=WORKERS, lease=LEASE, **limits)
    try:
        server.wait_until_serving()
        node = Asked(server, server.token)
        wait_until(lambda: serve_together(server.pid, node.metadata_address[1]) == WORKERS - 1)
        for vm in ("db-0", "db-1", "web-0", "web-1"):
            wait_until(lambda vm=vm: node.get(vm).status == 200)  # type: ignore[misc]
            began = time.monotonic()
            statuses = [node.get(vm).status for _ in range(30)]
            took = time.monotonic() - began
            assert statuses.count(200) <= 2 + 2 * took + 1, (vm, took)
            assert set(statuses) <= {200, 429}
            with ExitStack() as lines:
                turned_away = [_is_turned_away(lines.enter_context(node.connect(vm))) for _ in range(6)]
            assert turned_away == [False] * 3 + [True] * 3
    finally:
        server.kill()


def _is_turned_away(line: Line) -> bool:
    """Whether there are too many connections; the others wait for a request. POSTs are not counted with polls (A08)."""
    line.send(b"POST / HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n\r\n")
    return b"Too many connections" in line.answer().body


NO_SENSE = {"-1": ">= 0", "257": "<= 256", "many": "Expected `int`", "1.5": "Expected `int`"}


@pytest.mark.parametrize("count", NO_SENSE)
def test_a_count_that_makes_no_sense_is_refused_with_a_reason(count: str) -> None:
    with pytest.raises(Misconfigured, match=NO_SENSE[count]) as refused:
        resolve({"workers": count}, {})
    assert f"workers = '{count}' (from flag)" in refused.value.message


def test_no_count_is_one_worker_for_each_core() -> None:
    assert count_of(ServeSettings(workers=0)) == len(os.sched_getaffinity(0))
    assert count_of(ServeSettings()) == 1


def test_what_workers_cannot_do_is_refused(tmp_path: Path) -> None:
    (token := tmp_path / "token").write_text("dn_token")
    followed = ("--follow=http://127.0.0.1:1", f"--follow-token-file={token}", "--workers=2")
    assert "a follower is one process" in said_at_start(*followed)[1]
    assert "workers need the operator's port" in said_at_start("--workers=2", "--data-dir=:memory:")[1]
    both = ("--workers=2", "--data-dir=:memory:", "--operator-listen=127.0.0.1:0", "--allow-faults")
    assert "workers would not have them" in said_at_start(*both)[1]


def test_a_worker_that_was_killed_delays_nothing(node: Asked) -> None:
    """Its parent knows that it is gone; a change that waited for its lease would take a second and a half (N18)."""
    node.enable("db-0")
    for _ in range(5):
        wait_until(lambda: serve_together(node.server.pid, node.metadata_address[1]) == WORKERS - 1)
        changes(node, "db-0")
        os.kill(workers_of(node.server.pid)[0], signal.SIGKILL)
        began = time.monotonic()
        changes(node, "db-0")
        assert time.monotonic() - began < LEASE / 2


def test_a_worker_that_stands_still_is_replaced(node: Asked) -> None:
    """Also when nothing changes: the VMs of its connections would get no answer (N18)."""
    node.enable("db-0")
    stopped = workers_of(node.server.pid)[0]
    os.kill(stopped, signal.SIGSTOP)
    began = time.monotonic()
    changes(node, "db-0")
    assert time.monotonic() - began < LEASE / 2
    wait_until(lambda: stopped not in workers_of(node.server.pid))
    wait_until(lambda: serve_together(node.server.pid, node.metadata_address[1]) == WORKERS - 1)


def test_who_takes_the_place_of_a_worker_has_loaded_its_program_before(node: Asked) -> None:
    """A worker that stands still is replaced within a second: the spare only has to begin (N18)."""
    took = list[float]()
    while not took or (min(took) > REPLACED and len(took) < TRIES):
        spare = spare_of(node, WORKERS - 1)
        os.kill(serving(node)[0], signal.SIGSTOP)
        took.append(seconds(until_it_serves(node, spare)))
    sys.stdout.write(f"a stopped worker is replaced: {', '.join(f'{each:.3f}' for each in took)} s\n")
    assert min(took) < REPLACED


def test_a_node_that_stops_ends_its_spare_too(node: Asked) -> None:
    """It has not begun, and hears nothing but the end of its standard input."""
    wait_until(lambda: len(workers_of(node.server.pid)) == WORKERS)
    spare = workers_of(node.server.pid)[-1]
    node.server.stop()
    wait_until(lambda: is_gone(spare))


def test_a_spare_that_has_ended_is_not_waited_for(node: Asked) -> None:
    """Another process is made instead."""
    port = node.metadata_address[1]
    wait_until(lambda: len(workers_of(node.server.pid)) == WORKERS)
    worker, *_, spare = workers_of(node.server.pid)
    os.kill(spare, signal.SIGKILL)
    wait_until(lambda: spare not in workers_of(node.server.pid))
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: worker not in workers_of(node.server.pid))
    wait_until(lambda: serve_together(node.server.pid, port) == WORKERS - 1)


def test_a_node_whose_only_readers_were_its_workers_starts_again_without_a_wait(tmp_path: Path) -> None:
    """They are gone with it, even one that stood still: nobody can show anything older (N18)."""
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(FLEET)
    settings = {"workers": WORKERS, "lease": 60, "default_vm": "db-0"}
    server = Server(tmp_path / "data", fleet, **settings)
    try:
        server.wait_until_serving()
        node = Asked(server, server.token)
        wait_until(lambda: serve_together(server.pid, node.metadata_address[1]) == WORKERS - 1)
        node.enable("db-0")
        workers = workers_of(server.pid)
        os.kill(workers[0], signal.SIGSTOP)
        server.kill()
        wait_until(lambda: all(is_gone(worker) for worker in workers))
        server = Server(tmp_path / "data", fleet, **settings)
        server.wait_until_serving()
        node, began = Asked(server, server.token), time.monotonic()
        changes(node, "db-0")
        assert time.monotonic() - began < 30, "a change waits for the lease of the last process"
    finally:
        if server.alive():
            server.kill()
