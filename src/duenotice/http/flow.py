"""What is asked of a service, and when, as a flow: a generator that says what to do next and does no I/O itself.

Both colours of a client run the same flows, so they behave alike. `transport` (blocking) and `async_transport` do what
each step says and send the result back in, or throw the one of the `FAILURES` that they met. Deadlines are seconds of
`duenotice.clock.monotonic`, and hold for all of a step.
"""

import os
from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar

from duenotice.clock import monotonic
from duenotice.http.http1 import ProtocolError, Request

PIECE = 65536
"""How many bytes are taken from a connection at once."""

MOST_IDLE = 2
"""Connections that a pool keeps open between requests: one for a watch, one for an approval at the same time."""


class Exchange(NamedTuple):
    """Send a request; the result is the whole answer.

    Only a `repeatable` one goes over a connection that was kept open: the other side may have closed that meanwhile,
    and then it is sent again on a new one.
    """

    request: Request
    deadline: float
    repeatable: bool = True


class Open(NamedTuple):
    """Send a request whose answer does not end; the result is the head of the answer. One stream is open at a time."""

    request: Request
    deadline: float


class Read(NamedTuple):
    """Wait for more of that answer; the result is empty at its end."""

    deadline: float


class Close(NamedTuple):
    """Read no more of it."""


class Sleep(NamedTuple):
    """Do nothing for a while."""

    seconds: float


class Emit(NamedTuple):
    """Hand something to the caller before the flow is over: a document that a watch has seen."""

    value: Any


Step = Exchange | Open | Read | Close | Sleep | Emit
T = TypeVar("T")
Flow = Generator[Step, Any, T]


class ConnectionClosed(ConnectionError):
    """The connection ended before an answer began."""

    def __str__(self) -> str:
        return super().__str__() or "the connection ended before an answer"


FAILURES = (ProtocolError, OSError, UnicodeError)
"""All that can go wrong with a connection; a host's name can be one that cannot be looked up."""


def left(deadline: float) -> float:
    """Seconds until a deadline; when it has passed, that is an error."""
    if (seconds := deadline - monotonic()) <= 0:
        raise TimeoutError("the deadline has passed")
    return seconds


def why(error: Exception) -> str:
    """Why a connection failed, in the words of the system."""
    if type(error).__module__ == "ssl":  # its numbers mean something else; it is not loaded for this
        return getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
    number = getattr(error, "errno", None) or 0
    return os.strerror(number) if number > 0 else str(error)  # asyncio words its errors differently
