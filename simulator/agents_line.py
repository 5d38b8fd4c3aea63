"""How an agent's client reaches the metadata service: the real flows, over connections of the world."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from duenotice.client import AsyncMetadataClient
from duenotice.client.endpoint import Address
from duenotice.http.async_transport import StreamConnection, StreamPool
from duenotice.http.http1 import OpenResponse
from simulator.agents_border import check_alive
from simulator.loop import VirtualLoop

Told = Any
"""What the world knows of a piece of an answer: the document that is complete with it."""


class Connection:
    """One connection; the service pushes pieces, the client takes them."""

    def __init__(self, loop: VirtualLoop, taken: Callable[[Told], None]) -> None:
        self._loop, self._taken = loop, taken
        self._inbox: deque[tuple[bytes | OSError, Told]] = deque()
        self._waiter: Any = None
        self.is_closed = False
        self.on_close: list[Callable[[], None]] = []

    @property
    def is_quiet(self) -> bool:
        return not self._inbox and not self.is_closed

    def push(self, piece: bytes | OSError, told: Told = None) -> None:
        """Bytes from the service; empty at its end, an error when the connection breaks."""
        if not self.is_closed:
            self._inbox.append((piece, told))
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    async def take(self, deadline: float) -> bytes:
        """The next piece; a deadline is in seconds of the loop."""
        if not self._inbox:
            self._waiter = waiter = self._loop.create_future()
            timer = self._loop.call_at(deadline, self._late)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiter = None
        if not self._inbox:
            raise TimeoutError("the deadline has passed")
        piece, told = self._inbox.popleft()
        if isinstance(piece, OSError):
            raise piece
        if told is not None:
            self._taken(told)
        return piece

    def _late(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            for tell in self.on_close:
                tell()


class Door(Protocol):
    """The way from one VM to the service."""

    def connect(self) -> Connection | None:
        """A new connection; None when nobody answers at all."""

    def ask(self, connection: Connection, request: bytes) -> None:
        """A request was sent; the answer is pushed."""


class WorldConnection(StreamConnection):
    """As the real one, but for the bytes that come and go."""

    def __init__(self, pool: "WorldPool", connection: Connection) -> None:
        self._host, self._answer = pool.host, OpenResponse()
        self._pool, self._connection = pool, connection

    async def is_quiet(self) -> bool:
        check_alive()
        return self._connection.is_quiet

    async def _send(self, data: bytes, deadline: float) -> None:
        check_alive()
        self._pool.door.ask(self._connection, data)

    async def _receive(self, deadline: float) -> bytes:
        return await self._connection.take(self._pool.until(deadline))

    def close(self) -> None:
        self._connection.close()


class WorldPool(StreamPool):
    """As the real one, but for how it connects."""

    def __init__(self, address: Address, door: Door, loop: VirtualLoop, now: Callable[[], float]) -> None:
        super().__init__(address, address.header)
        self.host, self.door, self._loop, self._now = address.header, door, loop, now

    async def connect(self, deadline: float) -> StreamConnection:
        check_alive()
        if (connection := self.door.connect()) is None:
            await Connection(self._loop, lambda _: None).take(self.until(deadline))
            raise AssertionError("nobody answers, and yet it has connected")
        return WorldConnection(self, connection)

    def until(self, deadline: float) -> float:
        """A deadline of the machine's own clock, which may drift, in the time of the loop."""
        return self._loop.time() + max(0.0, deadline - self._now())


class WorldClient(AsyncMetadataClient):
    """The agent's client in the world: all but the connection and the jitter is the real one."""

    def __init__(self, door: Door, loop: VirtualLoop, now: Callable[[], float], dice: Random) -> None:
        super().__init__("http://169.254.169.254")
        self._door, self._loop, self._now = door, loop, now
        self._flows.jitter = dice.random

    def _new_pool(self, address: Address) -> StreamPool:
        return WorldPool(address, self._door, self._loop, self._now)
