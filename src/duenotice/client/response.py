"""Reads an HTTP/1.1 answer from pieces of bytes, strictly and within bounds. Pure: it is fed, and never waits.

On a broken network any program may answer on this port, so everything unusual is refused and nothing is guessed.
"""

import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from duenotice.client.errors import BadAnswer

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
_HINT = "Is there a proxy or another service on this address?"


@dataclass(frozen=True, slots=True)
class Response:
    """One whole answer; `headers` in lower case, `reusable` if the connection can carry another request."""

    status: int
    headers: dict[str, str]
    body: bytes
    reusable: bool = True


def bad(what: str) -> BadAnswer:
    """Not an answer of the contract."""
    return BadAnswer(f"The answer is not one of the metadata service: {what}.", hint=_HINT)


def read_response() -> Reading[Response]:
    """The answer in the pieces it is sent; raises BadAnswer as soon as it cannot become one."""
    stream = _Stream()
    minor, status, headers = yield from _final_head(stream)
    persistent = _keeps_alive(minor, headers)
    body = b""
    if status not in _BODILESS:
        framed = "transfer-encoding" in headers or "content-length" in headers
        persistent = persistent and framed
        body = yield from _body(stream, headers)
    return Response(status, headers, body, persistent and not stream.data)


class _Stream:
    """What has come and is not read yet."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def more(self) -> Reading[None]:
        piece = yield
        if not piece:
            raise bad("it ends halfway")
        self.data += piece

    def until(self, mark: bytes, limit: int, what: str) -> Reading[bytes]:
        """All up to a mark, which is dropped."""
        while (end := self.data.find(mark, 0, limit + len(mark))) < 0:
            if len(self.data) >= limit + len(mark):
                raise bad(f"{what} is too long")
            yield from self.more()
        found = bytes(self.data[:end])
        del self.data[: end + len(mark)]
        return found

    def exactly(self, size: int) -> Reading[bytes]:
        while len(self.data) < size:
            yield from self.more()
        found = bytes(self.data[:size])
        del self.data[:size]
        return found

    def to_the_end(self) -> Reading[bytes]:
        """All until the connection ends."""
        while piece := (yield):
            self.data += piece
            _check_size(len(self.data))
        found = bytes(self.data)
        self.data.clear()
        return found


def _final_head(stream: _Stream) -> Reading[tuple[int, int, dict[str, str]]]:
    """The head that counts; heads with 1xx before it are skipped, and one size limit holds for all of them."""
    left = LARGEST_HEAD
    while True:
        raw = yield from stream.until(b"\r\n\r\n", left, "its head")
        minor, status, headers = _parse_head(raw)
        left -= len(raw)
        if status >= 200:
            return minor, status, headers
        if status == 101:
            raise bad("it speaks another protocol")


def _parse_head(raw: bytes) -> tuple[int, int, dict[str, str]]:
    first, *lines = raw.split(b"\r\n")
    if not (match := _STATUS_LINE.fullmatch(first)):
        raise bad("it does not begin like HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        if not (field := _FIELD.fullmatch(line)):
            raise bad("a header is malformed")
        name, value = field[1].decode().lower(), field[2].decode("latin-1")
        if name in ("content-length", "transfer-encoding") and headers.get(name, value) != value:
            raise bad(f"{name} is there twice")
        headers[name] = value
    return int(match[1]), int(match[2]), headers


def _keeps_alive(minor: int, headers: dict[str, str]) -> bool:
    options = headers.get("connection", "").lower()
    return "close" not in options and (minor == 1 or "keep-alive" in options)


def _body(stream: _Stream, headers: dict[str, str]) -> Reading[bytes]:
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise bad("its length is ambiguous")
        return (yield from _chunks(stream))
    if length is None:
        _check_size(len(stream.data))
        return (yield from stream.to_the_end())
    if not (length.isascii() and length.isdecimal()) or len(length) > 18:
        raise bad("its Content-Length is not a number")
    _check_size(int(length))
    return (yield from stream.exactly(int(length)))


def _chunks(stream: _Stream) -> Reading[bytes]:
    body = bytearray()
    while True:
        line = yield from stream.until(b"\r\n", _LONGEST_CHUNK_LINE, "the size of a chunk")
        if not (match := _CHUNK_SIZE.fullmatch(line)):
            raise bad("the size of a chunk is not a number")
        if (size := int(match[1], 16)) == 0:
            yield from _trailers(stream)
            return bytes(body)
        _check_size(len(body) + size)
        body += yield from stream.exactly(size)
        if (yield from stream.exactly(2)) != b"\r\n":
            raise bad("a chunk is longer than it says")


def _trailers(stream: _Stream) -> Reading[None]:
    left = LARGEST_HEAD
    while line := (yield from stream.until(b"\r\n", left, "its end")):
        left = max(0, left - len(line))


def _check_size(size: int) -> None:
    if size > LARGEST_BODY:
        raise bad(f"its body is larger than {LARGEST_BODY} bytes")
