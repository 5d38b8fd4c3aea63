"""HTTP over asyncio's streams: one connection, a pool of them, and what runs a flow; the twin of `transport`."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from duenotice.http.flow import (
    FAILURES,
    MOST_IDLE,
    PIECE,
    Close,
    ConnectionClosed,
    Emit,
    Exchange,
    Flow,
    Open,
    Read,
    Sleep,
    Step,
    T,
    left,
)
from duenotice.http.http1 import (
    LARGEST_BODY,
    OpenResponse,
    ProtocolError,
    Reading,
    Request,
    Response,
    ResponseHead,
    encode,
    read_response,
)
from duenotice.http.transport import FlowEnded

if TYPE_CHECKING:
    from ssl import SSLContext


class AsyncStream(Protocol):
    """An answer that does not end."""

    head: ResponseHead

    async def read(self, deadline: float) -> bytes:
        """The next bytes, empty at the end."""

    async def end(self) -> None:
        """Read no more; a task that waits for more stops waiting."""


class AsyncTransport(Protocol):
    """Brings requests to a service; a failure is one of `FAILURES`."""

    async def exchange(self, step: Exchange) -> Response:
        """The whole answer."""

    async def open(self, step: Open) -> AsyncStream:
        """The answer as it comes."""

    async def close(self) -> None:
        """End what is kept open."""


class StreamConnection:
    """One request at a time."""

    head: ResponseHead

    def __init__(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """`host` is what the requests have as `Host`."""
        self._host, self._reader, self._writer = host, reader, writer
        self._answer = OpenResponse()

    async def exchange(self, request: Request, deadline: float, largest: int = LARGEST_BODY) -> Response:
        """The whole answer; ConnectionClosed if the connection ended before one began."""
        return await self._read(request, read_response(largest, request.method), deadline)

    async def open(self, request: Request, deadline: float, largest: int = LARGEST_BODY) -> ResponseHead:
        """The head of an answer that is `read` as it comes; the connection serves nothing else then."""
        self._answer = OpenResponse(largest)
        self.head = await self._read(request, self._answer.read_head(), deadline)
        return self.head

    async def read(self, deadline: float) -> bytes:
        """The next bytes of that answer, empty at its end."""
        while not (came := self._answer.taken()) and not self._answer.is_over:
            try:
                piece = await self._receive(deadline)
            except ConnectionError:
                # Not the same as an end: otherwise an answer without a length would seem complete.
                raise ProtocolError("the connection broke") from None
            self._answer.feed(piece)
        return came

    async def is_quiet(self) -> bool:
        """Whether it is open and nothing unexpected has come."""
        await asyncio.sleep(0)  # the loop may not have taken from the socket what is there
        reading = self._reader.read(1)
        try:
            reading.send(None)  # one step by hand, without a timeout: it waits, so nothing is there
        except (StopIteration, OSError):
            return False
        finally:
            reading.close()
        return True

    async def end(self) -> None:
        """Close it; the transport ends with the next turn of the loop."""
        self.close()
        await asyncio.sleep(0)

    def close(self) -> None:
        """Give it back to the system."""
        self._writer.close()
        if self._writer.get_extra_info("ssl_object") is not None:
            self._writer.transport.abort()  # our end of TLS is sent; the other side may never send its own

    async def _read(self, request: Request, reading: Reading[T], deadline: float) -> T:
        data, begun = encode(request, self._host, keep=True), False
        next(reading)
        try:
            with suppress(ConnectionError):  # a refusal may be there before all is sent, and then nothing more is read
                await self._send(data, deadline)
            while True:
                piece = await self._receive(deadline)
                if not (piece or begun):
                    raise ConnectionClosed
                begun = True
                reading.send(piece)
        except StopIteration as whole:
            value: T = whole.value
            return value
        except ConnectionError as error:
            if begun:
                raise ProtocolError("the connection broke") from None
            raise ConnectionClosed(*error.args) from None

    async def _send(self, data: bytes, deadline: float) -> None:
        self._writer.write(data)
        if self._writer.transport.get_write_buffer_size():
            async with asyncio.timeout(left(deadline)):
                await self._writer.drain()

    async def _receive(self, deadline: float) -> bytes:
        async with asyncio.timeout(left(deadline)):
            return await self._reader.read(PIECE)


class StreamPool:
    """The connections to one service, in one event loop; a few are kept open between requests."""

    def __init__(
        self,
        address: tuple[str, int],
        host: str,
        source: tuple[str, int] | None = None,
        tls: "SSLContext | None" = None,
        largest: int = LARGEST_BODY,
    ) -> None:
        """`largest` is how many bytes a body may have."""
        self._address, self._host, self.largest = address, host, largest
        self._source, self._tls = source, tls
        self._idle: list[StreamConnection] = []
        self._closed = False

    def lease(self) -> "StreamLease":
        """For one flow, which has a connection to itself."""
        return StreamLease(self)

    async def exchange(self, step: Exchange) -> Response:
        """On a connection of its own; a kept one may have been closed by the other side, then on a new one."""
        with self.lease() as lease:
            return await lease.exchange(step)

    async def open(self, step: Open) -> StreamConnection:
        """On a new connection, which is not kept."""
        connection = await self.connect(step.deadline)
        try:
            await connection.open(step.request, step.deadline, self.largest)
        except BaseException:
            connection.close()
            raise
        return connection

    async def close(self) -> None:
        """Keep none any longer; the transports end with the next turn of the loop."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()
        await asyncio.sleep(0)

    async def connect(self, deadline: float) -> StreamConnection:
        """A new one."""
        async with asyncio.timeout(left(deadline)):
            streams = await asyncio.open_connection(*self._address, local_addr=self._source, ssl=self._tls)
        return StreamConnection(self._host, *streams)

    def take(self) -> StreamConnection | None:
        """One that was kept."""
        return self._idle.pop() if self._idle else None

    def keep(self, connection: StreamConnection) -> None:
        """For a later request, if there is room."""
        if self._closed or len(self._idle) >= MOST_IDLE:
            connection.close()
        else:
            self._idle.append(connection)


class StreamLease:
    """The connection of one flow. It comes from the pool and goes back there, unless something went wrong with it.

    What a flow tries again goes over a new connection, not over another one that the service may have closed too.
    """

    def __init__(self, pool: StreamPool) -> None:
        self._pool = pool
        self._connection: StreamConnection | None = None
        self._has_begun = False

    def __enter__(self) -> "StreamLease":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and kind is None:
            self._pool.keep(connection)
        elif connection is not None:
            connection.close()

    async def exchange(self, step: Exchange) -> Response:
        """The whole answer."""
        kept = await self._kept() if step.repeatable else None
        if kept is not None:
            with suppress(ConnectionClosed):
                return await self._exchange(kept, step)
        return await self._exchange(await self._pool.connect(step.deadline), step)

    async def open(self, step: Open) -> StreamConnection:
        """The answer as it comes."""
        return await self._pool.open(step)

    async def close(self) -> None:
        """Give the connection back."""
        self.__exit__(None)

    async def _kept(self) -> StreamConnection | None:
        kept, self._connection = self._connection, None
        if not self._has_begun:
            kept, self._has_begun = self._pool.take(), True
        try:
            if kept is None or await kept.is_quiet():
                return kept
        except BaseException:
            if kept is not None:
                kept.close()
            raise
        kept.close()
        return None

    async def _exchange(self, connection: StreamConnection, step: Exchange) -> Response:
        try:
            response = await connection.exchange(step.request, step.deadline, self._pool.largest)
        except BaseException:
            connection.close()
            raise
        if not response.reusable:
            connection.close()
        elif self._connection is None:
            self._connection = connection
        else:
            self._pool.keep(connection)
        return response


class AsyncRunner:
    """Runs one flow, and holds the stream that it has open."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport
        self._stream: AsyncStream | None = None
        self._unfinished: Step | None = None
        """What was interrupted, by a timeout perhaps; the next wait does it again."""
        self._ended = False

    async def run(self, flow: Flow[T]) -> Emit | T:
        """To its end, or to the next thing that it emits."""
        reply, failure = None, None
        while not self._ended:
            try:
                step = self._unfinished
                if step is None:
                    step = flow.send(reply) if failure is None else flow.throw(failure)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Emit):
                return step
            self._unfinished = step
            try:
                reply, failure = await self._do(step), None
            except FAILURES as error:
                reply, failure = None, error
            self._unfinished = None
        raise FlowEnded

    async def end(self) -> None:
        """For good: another task that runs the flow finds out now."""
        self._ended = True
        await self.close()

    async def close(self) -> None:
        """Close its stream."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.end()

    async def _do(self, step: Step) -> Any:
        match step:
            case Exchange():
                return await self._transport.exchange(step)
            case Open():
                await self.close()
                self._stream = await self._transport.open(step)
                return self._stream.head
            case Read(deadline):
                return b"" if self._stream is None else await self._stream.read(deadline)
            case Close():
                return await self.close()
            case Sleep(seconds):
                return await asyncio.sleep(seconds)
            case Emit():
                return None
            case _:
                assert_never(step)


async def arun(flow: Flow[T], transport: AsyncTransport) -> T:
    """What a flow ends with that emits nothing."""
    value = await AsyncRunner(transport).run(flow)
    assert not isinstance(value, Emit)
    return value
