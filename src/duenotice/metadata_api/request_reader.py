"""Bytes in, whole requests out, however the packets were cut. Pure; no sockets here."""

import re
from typing import NamedTuple

from duenotice.errors import Malformed
from duenotice.metadata_api.request_body import Body, body_of
from duenotice.metadata_api.request_head import RequestHead, parse_head

MAX_HEAD = 16 * 1024
MAX_EMPTY_LINES = 4
"""Some old clients send CRLF after a body; at most this many of them are skipped before a request."""

FIRST_BYTES = 2 * MAX_EMPTY_LINES + 1
"""As many show the first letter of a request."""

_END = b"\r\n\r\n"
# What no head may contain. Looked for as bytes arrive, so that bad input is refused at once, not at its deadline.
_IMPOSSIBLE = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class HeadTooLarge(Malformed):
    """The request's headers are larger than 16 KiB."""


class Received(NamedTuple):
    """One whole request."""

    head: RequestHead
    body: bytes


class RequestReader:
    """What has arrived of requests that are not answered yet.

    `held_back` is the head of a request whose body the client sends only when it is told to. `is_admitted` is set by
    who has allowed the request that has begun to cost something (A08); until then it is not looked at.
    """

    __slots__ = ("_body", "_buffer", "_empty_lines", "_head", "_searched", "held_back", "is_admitted")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._begin()

    def _begin(self) -> None:
        self._head: RequestHead | None = None
        self.held_back: RequestHead | None = None
        self._body: Body | None = None
        self._searched = 0
        self._empty_lines = 0
        self.is_admitted = False

    def __len__(self) -> int:
        return len(self._buffer)

    @property
    def untouched(self) -> bool:
        """Whether nothing of a next request has arrived."""
        return self._head is None and not self._buffer

    @property
    def is_at_begin(self) -> bool:
        """Whether a request has begun, and nothing of it was looked at."""
        return self._head is None and not self._searched and bool(self._buffer)

    def head_alone(self, most: int) -> bytes:
        """The bytes of the next request to the end of its head, as they came; empty if it is not there or longer."""
        end = self._buffer.find(_END, 0, most)
        return bytes(self._buffer[: end + len(_END)]) if end >= 0 else b""

    def begin_of_next(self) -> bytes:
        """Enough of the next request to see its method."""
        return bytes(self._buffer[:FIRST_BYTES])

    def skip(self, length: int) -> None:
        """A request of this length is dealt with."""
        del self._buffer[:length]
        self._begin()

    def feed(self, data: bytes) -> None:
        """More bytes have arrived."""
        self.held_back = None
        self._buffer += data

    def next(self) -> Received | None:
        """The next whole request, None when bytes are missing; `Malformed` ends the connection."""
        if self.untouched:
            return None
        if self._head is None:
            self._take_head()
        if self._head is None or self._body is None:
            return None
        head, body = self._head, self._body.take(self._buffer)
        if body is None:
            return None
        self._begin()
        return Received(head, body)

    def _take_head(self) -> None:
        self._skip_empty_lines()
        end = self._buffer.find(_END, max(0, self._searched - 3))
        if max(end, 0) + len(_END) > MAX_HEAD or (end < 0 and len(self._buffer) > MAX_HEAD):
            raise HeadTooLarge(hint="Send fewer or shorter headers.")
        if end < 0:
            self._refuse_early()
            return
        self._head = parse_head(bytes(self._buffer[:end]))
        del self._buffer[: end + len(_END)]
        self._body = body_of(self._head.body_length)
        if self._head.expects_continue and not self._buffer:
            self.held_back = self._head

    def _skip_empty_lines(self) -> None:
        while self._buffer.startswith(b"\r\n"):
            self._empty_lines += 1
            if self._empty_lines > MAX_EMPTY_LINES:
                raise Malformed("Too many empty lines before a request.", hint="Send none.")
            del self._buffer[:2]

    def _refuse_early(self) -> None:
        if _IMPOSSIBLE.search(self._buffer, max(0, self._searched - 1)):
            raise Malformed("The request contains a control character or a bare CR or LF.", hint="Use CRLF.")
        self._searched = len(self._buffer)
