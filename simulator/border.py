"""The border of the world: while one runs, time, randomness and threads that real code reaches for are the world's.

Real code asks `duenotice.clock` for time, and that asks the operating system; here it asks the machine that runs now.
Keys, ids and secrets come from the operating system's randomness; here they come from the seed. Threads are workers of
the engine and of the seat; here they are names, and the loop does their work.
"""

import asyncio
import os
import random
import threading
import time as real_time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, tzinfo
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import structlog

from duenotice import clock
from duenotice.bootstrap import cluster, process
from duenotice.domain.apply import Touched
from duenotice.engine import engine, seat
from duenotice.engine.publisher import Publisher, ScopePage
from duenotice.metadata_api import long_polls
from duenotice.operator_api import way_to_leader
from simulator.agents_border import agents_border
from simulator.drivers_border import drivers_border
from simulator.followers_line import followers_border
from simulator.loop import VirtualLoop
from simulator.machine import MACHINE, Machine
from simulator.network import between_nodes

HEARTBEAT = 1.0
"""Seconds between beats of a node's clock, in place of 0.25: a pause that does not count is longer than 2 seconds."""


BEAT = 1.0
"""Seconds between beats of a VM's door that holds polls, in place of 0.1: their time is up a little later."""


def _is_elsewhere() -> bool:
    """Whether a thread without a machine has nothing to do with worlds: another test may have left it behind."""
    return threading.get_ident() != _THREAD.get("world")


_THREAD: dict[str, int] = {}


class _Datetime(datetime):
    """The class `datetime`, but for the present time."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        """The time of day of the machine that runs now."""
        machine = MACHINE.get(None)
        return datetime.now(tz) if machine is None and _is_elsewhere() else (machine or MACHINE.get()).wall()


def _nanos(_: int = 0) -> int:
    machine = MACHINE.get(None)
    return real_time.monotonic_ns() if machine is None and _is_elsewhere() else (machine or MACHINE.get()).boot_nanos()


_TIME = SimpleNamespace(
    CLOCK_BOOTTIME=0,
    CLOCK_MONOTONIC=0,
    clock_gettime_ns=_nanos,
    monotonic=lambda: _nanos() / 1e9,
    monotonic_ns=_nanos,
    time=lambda: _Datetime.now(UTC).timestamp(),
)
_BOOT_ID = SimpleNamespace(exists=lambda: True, read_text=lambda: MACHINE.get().boot_id)


_touched_pages = Publisher._touched_pages


def _in_order(publisher: Publisher, touched: Touched) -> list[ScopePage]:
    """Pages that change, by name: a node takes them as a set has them, which is another order in each process."""
    return sorted(_touched_pages(publisher, touched), key=lambda page: page.scope)


class NamedWorker:
    """Stands for threads of a process; the loop does their work."""

    def __init__(self, name: str, threads: int = 1) -> None:
        self.name = name
        self.jobs: deque[Any] = deque()
        self.is_busy = False

    def do(self, work: Callable[[], object]) -> None:
        """Nobody waits for it, so it is done at once."""
        work()

    def call(self, work: Any) -> "asyncio.Future[Any]":
        """The result of some work, when the loop has done it."""
        loop: Any = asyncio.get_running_loop()
        return cast("asyncio.Future[Any]", loop.run_in_executor(self, work))

    def shutdown(self, *, wait: bool = True, cancel: bool = False) -> None:
        """Nothing is held."""


@contextmanager
def world_of(seed: object) -> Iterator[VirtualLoop]:
    """Everything that real code does inside of this happens in the world."""
    dice = random.Random(f"{seed}/urandom")
    loop = VirtualLoop()
    loop.busy_until = lambda: machine.take_busy_until() if (machine := MACHINE.get(None)) is not None else 0.0
    outside = Machine("outside", loop)
    with ExitStack() as inside:
        for target, name, value in (
            (clock, "time", _TIME),
            (clock, "datetime", _Datetime),
            (clock, "_BOOT_ID", _BOOT_ID),
            (os, "urandom", dice.randbytes),
            (random, "_urandom", dice.randbytes),
            (engine, "WorkerThread", NamedWorker),
            (seat, "WorkerThread", NamedWorker),
            (Publisher, "_touched_pages", _in_order),
            (process, "EVERY", HEARTBEAT),
            (long_polls, "BEAT_SECONDS", BEAT),
            (cluster, "lease_timer", lambda: None),
            (way_to_leader, "fetch", between_nodes),
        ):
            inside.enter_context(patch.object(target, name, value))
        _THREAD["world"] = threading.get_ident()
        token = MACHINE.set(outside)
        inside.callback(MACHINE.reset, token)
        inside.enter_context(silence(loop))
        inside.enter_context(agents_border())
        inside.enter_context(drivers_border())
        inside.enter_context(followers_border(NamedWorker))
        inside.callback(loop.end_world)
        yield loop


BUGS = frozenset({"invariant-broken", "answer-failed"})
"""What a node logs when a rule has failed: it goes on without it, so it may be hours until a promise is broken."""


@contextmanager
def silence(loop: VirtualLoop) -> Iterator[None]:
    """Nothing is logged: a world has its own trace. But it is told of bugs."""

    def drop(_: Any, __: str, line: Any) -> Any:
        if line.get("action") in BUGS:
            loop.on_bug(f"{line['action']}: {line.get('command', '')} {line.get('exc_info')!r}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[drop], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)


def run(loop: VirtualLoop, work: Any) -> Any:
    """Run a coroutine to its end in the world."""
    asyncio.set_event_loop(None)
    return loop.run_until_complete(work)


def real_seconds() -> float:
    """How long the processor has worked for us: it tells how fast a world is, also when others use the computer."""
    return real_time.process_time()
