"""A connection over asyncio streams, plain or TLS: carries the same talks as a socket's, and decides nothing."""

import asyncio
from typing import TYPE_CHECKING, Any, assert_never

from duenotice.client.endpoint import Address
from duenotice.client.exchange import Close, Connect, Receive, Send, Show, Sleep, Step, T, Talk
from duenotice.client.line import PIECE, left

if TYPE_CHECKING:
    from ssl import SSLContext


class StreamLine:
    """A connection that does what a talk says, beside other tasks."""

    def __init__(
        self, address: Address, source: tuple[str, int] | None = None, tls: "SSLContext | None" = None
    ) -> None:
        self._address = address
        self._source = source
        self._tls = tls
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def carry(self, talk: Talk[T]) -> Show | T:
        """Carry a talk to its end, or to the next document it shows."""
        reply, failure = None, None
        while True:
            try:
                step = talk.send(reply) if failure is None else talk.throw(failure)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Show):
                return step
            try:
                reply, failure = await self._do(step), None
            except OSError as error:
                failure = error

    async def _do(self, step: Step) -> Any:
        match step:
            case Connect(deadline, reuse):
                return await self._connect(deadline, reuse)
            case Send(data, deadline):
                return await self._send(data, deadline)
            case Receive(deadline):
                return await self._receive(deadline)
            case Close():
                return self.close()
            case Sleep(seconds):
                return await asyncio.sleep(seconds)
            case Show():
                return None
            case _:
                assert_never(step)

    async def _connect(self, deadline: float, reuse: bool) -> bool:
        if reuse and await self._is_quiet():
            return True
        self.close()
        async with asyncio.timeout(left(deadline)):
            self._streams = await asyncio.open_connection(*self._address, local_addr=self._source, ssl=self._tls)
        return False

    async def _is_quiet(self) -> bool:
        """Whether the connection is open and quiet: it has not ended, and no unexpected bytes have come."""
        if self._streams is None:
            return False
        try:
            await asyncio.sleep(0)  # the loop may not have taken from the socket what is there
            async with asyncio.timeout(0):
                await self._streams[0].read(1)
        except TimeoutError:
            return True
        except OSError:
            return False
        return False

    async def _send(self, data: bytes, deadline: float) -> None:
        _, writer = self._open()
        async with asyncio.timeout(left(deadline)):
            writer.write(data)
            await writer.drain()

    async def _receive(self, deadline: float) -> bytes:
        reader, _ = self._open()
        async with asyncio.timeout(left(deadline)):
            return await reader.read(PIECE)

    def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            raise ConnectionError("not connected")
        return self._streams

    def close(self) -> None:
        if self._streams is not None:
            writer = self._streams[1]
            writer.close()
            if self._tls is not None:
                writer.transport.abort()  # our end of TLS is sent; the other side may never send its own
            self._streams = None
