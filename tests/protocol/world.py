"""The emulator as protocol tests need it: a small fleet, a disk that can be full, and nothing that fails unseen."""

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, ClassVar, NamedTuple
from uuid import uuid4

import uvloop

from duenotice.clock import Clock, ManualClock
from duenotice.domain.commands import ApplyFleet, ScheduleEvent
from duenotice.domain.event import EventType
from duenotice.domain.fleet import Declaration, Group, GroupKind, Vm
from duenotice.domain.policy import Policy
from duenotice.domain.records import Record
from duenotice.domain.state import State
from duenotice.engine.engine import Engine
from duenotice.engine.ports import Journal
from duenotice.engine.publisher import Publisher
from duenotice.errors import Unavailable
from duenotice.metadata_api.options import MetadataOptions
from duenotice.store.memory import MemoryJournal
from duenotice.testkit.emulator import Emulator

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


class Way(NamedTuple):
    """How clients come in: over a loop, and with a tap the loop accepts them."""

    name: str
    new_loop: Callable[[], asyncio.AbstractEventLoop]
    tapped: bool = False


QUICK_ON_UVLOOP = Way("quick", uvloop.new_event_loop)
QUICK_ON_ASYNCIO = Way("quick-asyncio", asyncio.new_event_loop)
TAPPED_ON_UVLOOP = Way("tapped", uvloop.new_event_loop, tapped=True)


class World(Emulator):
    """`problems` are errors that nobody caught."""

    way: ClassVar[Way] = QUICK_ON_UVLOOP

    def __init__(self, options: MetadataOptions, host: str) -> None:
        self.disk = Disk()
        self.problems: list[dict[str, Any]] = []
        listen = f"[{host}]:0" if ":" in host else f"{host}:0"
        super().__init__(own_journal=self.disk, options=options, metadata_listen=listen)
        self.new_loop = self.way.new_loop
        if not self.way.tapped:
            self.tap = None

    def __enter__(self) -> "World":
        super().__enter__()
        self.engine, self.server = self.service.engine, self.service.metadata
        self.address = self.service.metadata_address
        assert isinstance(self.engine.clock, ManualClock)
        self.clock = self.engine.clock
        self.loop = self.look(lambda _: asyncio.get_running_loop())
        self.loop.set_exception_handler(lambda _, context: self.problems.append(context))
        self.apply(FLEET)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        assert not self.problems

    def schedule(self, *resources: str) -> str:
        """Raise an event; its id."""
        event_id = str(uuid4()).upper()
        self.submit(ScheduleEvent(event_id, EventType.REBOOT, resources))
        return event_id

    def drain(self, timeout: float) -> None:
        """Close the metadata door."""
        self.run(self.server.drain(timeout))


def running(options: MetadataOptions = GENEROUS, host: str = "127.0.0.1") -> World:
    """A world for one test."""
    return World(options, host)
