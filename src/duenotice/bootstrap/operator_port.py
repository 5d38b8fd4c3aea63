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
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from duenotice.bootstrap.acceptor import Accepted, Acceptor, Connection, Crowd, reset
from duenotice.bootstrap.logs import ToOurLog
from duenotice.bootstrap.places import CONNECTION

LONGEST_HEAD = 16 * 1024
"""Bytes of a head; not many more than these are read of it at a time (S24)."""
MOST_FIELDS = 128
"""Fields of a head. Each costs far more than its bytes: a whole read of the shortest takes 40 ms (S29)."""
MOST_WAITING = 4
"""Requests that wait behind the one that is being answered; what comes behind these is not read."""
NOT_VALID = "Invalid HTTP request received."

PATIENCE_SECONDS = 10.0
"""How long a head, a body or an idle connection may take; uvicorn itself would wait for ever (S24)."""


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

    uvicorn writes the two by themselves: two calls of the system, two packets, and a client that wakes up twice.
    """

    __slots__ = ("_head", "_loop", "_transport", "is_closing")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop, self._transport = loop, transport
        self._head: bytes | None = None  # empty when it is sent
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Send it; the first is the head, and is held back for a moment."""
        if self._head is None:
            self._head = data
            self._loop.call_soon(self._flush)
        elif self._head:
            head, self._head = self._head, b""
            self._transport.writelines([head, data])
        else:
            self._transport.write(data)

    def _flush(self) -> None:
        if self._head:
            self.write(b"")

    def close(self) -> None:
        """Close it after what was written."""
        self._flush()
        self._transport.close()


class _Parser(httptools.HttpRequestParser):
    """Tells `read_again` what came behind the head of a request that wishes for another protocol."""

    def __init__(self, connection: "PatientOnlySoLong") -> None:
        super().__init__(connection)
        self._connection = connection
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does: what follows is not read

    def feed_data(self, data: Any) -> None:
        """Read on."""
        try:
            super().feed_data(data)
        except httptools.HttpParserUpgrade as wish:
            self._connection.read_again(data[wish.args[0] :])


class PatientOnlySoLong(HttpToolsProtocol, Connection):
    """A connection that is closed when two checks find the same thing unfinished, or a head has no end.

    h11 would take as long for a request as all that we do for it. Nothing refers to a connection in a circle when it is
    lost: the collector comes once a minute, and thousands of them a second would be gigabytes by then (S24).
    """

    _is_reading_head = _is_deaf = False
    _head_bytes = 0
    _resumed = 0
    _looking: asyncio.TimerHandle | None = None

    def __init__(self, accepted: Accepted, **more: Any) -> None:
        super().__init__(**more)
        self.accepted = accepted

    def data_received(self, data: bytes) -> None:
        """Read on; a head must not be endless, and no read may keep VMs waiting (S26)."""
        for begin in range(0, len(data), LONGEST_HEAD):
            if self._is_deaf or self.transport.is_closing():
                return
            self._read(data[begin : begin + LONGEST_HEAD])

    def _read(self, piece: bytes) -> None:
        self._head_bytes = self._head_bytes + len(piece) if self._is_reading_head else 0
        super().data_received(piece)
        if self._is_reading_head and self._head_bytes > LONGEST_HEAD and not self.transport.is_closing():
            self.send_400_response(NOT_VALID)

    def send_400_response(self, msg: str) -> None:
        """Refuse what has come. If others before it are not answered yet, they are, and the last one says the end.

        Else a client would take the refusal for an answer to the first of them, which is done (S6).
        """
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            super().send_400_response(msg)
        else:
            cycle.keep_alive, self._is_deaf = False, True

    def on_header(self, name: bytes, value: bytes) -> None:
        """One more field."""
        if len(self.headers) >= MOST_FIELDS:
            raise ValueError(f"The request has more than {MOST_FIELDS} fields.")
        super().on_header(name, value)

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MOST_WAITING:
            raise ValueError("Too many requests wait.")
        self._is_reading_head = True
        super().on_message_begin()
        cast(dict[str, Any], self.scope)[CONNECTION] = self.accepted

    def on_headers_complete(self) -> None:
        """One host, as in HTTP/1.1; a proxy might take another one of two for the right one."""
        self._is_reading_head = False
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            raise ValueError("The request needs one Host.")  # the parser makes it its own error
        if self.parser.get_method() == b"CONNECT":
            raise ValueError("We are not a proxy.")
        if not self.parser.should_upgrade():
            before = self.cycle
            super().on_headers_complete()
            if self.cycle is not before:
                self.cycle.transport = cast(asyncio.Transport, HeadWithBody(self.loop, self.transport))

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

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

    def connection_lost(self, exc: Exception | None) -> None:
        self.accepted.leave()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self.pipeline.clear()
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def resume_writing(self) -> None:
        """The client has read: most of what waited has gone."""
        self._resumed += 1
        super().resume_writing()

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
        if self not in self.connections:
            return
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
    """The settings of the operator's port, and of others like it; with `tls` it speaks only TLS.

    uvicorn warns of each request that it cannot read. The client is told that, and with a line for each anybody could
    fill the disk (S24).
    """
    logger = logging.getLogger("uvicorn.error")
    logger.handlers, logger.propagate = [ToOurLog(logging.ERROR)], False
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
