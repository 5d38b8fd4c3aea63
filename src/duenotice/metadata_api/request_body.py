"""Takes a body out of a buffer, by length or by chunks, and never more than 64 KiB of it. Pure; no sockets here."""

import re

from duenotice.errors import Malformed
from duenotice.metadata_api.request_head import CHUNKED, TOKEN, parse_fields

MAX_BODY = 64 * 1024
MAX_OVERHEAD = 2 * 1024
"""The size limit of chunk lines and trailers together; one byte per chunk would be endless work (S24)."""

# Of what the standard allows in extensions, only what all readers take for the same; nobody uses them.
_CHUNK_LINE = re.compile(rb'([0-9A-Fa-f]{1,8})(?:;%b(?:=(?:%b|"[^"\\\x00-\x1f\x7f-\xff]*"))?)*' % (TOKEN, TOKEN))
_NOT_IN_TRAILERS = frozenset({"content-length", "transfer-encoding"})


class BodyTooLarge(Malformed):
    """The body is larger than 64 KiB."""


class SizedBody:
    """A body whose length was announced."""

    __slots__ = ("_length",)

    def __init__(self, length: int) -> None:
        self._length = length

    def take(self, buffer: bytearray) -> bytes | None:
        """The body, once all of it is there."""
        return bytes(_cut(buffer, self._length)) if len(buffer) >= self._length else None


class ChunkedBody:
    """A body that comes in chunks, each with its length before it."""

    __slots__ = ("_body", "_ended", "_expected", "_overhead")

    def __init__(self) -> None:
        self._body = bytearray()
        self._expected = 0
        self._overhead = 0
        self._ended = False

    def take(self, buffer: bytearray) -> bytes | None:
        """The body, once its last chunk and trailer are there; bytes that have come so far are taken out at once."""
        while not self._expected or self._take_chunk(buffer):
            line = self._take_line(buffer)
            if line is None:
                return None
            if self._ended and not line:
                return bytes(self._body)
            self._read_line(line)
        return None

    def _read_line(self, line: bytes) -> None:
        if self._ended:
            if _NOT_IN_TRAILERS & parse_fields([line]).keys():
                raise Malformed("A trailer says how long the body is.", hint="Say it before the body.")
            return
        match = _CHUNK_LINE.fullmatch(line)
        if match is None:
            raise Malformed("A chunk's length is malformed.", hint="Send it as hexadecimal digits and CRLF.")
        self._expected = int(match[1], 16)
        self._ended = self._expected == 0
        if len(self._body) + self._expected > MAX_BODY:
            raise BodyTooLarge(hint="Approve fewer events in one request.")

    def _take_chunk(self, buffer: bytearray) -> bool:
        if len(buffer) < self._expected + 2:
            return False
        self._body += _cut(buffer, self._expected)
        self._expected = 0
        if _cut(buffer, 2) != b"\r\n":
            raise Malformed("A chunk is longer than its length says.", hint="End each chunk with CRLF.")
        return True

    def _take_line(self, buffer: bytearray) -> bytes | None:
        end = buffer.find(b"\n") + 1
        self._overhead += end
        if self._overhead > MAX_OVERHEAD or (not end and len(buffer) > MAX_OVERHEAD):
            raise BodyTooLarge("The body's chunks are too many or too small.", hint="Send Content-Length.")
        if not end:
            return None
        line = bytes(_cut(buffer, end))
        if not line.endswith(b"\r\n"):
            raise Malformed("A line ends without CRLF.", hint="End every line with CRLF.")
        return line[:-2]


Body = SizedBody | ChunkedBody


def body_of(length: int) -> Body:
    """A reader for a body of that length; a body that is too large is refused before it is read (C06)."""
    if length > MAX_BODY:
        raise BodyTooLarge(hint="Approve fewer events in one request.")
    return ChunkedBody() if length == CHUNKED else SizedBody(length)


def _cut(buffer: bytearray, length: int) -> bytearray:
    """Take that much off the front."""
    taken = buffer[:length]
    del buffer[:length]
    return taken
