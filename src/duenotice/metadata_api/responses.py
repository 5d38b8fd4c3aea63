"""Answers as bytes, and the time in them: it is taken a few times a second, so that a poll reads no clock."""

import math
from collections.abc import Iterator
from datetime import datetime
from http import HTTPStatus
from operator import length_hint
from typing import NamedTuple
from uuid import uuid4

import msgspec

from duenotice.clock import Clock, monotonic, wall
from duenotice.domain.state import Document
from duenotice.engine.publisher import ScopePage
from duenotice.errors import DuenoticeError, Malformed, Refused, Unavailable
from duenotice.metadata_api.http1 import BodyTooLarge, HeadTooLarge, UnmetExpectation
from duenotice.metadata_api.options import MetadataOptions
from duenotice.wire.api_versions import ApiVersion
from duenotice.wire.documents import encode_document
from duenotice.wire.spans import format_rfc1123

CLOSE = b"\r\nConnection: close"
KEEP_ALIVE = b"\r\nConnection: keep-alive"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_SERVER = b"IMDS/150.870.65.1854"
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}".encode() for status in HTTPStatus}
_ID = b"\r\nx-ms-request-id: "
_DIGITS = 3

BEGINNINGS = tuple(b"%b%b%0*x" % (_STATUS_LINES[200], _ID, _DIGITS, number) for number in range(16**_DIGITS))
"""How answers with status 200 begin, up to the first digits of their ids; to format a number for each is dearer."""

_STATUS_OF: dict[type, int] = {
    Refused: 400,
    Malformed: 400,
    BodyTooLarge: 413,
    UnmetExpectation: 417,
    HeadTooLarge: 431,
    Unavailable: 503,
    DuenoticeError: 500,
}
"""The status for each class of error; the nearest class above an error counts."""
_OURS = {
    503: "The service cannot do this right now. Try again in a moment.",
    500: "The service has failed. Tell its operator.",
}
"""What VMs are told of our own failures: where our files and databases are is for the operator only, in the log."""


class Answer(NamedTuple):
    """A status and all that follows the headers common to every answer."""

    status: int
    tail: bytes

    def without_body(self) -> "Answer":
        """The same answer to HEAD."""
        headers, end, _ = self.tail.partition(b"\r\n\r\n")
        return Answer(self.status, headers + end)


class ResponseHead:
    """The headers common to every answer. They are rendered ahead: only the first digits of its id are an answer's own.

    What follows the id is kept from one answer with status 200 to the next: VMs to which nothing happens get the same.
    """

    __slots__ = ("_beginnings", "_begun", "_common", "_connection", "_date", "_rest", "_tail")

    def __init__(self) -> None:
        self._begun = 0
        self._beginnings: Iterator[bytes] = iter(())  # each answer takes one, and so this counts them
        self._common = self._date = b""
        self._connection = self._tail = self._rest = b""

    @property
    def answered(self) -> int:
        """Answers so far."""
        return self._begun * len(BEGINNINGS) - length_hint(self._beginnings)

    def renew(self, now: datetime) -> None:
        """Write the current date."""
        self._date = b"\r\nDate: %b\r\nServer: %b" % (format_rfc1123(now).encode(), _SERVER)
        self._renew_ids()

    def ok(self, connection: bytes, tail: bytes) -> bytes:
        """An answer with status 200, in as few steps as possible."""
        if tail is not self._tail or connection is not self._connection:
            self._keep(connection, tail)
        return (next(self._beginnings, None) or self._more_beginnings()) + self._rest

    def render(self, answer: Answer, connection: bytes) -> bytes:
        """All bytes of any answer, to be sent in one write."""
        id_digits = (next(self._beginnings, None) or self._more_beginnings())[-_DIGITS:]
        return _STATUS_LINES[answer.status] + _ID + id_digits + self._common + connection + answer.tail

    def _more_beginnings(self) -> bytes:
        """The first of new ones, when all were taken; so what follows changes too."""
        self._begun += 1
        self._beginnings = iter(BEGINNINGS)
        self._renew_ids()
        return next(self._beginnings)

    def _renew_ids(self) -> None:
        """Go on with ids that were never used."""
        self._common = str(uuid4())[_DIGITS:].encode() + self._date
        self._keep(self._connection, self._tail)

    def _keep(self, connection: bytes, tail: bytes) -> None:
        self._connection, self._tail = connection, tail
        self._rest = self._common + connection + tail


def with_body(status: int, body: bytes, content_type: str, *headers: str) -> Answer:
    """An answer with a body; `headers` are whole lines."""
    lines = (f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers)
    return Answer(status, "".join(f"\r\n{line}" for line in lines).encode() + b"\r\n\r\n" + body)


def json(status: int, content: object, *headers: str) -> Answer:
    """An answer in JSON."""
    return with_body(status, msgspec.json.encode(content), "application/json; charset=utf-8", *headers)


def error(status: int, message: str, *headers: str) -> Answer:
    """A refusal that says what to do (A07)."""
    return json(status, {"error": message}, *headers)


def blamed(problem: DuenoticeError) -> Answer:
    """The answer to a request that failed, by the class of the error."""
    status = next(_STATUS_OF[cls] for cls in type(problem).__mro__ if cls in _STATUS_OF)
    message = _OURS.get(status) or f"{problem.message} {problem.hint}".strip()
    if isinstance(problem, Unavailable):
        return error(status, message, f"Retry-After: {max(1, math.ceil(problem.retry_after))}")
    return error(status, message)


EMPTY_OK = Answer(200, b"\r\nContent-Length: 0\r\n\r\n")
"""The answer to an approval (C02)."""


def not_modified(incarnation: int) -> Answer:
    """The client has this document already (A10)."""
    return Answer(304, b'\r\nETag: "%d"\r\n\r\n' % incarnation)


_MOST_TAILS = 1024
_tails: dict[bytes, bytes] = {}


def document_tail(page: ScopePage, version: ApiVersion) -> bytes:
    """What follows the common headers when a scope's document is shown; kept until the document changes."""
    tail = page.rendered[version.index]
    if tail is None:
        tail = page.rendered[version.index] = _one_of_its_kind(shown(page.document, version))
    return tail


def _one_of_its_kind(tail: bytes) -> bytes:
    """VMs with nothing coming have equal documents: as one object they take less memory, and `Heading` knows it."""
    if len(_tails) == _MOST_TAILS:
        _tails.clear()
    return _tails.setdefault(tail, tail)


def shown(document: Document, version: ApiVersion) -> bytes:
    """What follows the common headers when a document is shown."""
    etag = f'ETag: "{document.incarnation}"'
    return with_body(200, encode_document(document, version), "application/json; charset=utf-8", etag).tail


class CachedTime:
    """The time of the last beat.

    `now` is monotonic, for rates; `steady` is the engine's time; the others are the deadlines of a request
    that begins now, a connection that falls idle now, and one that is closed now.
    """

    __slots__ = ("clock", "idle_until", "linger_until", "now", "options", "request_until", "response_head", "steady")

    def __init__(self, clock: Clock, options: MetadataOptions) -> None:
        self.clock = clock
        self.response_head = ResponseHead()
        self.options = options
        self.beat()

    def beat(self) -> None:
        """Take the time."""
        self.now = monotonic()
        self.request_until = self.now + self.options.request_seconds
        self.idle_until = self.now + self.options.idle_seconds
        self.linger_until = self.now + self.options.linger_seconds
        self.steady = self.clock.now().steady
        self.response_head.renew(wall())


class LiveTime(CachedTime):
    """The same for a clock that is not real: between two beats it may have gone on by days."""

    __slots__ = ()

    @property
    def steady(self) -> int:
        """The engine's time right now."""
        return self.clock.now().steady

    @steady.setter
    def steady(self, value: int) -> None:
        """A beat does not store it: the clock is read each time."""


def cached_time_of(clock: Clock, options: MetadataOptions) -> CachedTime:
    """The cached time that suits a clock."""
    return CachedTime(clock, options) if clock.name == "real" else LiveTime(clock, options)
