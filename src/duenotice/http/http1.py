"""HTTP/1.1 as a client speaks it: a request as bytes, and a strict, bounded reader of answers. Pure, never waits.

On a broken network any program may answer on a port, so everything unusual is refused and nothing is guessed.
"""

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from duenotice.errors import Malformed

LARGEST_HEAD = 16 * 1024
LARGEST_BODY = 1024 * 1024

T = TypeVar("T")
Reading = Generator[None, bytes, T]
"""Is fed pieces of bytes; an empty piece means the end of the connection."""

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n]*)?")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\x00]*?)[ \t]*")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
_LONGEST_CHUNK_LINE = 256
_BODILESS = (204, 304)
_BODILESS_METHODS = ("GET", "HEAD")


class ProtocolError(Exception):
    """What came is not a whole and plain answer in HTTP/1.1; it says what is wrong with it."""


class Incomplete(ProtocolError):
    """The connection ended halfway through an answer."""


class Request(NamedTuple):
    """What is asked; `path` with its query. A header of the same name takes the place of one of ours."""

    method: str
    path: str
    headers: Mapping[str, str] = {}
    body: bytes | bytearray = b""


def encode(request: Request, host: str, keep: bool = False) -> bytes:
    """The request as it is sent to a host; without `keep` the connection is for this one alone."""
    length = {"Content-Length": str(len(request.body))}
    whole = {"Host": host} if keep else {"Host": host, "Connection": "close", **length}
    whole |= request.headers
    if keep and (request.body or request.method not in _BODILESS_METHODS):
        whole |= length
    for name, value in whole.items():
        if not (name + value).isprintable() or not (name + value).isascii():
            hint = "Remove that character."
            raise Malformed(f"The header {name!r} has a character that HTTP does not allow.", hint=hint)
    lines = [f"{request.method} {request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in whole.items())]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + request.body


@dataclass(frozen=True, slots=True)
class Response:
    """One whole answer; `headers` in lower case, `reusable` if the connection can carry another request.

    `minor` is the version behind `HTTP/1.`.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    reusable: bool = True
    minor: int = 1


class ResponseHead(NamedTuple):
    """What comes before the body; `minor` is the version behind `HTTP/1.`."""

    minor: int
    status: int
    headers: dict[str, str]


class Body:
    """What has come of a body and was not taken away yet; that is never more than `largest` bytes."""

    __slots__ = ("_data", "_largest")

    def __init__(self, largest: int = LARGEST_BODY) -> None:
        self._data = bytearray()
        self._largest = largest

    def check_room(self, size: int) -> None:
        """Refuse what is too much before it comes."""
        if len(self._data) + size > self._largest:
            raise ProtocolError(f"its body is larger than {self._largest} bytes")

    def add(self, piece: bytes) -> None:
        """More of it."""
        self.check_room(len(piece))
        self._data += piece

    def taken(self) -> bytes:
        """All that is there; there is room again afterwards."""
        data = bytes(self._data)
        self._data.clear()
        return data


class Beginning(Body):
    """What has come of a body up to a limit; the rest does not count."""

    def check_room(self, size: int) -> None:
        """There is always room."""

    def add(self, piece: bytes) -> None:
        """More of it, or `Full`."""
        self._data += piece[: self._largest - len(self._data)]
        if len(self._data) >= self._largest:
            raise Full


class Full(Exception):
    """A beginning is long enough: nothing more need be read."""


def read_response(largest: int = LARGEST_BODY, method: str = "", cut: bool = False) -> Reading[Response]:
    """The answer in the pieces it is sent; raises ProtocolError as soon as it cannot become one.

    With `cut` all of a body that is behind `largest` is left out, and so is what a connection that ends early keeps
    back. No connection is reused after that.
    """
    stream, body = Stream(), Beginning(largest) if cut else Body(largest)
    head = yield from read_head(stream)
    if method != "HEAD":
        try:
            yield from read_body(stream, head, body)
        except (Full, Incomplete):
            if not cut:
                raise
            return Response(head.status, head.headers, body.taken(), False, head.minor)
    framed = head.status in _BODILESS or not {"transfer-encoding", "content-length"}.isdisjoint(head.headers)
    reusable = framed and _keeps_alive(head) and not stream.data
    return Response(head.status, head.headers, body.taken(), reusable, head.minor)


class Stream:
    """What has come and is not read yet."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def more(self) -> Reading[None]:
        piece = yield
        if not piece:
            raise Incomplete("it ends halfway")
        self.data += piece

    def until(self, mark: bytes, limit: int, what: str) -> Reading[bytes]:
        """All up to a mark, which is dropped."""
        while (end := self.data.find(mark, 0, limit + len(mark))) < 0:
            if len(self.data) >= limit + len(mark):
                raise ProtocolError(f"{what} is too long")
            yield from self.more()
        found = bytes(self.data[:end])
        del self.data[: end + len(mark)]
        return found

    def pass_on(self, size: int, body: Body) -> Reading[None]:
        """This many bytes into a body, as they come."""
        while size:
            piece = bytes(self.data[:size])
            del self.data[: len(piece)]
            body.add(piece)
            size -= len(piece)
            if size:
                yield from self.more()

    def exactly(self, size: int) -> Reading[bytes]:
        while len(self.data) < size:
            yield from self.more()
        found = bytes(self.data[:size])
        del self.data[:size]
        return found

    def to_the_end(self, body: Body) -> Reading[None]:
        """All until the connection ends."""
        body.add(bytes(self.data))
        self.data.clear()
        while piece := (yield):
            body.add(piece)


def read_head(stream: Stream) -> Reading[ResponseHead]:
    """The head that counts; heads with 1xx before it are skipped, and one size limit holds for all of them."""
    left = LARGEST_HEAD
    while True:
        raw = yield from stream.until(b"\r\n\r\n", left, "its head")
        head = _parse_head(raw)
        left -= len(raw)
        if head.status >= 200:
            return head
        if head.status == 101:
            raise ProtocolError("it speaks another protocol")


def _parse_head(raw: bytes) -> ResponseHead:
    first, *lines = raw.split(b"\r\n")
    if not (match := _STATUS_LINE.fullmatch(first)):
        raise ProtocolError("it does not begin like HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        if not (field := _FIELD.fullmatch(line)):
            raise ProtocolError("a header is malformed")
        name, value = field[1].decode().lower(), field[2].decode("latin-1")
        if name in ("content-length", "transfer-encoding") and headers.get(name, value) != value:
            raise ProtocolError(f"{name} is there twice")
        headers[name] = value
    return ResponseHead(int(match[1]), int(match[2]), headers)


def _keeps_alive(head: ResponseHead) -> bool:
    options = head.headers.get("connection", "").lower()
    return "close" not in options and (head.minor == 1 or "keep-alive" in options)


def read_body(stream: Stream, head: ResponseHead, body: Body) -> Reading[None]:
    """Put what comes behind the head into the body, to its end."""
    if head.status in _BODILESS:
        return
    coding, length = head.headers.get("transfer-encoding"), head.headers.get("content-length")
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise ProtocolError("its length is ambiguous")
        yield from _chunks(stream, body)
    elif length is None:
        yield from stream.to_the_end(body)
    elif not (length.isascii() and length.isdecimal()) or len(length) > 18:
        raise ProtocolError("its Content-Length is not a number")
    else:
        body.check_room(int(length))
        yield from stream.pass_on(int(length), body)


def _chunks(stream: Stream, body: Body) -> Reading[None]:
    while True:
        line = yield from stream.until(b"\r\n", _LONGEST_CHUNK_LINE, "the size of a chunk")
        if not (match := _CHUNK_SIZE.fullmatch(line)):
            raise ProtocolError("the size of a chunk is not a number")
        if (size := int(match[1], 16)) == 0:
            return (yield from _trailers(stream))
        body.check_room(size)
        yield from stream.pass_on(size, body)
        if (yield from stream.exactly(2)) != b"\r\n":
            raise ProtocolError("a chunk is longer than it says")


def _trailers(stream: Stream) -> Reading[None]:
    left = LARGEST_HEAD
    while line := (yield from stream.until(b"\r\n", left, "its end")):
        left = max(0, left - len(line))


class OpenResponse:
    """An answer whose end is not awaited: its body is taken away as it comes."""

    def __init__(self, largest: int = LARGEST_BODY) -> None:
        """No more than `largest` bytes of it are kept."""
        self._stream, self._body = Stream(), Body(largest)
        self._reading: Reading[None] | None = None
        self._wrong: ProtocolError | None = None

    def read_head(self) -> Reading[ResponseHead]:
        """What comes before the body."""
        head = yield from read_head(self._stream)
        self._reading = read_body(self._stream, head, self._body)
        self.feed(None)
        return head

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to come."""
        return self._reading is None

    def feed(self, piece: bytes | None) -> None:
        """More of it; empty at the end of the connection, None before the first."""
        try:
            if self._reading is not None:
                self._reading.send(piece)  # type: ignore[arg-type]  # None begins it
        except StopIteration:
            self._reading = None
        except ProtocolError as error:
            self._reading, self._wrong = None, error

    def taken(self) -> bytes:
        """What has come of the body since; what was right is told before what is wrong."""
        if not (came := self._body.taken()) and self._wrong is not None:
            raise self._wrong
        return came
