"""An engine to test: journals that wait or fail on demand, a clock whose wall can be set, and loops run to the end."""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from duenotice.clock import Clock, Instant, ManualClock, Mark
from duenotice.domain.commands import ApplyFleet, ApproveEvents, CancelEvent, Command, EnableScope, ScheduleEvent
from duenotice.domain.event import EventType
from duenotice.domain.policy import Policy
from duenotice.domain.records import Record
from duenotice.engine.engine import Engine, Records, load
from duenotice.engine.ports import Journal
from duenotice.engine.publisher import Publisher
from duenotice.store.memory import MemoryJournal
from tests.unit.domain.build import NOW, declaration, id_of

BEGIN = Mark(*NOW)
ALONE = id_of(1)
SECONDS = 10
"""Real seconds after which a test that hangs has failed."""


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in a loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), SECONDS))

    return run


class GatedJournal(MemoryJournal):
    """A slow disk: an append waits until the gate is opened."""

    blocking = True

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.reached = threading.Event()

    def append(self, records: Sequence[Record]) -> None:
        self.reached.set()
        assert self.gate.wait(SECONDS)
        super().append(records)


class FailingJournal(MemoryJournal):
    """A bad disk: the next appends fail with these errors; `kept` is whether the records are stored all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[Exception] = []
        self.read_failures: list[Exception] = []
        self.kept = False
        self.closed = False

    def append(self, records: Sequence[Record]) -> None:
        if not self.failures:
            super().append(records)
            return
        if self.kept:
            super().append(records)
        raise self.failures.pop(0)

    def read(self, after: int, limit: int | None = None) -> Any:
        if self.read_failures:
            raise self.read_failures.pop(0)
        return super().read(after, limit)

    def close(self) -> None:
        self.closed = True


class SettableClock:
    """Real time as tests need it: seconds pass when told, and somebody may set the wall clock."""

    name = "settable"
    speed = 1.0

    def __init__(self) -> None:
        self._now = NOW

    def now(self) -> Instant:
        return self._now

    def mark(self) -> Mark:
        return Mark(*self._now)

    def hold(self) -> None:
        """Time passes only when told anyhow."""

    def run(self) -> None:
        """It still needs to be told."""

    def beat(self) -> int:
        return 0

    def pass_by(self, micros: int) -> None:
        """Time passes for everybody."""
        self._now = self._now.after(micros)

    def set_wall(self, by: int) -> None:
        """Somebody sets the wall clock, forward or back."""
        self._now = Instant(self._now.at + timedelta(microseconds=by), self._now.steady)


def engine_on(journal: Journal, clock: Clock | None = None, policy: Policy | None = None) -> Engine:
    """An engine that has read its journal but does not run yet."""
    publisher = Publisher(asyncio.get_running_loop().call_soon)
    return Engine(journal, clock or ManualClock(BEGIN), policy or Policy(), load(journal), publisher)


@asynccontextmanager
async def running(
    journal: Journal | None = None, clock: Clock | None = None, policy: Policy | None = None
) -> AsyncIterator[Engine]:
    """A running engine with the demo fleet; it is stopped at the end, and its journal can be opened again."""
    engine = engine_on(MemoryJournal() if journal is None else journal, clock, policy)
    engine.start()
    if not engine.state.fleet.vms:
        await engine.submit(ApplyFleet(declaration()), "test")
    try:
        yield engine
    finally:
        await engine.stop()


def ask(engine: Engine, command: Command) -> "asyncio.Future[Records]":
    """Submit as the test."""
    return engine.submit(command, "test")


async def listen(engine: Engine, *vms: str) -> None:
    """Turn scopes on."""
    for vm in vms:
        await ask(engine, EnableScope(vm))


def reboot(vm: str, number: int = 1) -> ScheduleEvent:
    """An event on a VM."""
    return ScheduleEvent(id_of(number), EventType.REBOOT, (vm,))


def approval(vm: str | None, *numbers: int) -> ApproveEvents:
    """An approval by a VM or the operator."""
    return ApproveEvents(tuple(map(id_of, numbers or (1,))), vm)


def cancellation(number: int = 1) -> CancelEvent:
    """A cancellation."""
    return CancelEvent(id_of(number))


def shown(engine: Engine, vm: str) -> list[tuple[str, str]]:
    """Id and phase of the events a VM is shown."""
    page = engine.publisher.open_page_of(engine.publisher.state.fleet.vms[vm])
    return [(event.id, event.phase.value) for event in page.document.events]


async def once(condition: Callable[[], object]) -> None:
    """Let others run until a condition holds."""
    while not condition():  # noqa: ASYNC110 (there is no event to wait for: the condition is what is tested)
        await asyncio.sleep(0)
