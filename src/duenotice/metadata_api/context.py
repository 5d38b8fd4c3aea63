"""What all connections of the VM's door share; it decides nothing and sends nothing."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from duenotice.clock import Clock
from duenotice.engine.publisher import Publisher
from duenotice.metadata_api.answers import Answering, Answers, Broken, Delay, Later, Outcome, Submit
from duenotice.metadata_api.long_polls import HeldPolls
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.requests import Memo, Router
from duenotice.metadata_api.responses import error, pulse_of
from duenotice.metadata_api.sessions import Callers, Crowd, Lanes, files_left

if TYPE_CHECKING:
    from duenotice.metadata_api.connection import Connection

_SWEPT_AT_ONCE = 64
_BROKEN = error(500, "Something is wrong in the service. Look at its log.")


class Door:
    """Shared state. `known` and `lanes` belong to the memo and the callers; they are here so that access is fast."""

    __slots__ = (
        "answers",
        "callers",
        "crowd",
        "draining",
        "empty",
        "known",
        "lanes",
        "loop",
        "memo",
        "options",
        "pulse",
        "router",
        "tasks",
        "waiting",
    )

    def __init__(
        self, submit: Submit, publisher: Publisher, clock: Clock, options: MetadataOptions, delay: Delay
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.options = options
        self.draining = False
        self.empty = asyncio.Event()
        self.pulse = pulse_of(clock, options)
        self.router = Router(options)
        self.memo = Memo(self.router)
        self.known = self.memo.known
        self.callers = Callers(publisher, options)
        self.lanes: Lanes = self.callers.lanes
        most = min(options.max_connections, files_left())
        self.crowd: Crowd[Connection] = Crowd(most, options.max_connections_per_address, self.callers.is_known)
        self.waiting = HeldPolls(publisher, self.loop.call_soon)
        self.tasks: set[asyncio.Task[Outcome | Broken]] = set()
        self.answers: Answering = Answers(submit, publisher, self.callers, self.pulse, options, delay)
        publisher.watch_fleet(self.fleet_changed)

    def fleet_changed(self, addresses: Collection[str]) -> None:
        """Some VMs were added, removed or changed."""
        self.callers.forget(addresses)
        self.waiting.fleet_changed(addresses)

    def make(self, answer: Later, then: Callable[[Outcome | Broken], None]) -> None:
        """Make an answer that takes a while, and tell it when it is there; one that fails is told as such."""
        task = self.loop.create_task(answer)
        self.tasks.add(task)
        task.add_done_callback(lambda done: self._made(done, then))

    def _made(self, task: "asyncio.Task[Outcome | Broken]", then: Callable[[Outcome | Broken], None]) -> None:
        self.tasks.discard(task)
        if task.cancelled():
            return
        problem = task.exception()
        if problem is not None:
            self.loop.call_exception_handler({"message": "A request failed.", "exception": problem})
        then(task.result() if problem is None else _BROKEN)

    def leave(self, connection: "Connection") -> None:
        """A connection is gone."""
        self.crowd.leave(connection)
        if self.draining and not self.crowd.everybody:
            self.empty.set()

    def beat(self) -> None:
        """Take the time, and end the waits that are over."""
        self.pulse.beat()
        self.waiting.beat()

    def sweep(self) -> None:
        """End what is overdue."""
        self._sweep_some(iter(self.crowd.overdue(self.pulse.now)))

    def _sweep_some(self, overdue: "Iterator[Connection]") -> None:
        """A few in this turn of the loop: thousands that came together are overdue together (S26).

        Who has gone since it was found is not ended, because its number may be another one's by now.
        """
        for swept, connection in enumerate(overdue, start=1):
            if connection in self.crowd.everybody and connection.deadline <= self.pulse.now:
                connection.expire()
            if swept == _SWEPT_AT_ONCE:
                self.loop.call_soon(self._sweep_some, overdue)
                return

    async def drain(self, timeout: float) -> None:
        """End all connections, with answers that say so; connections that take too long are cut off."""
        self.draining = True
        self.memo.close()
        for connection in list(self.crowd.everybody):
            connection.drain()
        if self.crowd.everybody:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.empty.wait(), timeout)
        for connection in list(self.crowd.everybody):
            connection.drop()
