"""A whole service in a thread of this process: real sockets and real HTTP on free ports, time only when told."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import uvloop

from duenotice.bootstrap.node import Service
from duenotice.bootstrap.ports import NOWHERE
from duenotice.client.operator.client import OperatorClient
from duenotice.clock import Instant, micros_of, monotonic
from duenotice.domain.commands import ApplyFleet, Command
from duenotice.domain.fleet import Declaration
from duenotice.domain.records import Record
from duenotice.engine.ports import Journal
from duenotice.errors import Refused
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.tap import Tap
from duenotice.settings import ServeSettings, host_port
from duenotice.testkit.request_log import RequestLog
from duenotice.wire.fleet_file import read_fleet

T = TypeVar("T")
C = TypeVar("C", bound=OperatorClient)
OPERATOR = "test"
"""The actor of what a test does."""

PATIENCE_SECONDS = 30.0
"""Longer than anything here can take: a longer wait means a bug of ours."""

DEFAULTS: dict[str, Any] = {
    "clock": "manual",
    "data_dir": ":memory:",
    "metadata_listen": "127.0.0.1:0",
    "operator_listen": NOWHERE,
    "throttle": 1e9,
    "approvals_throttle": 1e9,
    "log_format": "none",
    "allow_faults": True,
}
"""A test may ask as often as it likes; the real limits can be set."""


class Happened(NamedTuple):
    """A change, and when it was seen by all, in real monotonic seconds."""

    monotonic: float
    record: Record


class Emulator:
    """`with Emulator(default_vm="me") as emulator:` — settings are those of `duenotice serve`."""

    def __init__(
        self,
        metadata_socket: socket.socket | None = None,
        own_journal: Journal | None = None,
        options: MetadataOptions | None = None,
        **settings: Any,
    ) -> None:
        """With an `own_journal` it can be seen how a client takes a service that cannot store anything."""
        self._settings = ServeSettings(**(DEFAULTS | settings))
        self._metadata_socket, self._journal, self._options = metadata_socket, own_journal, options
        self.request_log = RequestLog(self._now, self._vm_at)
        self.tap: Tap | None = self.request_log
        self.new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
        self.happened: list[Happened] = []
        self._tasks: list[asyncio.Task[None]] = []

    def __enter__(self) -> "Emulator":
        self._loop = self.new_loop()
        self._thread = threading.Thread(target=self._live, name="duenotice", daemon=True)
        self._thread.start()
        try:
            self._wait(self._start())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._wait(self.service.stop())
        finally:
            self._end()

    @property
    def url(self) -> str:
        """Where VMs ask: put `/metadata/scheduledevents?api-version=…` behind it."""
        return f"http://{host_port(self.service.metadata_address)}"

    @property
    def operator_url(self) -> str:
        """Where the operator's API is, if it was given an address."""
        return f"http://{host_port(self.service.operator_address)}"

    def operator(self, kind: type[C]) -> C:
        """A client of the operator's API, if that was given an address: OperatorClient, or a kind of it."""
        return kind.in_process(self.service.operator_app, self.service.token, self._loop, timeout=PATIENCE_SECONDS)

    def submit(self, command: Command) -> list[Record]:
        """Do something as the operator; its result is durable and visible."""

        async def do() -> list[Record]:
            return list(await self.service.engine.submit(command, OPERATOR))

        return self._wait(do())

    def submit_soon(self, command: Command) -> None:
        """The same from the service's own thread, without waiting; a refused command has no effect."""

        async def do() -> None:
            with suppress(Refused):
                await self.service.engine.submit(command, OPERATOR)

        self._tasks.append(self._loop.create_task(do()))

    def advance(self, span: timedelta) -> None:
        """Let time pass; all that is due has happened when this returns."""
        self._wait(self.service.ticker.advance(micros_of(span)))

    def fault(self, vm: str, answer: str, seconds: float) -> None:
        """Give a VM wrong answers for this long on the service's clock."""
        self.look(lambda service: service.faults.put(vm, answer, seconds))

    def lift(self, vm: str) -> None:
        """Answer a VM correctly again."""
        self.look(lambda service: service.faults.lift(vm))

    def apply(self, fleet: str | Declaration) -> None:
        """Apply this fleet."""
        self.submit(ApplyFleet(read_fleet(fleet) if isinstance(fleet, str) else fleet))

    def look(self, at: Callable[[Service], T]) -> T:
        """Read something in the service's own thread, so that nothing changes meanwhile."""

        async def read() -> T:
            return at(self.service)

        return self._wait(read())

    def call(self, function: Callable[[], T]) -> T:
        """Call something in the service's own thread."""
        return self.look(lambda _: function())

    def history(self) -> list[Record]:
        """All that has happened."""
        return list(self._wait(self.service.engine.history(0, 1_000_000)))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the service's own loop."""
        return self._wait(work)

    async def _start(self) -> None:
        self.service = self._made()
        await self.service.start()
        self.service.engine.on_commit.append(self._note)

    def _made(self) -> Service:
        return Service(self._settings, self.tap, self._metadata_socket, self._journal, self._options)

    def _note(self, records: Sequence[Record]) -> None:
        self.happened += [Happened(monotonic(), record) for record in records]

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_SECONDS)

    def _live(self) -> None:
        """Until `_end`. What is under way is ended here: the thread that waits for it may be interrupted (Ctrl-C)."""
        self._loop.run_forever()
        self._loop.run_until_complete(_cancel_the_rest())

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()

    def _now(self) -> Instant:
        return self.service.engine.clock.now()

    def _vm_at(self, address: str) -> str:
        fleet = self.service.engine.state.fleet
        vm = fleet.by_address.get(address) or fleet.vms.get(self._settings.default_vm)
        return "" if vm is None else vm.name


async def _cancel_the_rest() -> None:
    """End everything in the loop that it would wait for when it is closed."""
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
