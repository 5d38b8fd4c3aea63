"""A real engine behind a real metadata server, on a loop of its own; tests reach it over sockets only."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import uuid4

import uvloop

from duenotice.clock import Clock, ManualClock
from duenotice.domain.commands import ApplyFleet, Command, ScheduleEvent
from duenotice.domain.event import EventType
from duenotice.domain.fleet import Declaration, Group, GroupKind, Vm
from duenotice.domain.policy import Policy
from duenotice.domain.state import State
from duenotice.domain.transitions import Record
from duenotice.engine.engine import Engine
from duenotice.engine.ports import Journal
from duenotice.engine.publisher import Publisher
from duenotice.errors import Unavailable
from duenotice.journal.memory import MemoryJournal
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.server import MetadataServer

SOLO, WEB_0, WEB_1, STRANGER = "127.0.1.1", "127.0.2.1", "127.0.2.2", "127.0.9.9"
FLEET = Declaration(
    "one",
    groups=(Group(GroupKind.AVAILABILITY_SET, "web"),),
    vms=(
        Vm("solo", SOLO),
        Vm("web-0", WEB_0, group="set/web", update_domain=0),
        Vm("web-1", WEB_1, group="set/web", update_domain=1),
    ),
)
GENEROUS = MetadataOptions(throttle=0, approvals_throttle=0, max_connections_per_address=5000)

T = TypeVar("T")


class Disk(MemoryJournal):
    """A journal on a disk that can be full."""

    is_full = False

    def append(self, records: Sequence[Record]) -> None:
        if self.is_full:
            raise Unavailable("The disk is full.", hint="Make room.")
        super().append(records)


async def started_engine(journal: Journal, clock: Clock) -> Engine:
    """An engine that knows the fleet, on the loop that runs."""
    publisher = Publisher(asyncio.get_running_loop().call_soon)
    engine = Engine(journal, clock, Policy(), State(), publisher)
    engine.start()
    await engine.submit(ApplyFleet(FLEET), "test")
    return engine


class World:
    """Everything between `start` and `stop`; `problems` are errors that nobody caught."""

    def __init__(self, options: MetadataOptions, host: str) -> None:
        self.options = options
        self.host = host
        self.disk = Disk()
        self.problems: list[dict[str, Any]] = []
        self.address = ("", 0)
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: uvloop.run(self._main()), daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(10), "the world did not start"

    def stop(self) -> None:
        self.call(self._stop.set)
        self._thread.join(10)
        assert not self.problems

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.loop.set_exception_handler(lambda _, context: self.problems.append(context))
        self._stop = asyncio.Event()
        self.clock = ManualClock()
        self.engine = await started_engine(self.disk, self.clock)
        self.server = MetadataServer(self.engine.submit, self.engine.publisher, self.clock, self.options)
        self.address = await self.server.start(self.host, 0)
        self._started.set()
        await self._stop.wait()
        await self.server.drain(1)
        await self.engine.stop()

    def call(self, function: Callable[[], T]) -> T:
        """Run something on the world's own loop."""

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(10)

    def submit(self, command: Command) -> None:
        """Let the engine do something, and wait until it is durable."""

        async def run() -> None:
            await self.engine.submit(command, "test")

        asyncio.run_coroutine_threadsafe(run(), self.loop).result(10)

    def schedule(self, *resources: str) -> str:
        """Raise an event; its id."""
        event_id = str(uuid4()).upper()
        self.submit(ScheduleEvent(event_id, EventType.REBOOT, resources))
        return event_id

    def drain(self, timeout: float) -> None:
        """Close the metadata door."""
        asyncio.run_coroutine_threadsafe(self.server.drain(timeout), self.loop).result(timeout + 5)


@contextmanager
def running(options: MetadataOptions = GENEROUS, host: str = "127.0.0.1") -> Iterator[World]:
    """A world for one test."""
    world = World(options, host)
    world.start()
    try:
        yield world
    finally:
        world.stop()
