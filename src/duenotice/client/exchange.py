"""One request and its answer as a talk: a generator that says what to do on the connection, and does no I/O itself.

Both clients run the same talks, so they behave alike. A client does what each `Step` says and sends the result back in,
or throws the OSError that it met.
"""

import os
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from duenotice.client.errors import MetadataError, TimedOut, Unreachable
from duenotice.client.response import Response, bad, read_response
from duenotice.wire.seen_document import SeenDocument


@dataclass(frozen=True, slots=True)
class Connect:
    """Get a connection. With `reuse` an old one that was kept open may be used; the result says whether it was."""

    deadline: float
    reuse: bool = True


@dataclass(frozen=True, slots=True)
class Send:
    """Send all of this."""

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
    """Hand a document to the caller."""

    document: SeenDocument


Step = Connect | Send | Receive | Close | Sleep | Show
T = TypeVar("T")
Talk = Generator[Step, Any, T]
"""Deadlines are seconds of `duenotice.clock.monotonic`."""


class _Silent(Exception):
    """The connection ended before an answer began."""


def exchange(request: bytes, deadline: float) -> Talk[Response]:
    """The answer to a request; every failure is a MetadataError and leaves no connection behind.

    A connection that was kept open may have been closed by the other side; then the request is tried once more on a new
    one. That is safe for every request of ours: approvals are idempotent too (S17).
    """
    try:
        response = yield from _on_any_connection(request, deadline)
    except (_Silent, OSError) as error:
        yield Close()
        raise _explained(error) from None
    except MetadataError:
        yield Close()
        raise
    if not response.reusable:
        yield Close()
    return response


def _on_any_connection(request: bytes, deadline: float) -> Talk[Response]:
    if (yield Connect(deadline)):
        try:
            return (yield from _ask(request, deadline))
        except _Silent:
            yield Connect(deadline, reuse=False)
    return (yield from _ask(request, deadline))


def _ask(request: bytes, deadline: float) -> Talk[Response]:
    reading = read_response()
    next(reading)
    piece = yield from _first_piece(request, deadline)
    while True:
        try:
            reading.send(piece)
        except StopIteration as whole:
            response: Response = whole.value
            return response
        piece = yield from _next_piece(deadline)


def _first_piece(request: bytes, deadline: float) -> Talk[bytes]:
    try:
        yield Send(request, deadline)
        piece: bytes = yield Receive(deadline)
    except ConnectionError:
        raise _Silent from None
    if not piece:
        raise _Silent
    return piece


def _next_piece(deadline: float) -> Talk[bytes]:
    try:
        piece: bytes = yield Receive(deadline)
    except ConnectionError:
        # Not the same as an end: otherwise an answer without a length would seem complete.
        raise bad("the connection broke") from None
    return piece


def _explained(error: Exception) -> MetadataError:
    if isinstance(error, TimeoutError):
        return TimedOut(hint="Asking again is safe. The first answer of all may take two minutes.")
    if isinstance(error, _Silent):
        return Unreachable("The metadata service ended the connection before it answered.", hint="Ask again.")
    number = getattr(error, "errno", None) or 0
    reason = os.strerror(number) if number > 0 else str(error)  # asyncio words its errors differently
    return Unreachable(
        f"The metadata service cannot be reached: {reason}.",
        hint="Is this a VM? Say where the service is with endpoint= or DUENOTICE_METADATA_ENDPOINT.",
    )
