"""Listens for VMs, takes the time, and drains when the service stops."""

import asyncio
import socket
from collections.abc import Callable

from duenotice.clock import Clock
from duenotice.engine.publisher import Publisher
from duenotice.metadata_api.answers import Delay, Submit
from duenotice.metadata_api.context import ServerContext
from duenotice.metadata_api.faults import Faults
from duenotice.metadata_api.listener import BACKLOG, Listener
from duenotice.metadata_api.long_polls import BEAT_SECONDS
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.sockets import Sockets
from duenotice.metadata_api.tap import Tap, TappedSockets

SWEEP_BEATS = 10
"""Connections are looked through for passed deadlines once a second."""

DEFAULTS = MetadataOptions()


class MetadataServer:
    """The VMs' port, open between `start` and `drain`; to be made inside the running loop."""

    def __init__(
        self,
        submit: Submit,
        publisher: Publisher,
        clock: Clock,
        options: MetadataOptions = DEFAULTS,
        delay: Delay = asyncio.sleep,
        tap: Tap | None = None,
        prepare: Callable[[ServerContext], None] = lambda context: None,
    ) -> None:
        self._tap = tap
        self._context = ServerContext(submit, publisher, clock, options, delay)
        prepare(self._context)
        self.faults = Faults(self._context, delay)
        self._listener: Listener | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._context.limits.connections)

    @property
    def answered(self) -> int:
        """Answers sent since the start."""
        return self._context.time.response_head.answered

    def silent_for(self, address: str) -> float | None:
        """How many seconds ago the VM with this address last asked; None when it has not since the start."""
        session, now = self._context.sessions.by_address.get(address), self._context.time.now
        taken = None if session is None else session.polls.last_taken(now)
        return None if taken is None else now - taken

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; port 0 takes a free one. Returns the address that VMs can reach."""
        return await self.start_on(_listening(host, port))

    async def start_on(self, listening: socket.socket) -> tuple[str, int]:
        """Answer on a socket that somebody else has opened."""
        kind = listening.family, listening.type, listening.proto
        sockets = Sockets(kind) if self._tap is None else TappedSockets(kind, self._tap)
        self._listener = Listener(self._context, sockets)
        self._listener.open(listening)
        self._beat()
        bound_host, bound_port, *_ = listening.getsockname()
        return bound_host, bound_port

    async def drain(self, timeout: float) -> None:
        """Accept no new connections, let running requests finish, answer held polls, then close."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        await self._context.drain(timeout)
        if listener is not None:
            listener.end()
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self, beats: int = 1) -> None:
        self._timer = self._context.loop.call_later(BEAT_SECONDS, self._beat, beats + 1)
        self._context.beat()
        if beats % SWEEP_BEATS == 0:
            self._context.sweep()


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=host == "::")
