"""A connection to one server, for threads that may wait: an answer as a whole, or its body as it comes."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeVar

from duenotice.clock import monotonic
from duenotice.http.fetch import Target
from duenotice.http.http1 import (
    LARGEST_BODY,
    Body,
    ProtocolError,
    Reading,
    Request,
    Response,
    ResponseHead,
    Stream,
    encode,
    read_body,
    read_head,
    read_response,
)

PIECE = 256 * 1024
T = TypeVar("T")


class Connection:
    """One request at a time; `idle_seconds` is how many seconds the other side may be silent in an answer."""

    def __init__(self, target: Target, trust: ssl.SSLContext | None, seconds: float) -> None:
        """Raises OSError if it cannot be made within these seconds; `trust` is for https."""
        self._target, self.idle_seconds = target, seconds
        until = monotonic() + seconds
        made = socket.create_connection((target.host, target.port), seconds)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if trust is not None:
                made.settimeout(_left(until))
                made = trust.wrap_socket(made, server_hostname=target.host)
        except BaseException:
            made.close()
            raise
        self._socket = made

    def exchange(self, request: Request, seconds: float, largest: int = LARGEST_BODY) -> Response:
        """The whole answer, within these seconds in all; raises OSError or ProtocolError when there is none."""
        until = monotonic() + seconds
        self._send(request, until)
        return self._read(read_response(largest, request.method), until)

    def open(
        self, request: Request, seconds: float, largest: int = LARGEST_BODY
    ) -> tuple[ResponseHead, Iterator[bytes]]:
        """The head of an answer, within these seconds, and the pieces of its body as they come.

        No more than `largest` bytes of it are kept. They end with the body; the connection serves nothing else then.
        """
        until = monotonic() + seconds
        self._send(request, until)
        stream, body = Stream(), Body(largest)
        head = self._read(read_head(stream), until)
        return head, self._pieces(read_body(stream, head, body), body)

    def shutdown(self) -> None:
        """End it, from any thread: a thread that waits for it stops waiting."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give it back."""
        self._socket.close()

    def _send(self, request: Request, until: float) -> None:
        self._socket.settimeout(_left(until))
        self._socket.sendall(encode(request, self._target.authority, keep=True))

    def _read(self, reading: Reading[T], until: float) -> T:
        next(reading)
        while True:
            self._socket.settimeout(min(self.idle_seconds, _left(until)))
            try:
                reading.send(self._socket.recv(PIECE))
            except StopIteration as whole:
                value: T = whole.value
                return value

    def _pieces(self, reading: Reading[None], body: Body) -> Iterator[bytes]:
        piece: bytes | None = None  # what begins it
        while True:
            try:
                reading.send(piece)  # type: ignore[arg-type]
            except StopIteration:
                if rest := body.taken():
                    yield rest
                return
            except ProtocolError:
                if rest := body.taken():  # what was right before it
                    yield rest
                raise
            if came := body.taken():
                yield came
            self._socket.settimeout(self.idle_seconds)
            piece = self._socket.recv(PIECE)


def _left(until: float) -> float:
    if (seconds := until - monotonic()) <= 0:
        raise TimeoutError("the deadline has passed")
    return seconds
