"""The operator's port of a follower: every byte goes to the node and back, so nothing is decided here (N09).

Only a load balancer's question how this process is gets an answer of its own.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

from duenotice.follower.health import Wellbeing, answer
from duenotice.follower.line import NodeLine

MOST_CONNECTIONS = 200
CONNECT_SECONDS, PATIENCE_SECONDS = 3.0, 10.0
PIECE = 64 * 1024

_BODY = (
    b'{"type":"about:blank","status":503,"title":"The node that this follower follows cannot be reached.",'
    b'"hint":"Nothing was done. Try again, or ask the node itself."}'
)
_UNREACHABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


class Passing:
    """Listens for operators, and connects each to the node that is followed, or to another one that is there."""

    def __init__(self, lines: Callable[[], Sequence[NodeLine]], wellbeing: Callable[[], Wellbeing]) -> None:
        """`lines` are those to all nodes, in the order to try."""
        self._lines, self._wellbeing = lines, wellbeing
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.Task[None], None] = {}
        """Who has not asked anything yet, the oldest first."""

    async def start(self, listening: socket.socket) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._accepted, sock=listening)

    async def stop(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if self._has_room():
                self._silent[task] = None
                first = await _begun(reader)
                self._silent.pop(task, None)
                await self._pass(reader, writer, first)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            self._silent.pop(task, None)
            writer.close()

    def _has_room(self) -> bool:
        """When there are too many, the oldest that has said nothing goes: silent clients lock nobody out."""
        is_full = len(self._open) > MOST_CONNECTIONS
        if is_full and self._silent:
            oldest = next(iter(self._silent))
            del self._silent[oldest]
            oldest.cancel()
            return True
        return not is_full

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes) -> None:
        own = answer(first, self._wellbeing()) if first else b""
        there = await self._reached() if own is None else None
        if there is None:
            writer.write(_UNREACHABLE if own is None else own)
            await writer.drain()
            return
        there[1].write(first)
        try:
            ways = [asyncio.ensure_future(_pump(reader, there[1])), asyncio.ensure_future(_pump(there[0], writer))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if not ways[1].done():  # the client has sent all: it may still read the answer
                await ways[1]
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            there[1].close()

    async def _reached(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for line in self._lines():
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection(line.target.host, line.target.port, ssl=line.trust)
        return None


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def _begun(reader: asyncio.StreamReader) -> bytes:
    """What comes first, at least a line; nothing if that takes too long."""
    first = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while b"\n" not in first and len(first) < PIECE and (more := await reader.read(PIECE)):
                first += more
            return first
    return b""
