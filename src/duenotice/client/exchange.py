"""One request and its answer as a talk: a generator that says what to do on the connection, and does no I/O itself.

Both clients run the same talks, so they behave alike. A client does what each `Step` says and sends the result back in,
or throws the OSError that it met.
"""

import os
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from duenotice.client.errors import BadAnswer, MetadataError, TimedOut, Unreachable
from duenotice.http.http1 import (
    LARGEST_BODY,
    Body,
    ProtocolError,
    Reading,
    Response,
    ResponseHead,
    Stream,
    read_body,
    read_head,
    read_response,
)


@dataclass(frozen=True, slots=True)
class Connect:
    """Get a connection. With `reuse` an old one that was kept open may be used; the result says whether it was."""

    deadline: float
    reuse: bool = True


@dataclass(frozen=True, slots=True)
class Send:
    """Give all bytes to the other side, by the deadline."""

    data: bytes
    deadline: float


@dataclass(frozen=True, slots=True)
class Receive:
    """Read some bytes; empty when the other side has ended the connection."""

    deadline: float


@dataclass(frozen=True, slots=True)
class Close:
    """End the connection."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Do nothing for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Show:
    """Hand something to the caller before the talk is over: a document that a watch has seen."""

    shown: Any


Step = Connect | Send | Receive | Close | Sleep | Show
T = TypeVar("T")
Talk = Generator[Step, Any, T]
"""Deadlines are seconds of `duenotice.clock.monotonic`."""


class Silent(Exception):
    """The connection ended before an answer began."""


FAILURES = (Silent, ProtocolError, OSError, UnicodeError)
"""All that can go wrong with a connection; a host's name can be one that cannot be looked up."""


def exchange(request: bytes, deadline: float) -> Talk[Response]:
    """The answer of the metadata service to a request; every failure is a MetadataError.

    A connection that was kept open may have been closed by the other side; then the request is tried once more on a new
    one. That is safe for every request of ours: approvals are idempotent too (S17).
    """
    try:
        return (yield from answered(request, deadline))
    except FAILURES as error:
        raise _explained(error) from None


def answered(request: bytes, deadline: float, largest: int = LARGEST_BODY, reuse: bool = True) -> Talk[Response]:
    """The answer to a request; after one of the FAILURES no connection is left behind.

    Without `reuse` it is sent at most once, on a new connection.
    """
    try:
        response = yield from _on_any_connection(request, deadline, largest, reuse)
    except FAILURES:
        yield Close()
        raise
    if not response.reusable:
        yield Close()
    return response


def _on_any_connection(request: bytes, deadline: float, largest: int, reuse: bool) -> Talk[Response]:
    if (yield Connect(deadline, reuse)):
        try:
            return (yield from _ask(request, deadline, largest))
        except Silent:
            yield Connect(deadline, reuse=False)
    return (yield from _ask(request, deadline, largest))


def _ask(request: bytes, deadline: float, largest: int) -> Talk[Response]:
    first = yield from _first_piece(request, deadline)
    return (yield from _read(read_response(largest), deadline, first))


def _read(reading: Reading[T], deadline: float, piece: bytes) -> Talk[T]:
    """What is read from a piece, and from as many more as it takes."""
    next(reading)
    while True:
        try:
            reading.send(piece)
        except StopIteration as whole:
            value: T = whole.value
            return value
        piece = yield from _next_piece(deadline)


class EndlessAnswer:
    """An answer whose body is taken as it comes, on a connection of its own."""

    def __init__(self, largest: int = LARGEST_BODY) -> None:
        self._stream, self._body = Stream(), Body(largest)
        self._reading: Reading[None] | None = None

    def begin(self, request: bytes, deadline: float) -> Talk[ResponseHead]:
        """Ask for it; its head."""
        yield Connect(deadline, reuse=False)
        first = yield from _first_piece(request, deadline)
        head = yield from _read(read_head(self._stream), deadline, first)
        self._reading = read_body(self._stream, head, self._body)
        self._go_on(None)
        return head

    def more(self, deadline: float) -> Talk[bytes]:
        """The next bytes of the body, empty at its end."""
        while not (came := self._body.taken()) and self._reading is not None:
            self._go_on((yield from _next_piece(deadline)))
        return came

    def _go_on(self, piece: bytes | None) -> None:
        try:
            if self._reading is not None:
                self._reading.send(piece)  # type: ignore[arg-type]  # None begins it
        except StopIteration:
            self._reading = None


def _first_piece(request: bytes, deadline: float) -> Talk[bytes]:
    try:
        with suppress(ConnectionError):  # a refusal may be there before all is sent, and then nothing more is read
            yield Send(request, deadline)
        piece: bytes = yield Receive(deadline)
    except ConnectionError:
        raise Silent from None
    if not piece:
        raise Silent
    return piece


def _next_piece(deadline: float) -> Talk[bytes]:
    try:
        piece: bytes = yield Receive(deadline)
    except ConnectionError:
        # Not the same as an end: otherwise an answer without a length would seem complete.
        raise ProtocolError("the connection broke") from None
    return piece


def _explained(error: Exception) -> MetadataError:
    if isinstance(error, TimeoutError):
        return TimedOut(hint="Asking again is safe. The first answer of all may take two minutes.")
    if isinstance(error, ProtocolError):
        hint = "Is there a proxy or another service on this address?"
        return BadAnswer(f"The answer is not one of the metadata service: {error}.", hint=hint)
    if isinstance(error, Silent):
        return Unreachable("The metadata service ended the connection before it answered.", hint="Ask again.")
    return Unreachable(
        f"The metadata service cannot be reached: {why(error)}.",
        hint="Is this a VM? Say where the service is with endpoint= or DUENOTICE_METADATA_ENDPOINT.",
    )


def why(error: Exception) -> str:
    """Why a connection failed, in the words of the system."""
    if type(error).__module__ == "ssl":  # its numbers mean something else; it is not loaded for this
        return getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
    number = getattr(error, "errno", None) or 0
    return os.strerror(number) if number > 0 else str(error)  # asyncio words its errors differently
