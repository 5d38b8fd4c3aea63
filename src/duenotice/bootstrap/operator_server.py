"""uvicorn as we need it: without its own signal handlers, and no client can keep idle connections open."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import httptools
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from duenotice.bootstrap.acceptor import Accepted, Acceptor, Connection, Crowd, reset
from duenotice.bootstrap.logs import ToOurLog
from duenotice.bootstrap.places import CONNECTION

LONGEST_HEAD, MOST_HEADERS = 16 * 1024, 100
"""Bytes and lines of a head."""
MOST_WAITING = 8
"""Requests that came before the one before them was answered."""
MOST_PIECES = 1000
"""Pieces of a body of which each KiB may have one more: chunks of one byte cost as much as those of a thousand."""
MOST_READ_ON = 2 * 1024 * 1024
"""Bytes of a body which are thrown away after the answer, so that a client that still sends can read why."""
_CONTINUE = b"HTTP/1.1 100 "
NOT_VALID = "Invalid HTTP request received."

PATIENCE_SECONDS = 10.0
"""How long a head, a body or an idle connection may take; uvicorn itself would wait for ever (S24)."""

REST_SECONDS = 1.0
"""How long nothing is read of who was told to ask again in a second."""


class OperatorServer(uvicorn.Server):
    """Another part of this process decides when to stop."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. uvicorn itself would count nobody before the end of the handshake, and wait a minute for it (S24)."""
        config, crowd = self.config, Crowd()
        made = partial(PatientOnlySoLong, config=config, server_state=self.server_state, app_state={})
        self.servers = [
            cast(asyncio.Server, Acceptor(listening, made, crowd, config.ssl, PATIENCE_SECONDS))
            for listening in sockets or ()
        ]
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HeadWithBody:
    """Writes the head of an answer together with the first part of its body, or alone if that is not there yet.

    uvicorn writes the two by themselves: two calls of the system, two packets, and a client that wakes up twice. An
    answer that is there before the whole request is the last one of its connection: what follows is not read as HTTP.
    """

    __slots__ = ("_connection", "_cycle", "_head", "_transport", "is_closing")

    def __init__(self, connection: "PatientOnlySoLong", transport: asyncio.Transport) -> None:
        self._connection, self._cycle, self._transport = connection, connection.cycle, transport
        self._head: bytes | None = None  # empty when it is sent
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Send it; the first is the head, and is held back for a moment."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.writelines([head, data])
        elif self._head is None and not data.startswith(_CONTINUE):
            self._hold(data)
        else:
            self._transport.write(data)

    def _hold(self, head: bytes) -> None:
        if self._cycle.more_body and self._cycle.keep_alive:
            self._cycle.keep_alive = False
            head = head.removesuffix(b"\r\n") + b"connection: close\r\n\r\n"
        self._head = head
        self._connection.loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._head:
            self.write(b"")

    def close(self) -> None:
        """Close it after what was written."""
        self._flush()
        if self._cycle.more_body or self._connection.is_over:
            self._connection.linger()
        else:
            self._transport.close()


class _Parser(httptools.HttpRequestParser):
    """Tells `read_again` what came behind the head of a request that wishes for another protocol."""

    def __init__(self, connection: "PatientOnlySoLong") -> None:
        super().__init__(connection)
        self._connection = connection
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does: what follows is not read

    def feed_data(self, data: Any) -> None:
        """Read on; uvicorn itself would log every mistake of a stranger, and answer it before what came before it."""
        try:
            super().feed_data(data)
        except httptools.HttpParserUpgrade as wish:
            self._connection.read_again(data[wish.args[0] :])
        except httptools.HttpParserError:
            self._connection.refuse()


class PatientOnlySoLong(HttpToolsProtocol, Connection):
    """A connection that is closed when two checks find the same thing unfinished.

    What comes in one piece costs some hundred microseconds at the most, with a token or without: heads, pieces of
    bodies and requests that wait are counted while they are read (S24, S29). h11 would take as long for a request as
    all that we do for it. Nothing refers to a connection in a circle when it is lost: the
    collector comes once a minute, and thousands of connections a second would be gigabytes by then.
    """

    _head_bytes = 0
    _pieces = 0
    _body_bytes = 0
    _resumed = 0
    is_over = False
    _thrown_away = 0
    _running: RequestResponseCycle | None = None
    _looking: asyncio.TimerHandle | None = None
    _resting: asyncio.TimerHandle | None = None

    def __init__(self, accepted: Accepted, **more: Any) -> None:
        super().__init__(**more)
        self.accepted = accepted

    def data_received(self, data: bytes) -> None:
        """Read on, unless nothing is read any more."""
        if not self.is_over:
            super().data_received(data)
            return
        self._thrown_away += len(data)
        if self._thrown_away > MOST_READ_ON:
            self.transport.abort()

    def on_message_begin(self) -> None:
        self._head_bytes = self._pieces = self._body_bytes = 0
        super().on_message_begin()
        cast(dict[str, Any], self.scope)[CONNECTION] = self.accepted

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value))
        super().on_header(name, value)

    def _count_head(self, count: int) -> None:
        self._head_bytes += count
        if self._head_bytes > LONGEST_HEAD or len(self.headers) >= MOST_HEADERS:
            raise ValueError("The head is too large.")  # the parser makes it its own error, here and below

    def on_headers_complete(self) -> None:
        """One host, as in HTTP/1.1; a proxy might take another one of two for the right one."""
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            raise ValueError("The request needs one Host.")
        if self.parser.get_method() == b"CONNECT":
            raise ValueError("We are not a proxy.")
        if len(self.pipeline) >= MOST_WAITING:
            raise ValueError("Too many requests wait.")
        if not self.parser.should_upgrade():
            before = self.cycle
            super().on_headers_complete()
            if self.cycle is not before:
                self.cycle.transport = cast(asyncio.Transport, HeadWithBody(self, self.transport))

    def on_body(self, body: bytes) -> None:
        self._pieces, self._body_bytes = self._pieces + 1, self._body_bytes + len(body)
        if self._pieces > MOST_PIECES + self._body_bytes // 1024:
            raise ValueError("The body comes in too small pieces.")
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def refuse(self) -> None:
        """What comes is not valid. Requests before it are answered first: none may get the answer to this one."""
        if self.transport.is_closing() or self.is_over:
            return
        self.is_over = True
        last: RequestResponseCycle | None = self.cycle
        if last is not None and last.more_body and self.pipeline:  # the body of one that waits is wrong: it is not done
            self.pipeline.popleft()
            last = self.pipeline[0][0] if self.pipeline else self._running
        if last is None or last.response_complete:
            self.send_400_response(NOT_VALID)
        elif last.more_body:
            last.disconnected = True
            last.message_event.set()
            if last.response_started:
                self.transport.close()
            else:
                self.send_400_response(NOT_VALID)
        else:
            last.keep_alive = False

    def linger(self) -> None:
        """Wait until the client has sent all and closes: if we closed at once, it might never read the answer."""
        self.is_over = True
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def read_again(self, rest: bytes) -> None:
        """Read a head again without `Upgrade`, which we may ignore and which clients such as Java's send by default.

        The parser takes such a request for one without a body, and its body for the next request.
        """
        first = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        lines = [b"%b: %b\r\n" % (name, value) for name, value in self.headers if name != b"upgrade"]
        self.parser = _Parser(self)
        self.parser.feed_data(b"".join((first, *lines, b"\r\n", rest)))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self.parser = _Parser(self)
        self._looking = self.loop.call_later(PATIENCE_SECONDS, self._look, None)

    def on_response_complete(self) -> None:
        self._let_go(self._running)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self.accepted.leave()
        for cycle in (self._running, *(cycle for cycle, _ in self.pipeline)):  # uvicorn itself tells only the last one
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
            self._let_go(cycle)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self.pipeline.clear()
        self._let_go(self.cycle)
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None

    def _let_go(self, cycle: RequestResponseCycle | None) -> None:
        """It writes no more, and what it wrote through refers to it."""
        if cycle is not None:
            cycle.transport = self.transport

    def resume_writing(self) -> None:
        """The client has read: most of what waited has gone."""
        self._resumed += 1
        super().resume_writing()

    def rest(self) -> None:
        """Read nothing more for a moment: what its client has sent meanwhile waits in the kernel and costs nothing."""
        if self._resting is None and not self.transport.is_closing() and not self.is_over:
            self.flow.pause_reading()
            self._resting = self.loop.call_later(REST_SECONDS, self._go_on)

    def _go_on(self) -> None:
        self._resting = None
        self.flow.resume_reading()

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing is being done for it."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body

    def shutdown(self) -> None:
        """Also end a TLS connection that is idle: its end is a talk, and uvicorn would wait for the client's part."""
        super().shutdown()
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            self.transport.abort()

    def _look(self, last: object) -> None:
        """Close it when it waits for its client to do the same thing as at the last look."""
        if (now := self._stuck) is not None and now == last:
            reset(self.transport)
        else:
            self._looking = self.loop.call_later(PATIENCE_SECONDS, self._look, now)

    @property
    def _stuck(self) -> object:
        """What it waits for the client to do; None: it waits for us, or is idle only since the last answer."""
        if self.transport.is_closing():
            return "the end"  # what is left cannot be sent
        if self.flow.write_paused:
            return "reading", self._resumed
        return ("the request", self.cycle) if self.waits_for_client else None


def config(app: ASGIApp, tls: ssl.SSLContext | None = None) -> uvicorn.Config:
    """The settings of the operator's port, and of others like it; with `tls` it speaks only TLS."""
    logger = logging.getLogger("uvicorn.error")
    logger.handlers, logger.propagate = [ToOurLog(logging.WARNING)], False
    return uvicorn.Config(
        app,
        http=PatientOnlySoLong,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=5,
        ssl_context_factory=None if tls is None else lambda *_: tls,
    )
