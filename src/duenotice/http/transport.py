"""HTTP over sockets for programs that may wait: one connection, a pool of them, and what runs a flow on a transport."""

import math
import socket
import time
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

if TYPE_CHECKING:
    from ssl import SSLContext


class Stream(Protocol):
    """An answer that does not end."""

    head: ResponseHead

    def read(self, deadline: float) -> bytes:
        """The next bytes, empty at the end."""

    def end(self) -> None:
        """Read no more; from any thread, and one that waits for more stops waiting."""


class Transport(Protocol):
    """Brings requests to a service; a failure is one of `FAILURES`."""

    def exchange(self, step: Exchange) -> Response:
        """The whole answer."""

    def open(self, step: Open) -> Stream:
        """The answer as it comes."""

    def close(self) -> None:
        """End what is kept open."""


class SocketConnection:
    """One request at a time. In an answer the other side may be silent for `idle_seconds`."""

    head: ResponseHead

    def __init__(self, connected: socket.socket, host: str, idle_seconds: float = math.inf) -> None:
        """`host` is what the requests have as `Host`."""
        self._socket, self._host, self.idle_seconds = connected, host, idle_seconds
        self._answer = OpenResponse()

    def exchange(self, request: Request, deadline: float, largest: int = LARGEST_BODY) -> Response:
        """The whole answer; ConnectionClosed if the connection ended before one began."""
        return self._read(request, read_response(largest, request.method), deadline)

    def open(self, request: Request, deadline: float, largest: int = LARGEST_BODY) -> ResponseHead:
        """The head of an answer that is `read` as it comes; the connection serves nothing else then."""
        self._answer = OpenResponse(largest)
        self.head = self._read(request, self._answer.read_head(), deadline)
        return self.head

    def read(self, deadline: float) -> bytes:
        """The next bytes of that answer, empty at its end."""
        while not (came := self._answer.taken()) and not self._answer.is_over:
            try:
                piece = self._receive(deadline)
            except ConnectionError:
                # Not the same as an end: otherwise an answer without a length would seem complete.
                raise ProtocolError("the connection broke") from None
            self._answer.feed(piece)
        return came

    @property
    def is_quiet(self) -> bool:
        """Whether it is open and nothing unexpected has come."""
        self._socket.settimeout(0)
        try:
            self._socket.recv(1)
        except BlockingIOError:
            return True
        except OSError as error:
            return type(error).__name__ == "SSLWantReadError"  # how TLS says the same; it is not loaded for this
        return False

    def interrupt(self) -> None:
        """End it, from any thread: one that waits for it stops waiting. It still has to be closed."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Close it, and wake another thread that waits for more: closing a socket alone does not."""
        self.interrupt()
        self.close()

    def close(self) -> None:
        """Give it back to the system."""
        self._socket.close()

    def _read(self, request: Request, reading: Reading[T], deadline: float) -> T:
        data, begun = encode(request, self._host, keep=True), False
        next(reading)
        try:
            with suppress(ConnectionError):  # a refusal may be there before all is sent, and then nothing more is read
                self._socket.settimeout(left(deadline))
                self._socket.sendall(data)
            while True:
                piece = self._receive(deadline)
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

    def _receive(self, deadline: float) -> bytes:
        self._socket.settimeout(min(self.idle_seconds, left(deadline)))
        return self._socket.recv(PIECE)


def connect(
    address: tuple[str, int],
    deadline: float,
    source: tuple[str, int] | None = None,
    tls: "SSLContext | None" = None,
    within: float = math.inf,
) -> socket.socket:
    """A connected socket; the certificate must be of the host in `address`.

    A machine that is gone does not even refuse, so `within` may be shorter than the time for an answer.
    """
    seconds = left(deadline)
    try:
        made = socket.create_connection(address, min(seconds, within), source)
    except TimeoutError:
        if seconds <= within:
            raise
        raise ConnectionError(f"no connection within {within:g} s") from None
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is None:
            return made
        made.settimeout(left(deadline))
        return tls.wrap_socket(made, server_hostname=address[0])
    except BaseException:
        made.close()
        raise


class SocketPool:
    """The connections to one service; a few are kept open between requests. May be used by several threads at once."""

    def __init__(
        self,
        address: tuple[str, int],
        host: str,
        source: tuple[str, int] | None = None,
        tls: "SSLContext | None" = None,
        within: float = math.inf,
        largest: int = LARGEST_BODY,
    ) -> None:
        """`within` is how many seconds a connection may take, `largest` how many bytes a body may have."""
        self._address, self._host, self.largest = address, host, largest
        self._source, self._tls, self._within = source, tls, within
        self._idle: list[SocketConnection] = []
        self._closed = False

    def lease(self) -> "SocketLease":
        """For one flow, which has a connection to itself."""
        return SocketLease(self)

    def exchange(self, step: Exchange) -> Response:
        """On a connection of its own; a kept one may have been closed by the other side, then on a new one."""
        with self.lease() as lease:
            return lease.exchange(step)

    def open(self, step: Open) -> SocketConnection:
        """On a new connection, which is not kept."""
        connection = self.connect(step.deadline)
        try:
            connection.open(step.request, step.deadline, self.largest)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Keep none any longer."""
        self._closed = True
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def connect(self, deadline: float) -> SocketConnection:
        """A new one."""
        return SocketConnection(connect(self._address, deadline, self._source, self._tls, self._within), self._host)

    def take(self) -> SocketConnection | None:
        """One that was kept."""
        with suppress(IndexError):  # another thread may take the last one meanwhile
            return self._idle.pop()
        return None

    def keep(self, connection: SocketConnection) -> None:
        """For a later request, if there is room."""
        if self._closed or len(self._idle) >= MOST_IDLE:
            connection.close()
        else:
            self._idle.append(connection)


class SocketLease:
    """The connection of one flow. It comes from the pool and goes back there, unless something went wrong with it.

    What a flow tries again goes over a new connection, not over another one that the service may have closed too.
    """

    def __init__(self, pool: SocketPool) -> None:
        self._pool = pool
        self._connection: SocketConnection | None = None
        self._has_begun = False

    def __enter__(self) -> "SocketLease":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and kind is None:
            self._pool.keep(connection)
        elif connection is not None:
            connection.close()

    def exchange(self, step: Exchange) -> Response:
        """The whole answer."""
        kept = self._kept() if step.repeatable else None
        if kept is not None:
            with suppress(ConnectionClosed):
                return self._exchange(kept, step)
        return self._exchange(self._pool.connect(step.deadline), step)

    def open(self, step: Open) -> SocketConnection:
        """The answer as it comes."""
        return self._pool.open(step)

    def close(self) -> None:
        """Give the connection back."""
        self.__exit__(None)

    def _kept(self) -> SocketConnection | None:
        kept, self._connection = self._connection, None
        if not self._has_begun:
            kept, self._has_begun = self._pool.take(), True
        if kept is None or kept.is_quiet:
            return kept
        kept.close()
        return None

    def _exchange(self, connection: SocketConnection, step: Exchange) -> Response:
        try:
            response = connection.exchange(step.request, step.deadline, self._pool.largest)
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


class FlowEnded(Exception):
    """Somebody has ended a flow while another thread or task waits for it."""


class Runner:
    """Runs one flow, and holds the stream that it has open."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._stream: Stream | None = None
        self._unfinished: Step | None = None
        """What was interrupted; the next wait does it again."""
        self._ended = False

    def run(self, flow: Flow[T]) -> Emit | T:
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
                reply, failure = self._do(step), None
            except FAILURES as error:
                reply, failure = None, error
            self._unfinished = None
        raise FlowEnded

    def end(self) -> None:
        """For good, from any thread: one that runs the flow finds out now."""
        self._ended = True
        self.close()

    def close(self) -> None:
        """Close its stream."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.end()

    def _do(self, step: Step) -> Any:
        match step:
            case Exchange():
                return self._transport.exchange(step)
            case Open():
                self.close()
                self._stream = self._transport.open(step)
                return self._stream.head
            case Read(deadline):
                return b"" if (stream := self._stream) is None else stream.read(deadline)
            case Close():
                return self.close()
            case Sleep(seconds):
                return time.sleep(seconds)
            case Emit():
                return None
            case _:
                assert_never(step)


def run(flow: Flow[T], transport: Transport) -> T:
    """What a flow ends with that emits nothing."""
    value = Runner(transport).run(flow)
    assert not isinstance(value, Emit)
    return value
