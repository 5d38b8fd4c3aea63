"""A machine of the world with clocks of its own, and the processes that run on it; whoever runs reads its machine's."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from simulator.loop import OWNER, Handle, VirtualLoop

T = TypeVar("T")

BEGIN = datetime(2030, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC)
"""When each world begins. Not a whole second: documents show whole ones, and rounding must not cut a notice short."""

MICROS = 1_000_000


class Machine:
    """Its clocks may drift, jump and begin again at another boot; a slow disk keeps its threads busy."""

    def __init__(self, name: str, loop: VirtualLoop, drift: float = 0.0) -> None:
        self.name, self.loop = name, loop
        self._drift, self._from, self._counted = drift, 0.0, 0.0
        self._boots, self._busy_until = 1, 0.0
        self.latency = 0.0
        """How long the answer to what a thread has just asked takes; nobody's clock moves on by that."""
        self._wall = timedelta()
        self._told = -1.0, BEGIN
        """The last time of day that was asked for, and when: many ask in one moment."""
        self.directories = 1
        """How many data directories its node has had: a second process of a node cannot use one that is in use."""
        self.commands: Any = None
        """The commands that run here, see `drivers_commands`."""

    @property
    def world_time(self) -> float:
        """The time of the world here: it may be a little ahead while a thread waits for a slow disk."""
        now, busy = self.loop._now, self._busy_until
        return busy if busy > now else now

    def take_busy_until(self) -> float:
        """Until when the thread that runs now has waited for its disk and for answers."""
        latency, self.latency = self.latency, 0.0
        return max(self._busy_until, self.loop.time() + latency)

    def wait(self, seconds: float) -> None:
        """The thread that runs now has waited this long for something; the loop of its process has not."""
        self._busy_until = self.world_time + seconds

    def boot_nanos(self) -> int:
        """Nanoseconds since the last boot."""
        now, busy = self.loop._now, self._busy_until  # the same as `_local`, for all who ask all the time
        now = busy if busy > now else now
        return round((self._counted + (now - self._from) * (1 + self._drift) + 100.0) * 1e9)

    def _local(self) -> float:
        return self._counted + (self.world_time - self._from) * (1 + self._drift) + 100.0

    def wall(self) -> datetime:
        """The time of day, as far as this machine knows."""
        now = self.world_time
        if now != self._told[0]:
            self._told = now, BEGIN + timedelta(seconds=now) + self._wall
        return self._told[1]

    @property
    def boot_id(self) -> str:
        """Names this boot."""
        return str(UUID(int=self._boots))

    def set_wall(self, seconds: float) -> None:
        """Somebody sets the time of day."""
        self._wall += timedelta(seconds=seconds)
        self._told = -1.0, BEGIN

    def set_wall_right(self, not_before: datetime) -> datetime:
        """The time of day, which somebody has looked at and set, so that it is not before an earlier one."""
        if self.wall() < not_before:
            self._wall += not_before - self.wall()
            self._told = -1.0, BEGIN
        return self.wall()

    def set_drift(self, drift: float) -> None:
        """From now on its steady clock is so much too fast or too slow."""
        self._counted, self._from, self._drift = self._local() - 100.0, self.world_time, drift

    def boot(self) -> None:
        """Another boot: the steady clock begins again."""
        self._boots += 1
        self._counted, self._from = 0.0, self.world_time


class Process:
    """One life of a program on a machine; it owns all that it begins."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.machine, self.name = machine, name
        self.runs, self.is_dead = True, False
        self.on_death: list[Callable[[], None]] = []
        self.network: Any = None
        self.service: Any = None
        self._put_off: list[Handle] = []
        self._context = copy_context()
        self._context.run(OWNER.set, self)
        self._context.run(MACHINE.set, machine)

    @property
    def context(self) -> Context:
        """A context of its own for one more thing that it does."""
        return self._context.copy()

    def put_off(self, handle: Handle) -> None:
        """A stopped process does it when it goes on, a dead one never."""
        self._put_off.append(handle)  # what a dead process has begun is kept, so that it is not cleaned up

    def do(self, work: Callable[..., T], *args: Any) -> T:
        """Do something as this process, at once."""
        return self.context.run(work, *args)

    def begin(self, work: Coroutine[Any, Any, T], name: str = "") -> "asyncio.Task[T]":
        """Begin something as this process."""
        return self.machine.loop.create_task(work, name=name or self.name, context=self.context)

    def soon(self, work: Callable[..., Any], *args: Any) -> None:
        """Do something as this process in the next turn; later, if it is stopped."""
        self.machine.loop.call_soon(work, *args, context=self.context)

    def stop(self) -> None:
        """SIGSTOP."""
        self.runs = False

    def go_on(self) -> None:
        """SIGCONT."""
        if not self.is_dead:
            self.runs = True
            handles, self._put_off = self._put_off, []
            self.machine.loop.go_on_with(handles)

    def kill(self) -> None:
        """kill -9."""
        self.runs, self.is_dead = False, True
        self.machine.loop.bury()
        for tell in self.on_death:
            tell()


MACHINE: ContextVar[Machine] = ContextVar("machine")
"""The machine whose clocks are read now."""
