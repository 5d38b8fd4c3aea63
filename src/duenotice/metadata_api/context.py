"""What all connections of the VMs' port share; it decides nothing and sends nothing."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from duenotice.clock import Clock
from duenotice.engine.publisher import Publisher
from duenotice.metadata_api.answers import Answers, Delay, FaultyResponse, Later, Outcome, Responder, Submit
from duenotice.metadata_api.long_polls import LongPolls
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.requests import RequestCache, Router
from duenotice.metadata_api.responses import cached_time_of, error
from duenotice.metadata_api.sessions import ConnectionLimits, Sessions, SessionTable, files_left

if TYPE_CHECKING:
    from duenotice.metadata_api.connection import Connection

_SWEPT_AT_ONCE = 64
_BROKEN = error(500, "Something is wrong in the service. Look at its log.")


class ServerContext:
    """Shared state. `known` and `warm_sessions` belong to the cache and the sessions; from here access is fast."""

    __slots__ = (
        "answers",
        "cache",
        "draining",
        "empty",
        "known",
        "limits",
        "long_polls",
        "loop",
        "options",
        "router",
        "sessions",
        "tasks",
        "time",
        "warm_sessions",
    )

    def __init__(
        self, submit: Submit, publisher: Publisher, clock: Clock, options: MetadataOptions, delay: Delay
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.options = options
        self.draining = False
        self.empty = asyncio.Event()
        self.time = cached_time_of(clock, options)
        self.router = Router(options)
        self.cache = RequestCache(self.router)
        self.known = self.cache.known
        self.sessions = Sessions(publisher, options)
        self.warm_sessions: SessionTable = self.sessions.by_address
        most = min(options.max_connections, files_left())
        self.limits: ConnectionLimits[Connection] = ConnectionLimits(
            most, options.max_connections_per_address, self.sessions.is_known
        )
        self.long_polls = LongPolls(publisher, self.loop.call_soon)
        self.tasks: set[asyncio.Task[Outcome | FaultyResponse]] = set()
        self.answers: Responder = Answers(submit, publisher, self.sessions, self.time, options, delay)
        publisher.watch_fleet(self.fleet_changed)

    def fleet_changed(self, addresses: Collection[str]) -> None:
        """Some VMs were added, removed or changed."""
        self.sessions.forget(addresses)
        self.long_polls.fleet_changed(addresses)

    def make(self, answer: Later, then: Callable[[Outcome | FaultyResponse], None]) -> None:
        """Make an answer that takes a while, and tell it when it is there; one that fails is told as such."""
        task = self.loop.create_task(answer)
        self.tasks.add(task)
        task.add_done_callback(lambda done: self._made(done, then))

    def _made(
        self, task: "asyncio.Task[Outcome | FaultyResponse]", then: Callable[[Outcome | FaultyResponse], None]
    ) -> None:
        self.tasks.discard(task)
        if task.cancelled():
            return
        problem = task.exception()
        if problem is not None:
            self.loop.call_exception_handler({"message": "A request failed.", "exception": problem})
        then(task.result() if problem is None else _BROKEN)

    def leave(self, connection: "Connection") -> None:
        """A connection is gone."""
        self.limits.leave(connection)
        if self.draining and not self.limits.connections:
            self.empty.set()

    def beat(self) -> None:
        """Take the time, and end the waits that are over."""
        self.time.beat()
        self.long_polls.beat()

    def sweep(self) -> None:
        """End what is overdue."""
        self._sweep_some(iter(self.limits.overdue(self.time.now)))

    def _sweep_some(self, overdue: "Iterator[Connection]") -> None:
        """A few in this turn of the loop: thousands that came together are overdue together (S26).

        Who has gone since it was found is not ended, because its number may be another one's by now.
        """
        for swept, connection in enumerate(overdue, start=1):
            if connection in self.limits.connections and connection.deadline <= self.time.now:
                connection.expire()
            if swept == _SWEPT_AT_ONCE:
                self.loop.call_soon(self._sweep_some, overdue)
                return

    async def drain(self, timeout: float) -> None:
        """End all connections, with answers that say so; connections that take too long are cut off."""
        self.draining = True
        self.cache.close()
        for connection in list(self.limits.connections):
            connection.drain()
        if self.limits.connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.empty.wait(), timeout)
        for connection in list(self.limits.connections):
            connection.drop()
