"""Our strict reader of HTTP/1.1 requests: heads, bodies, and a stream of both that is fed in pieces. Pure.

It refuses what two readers could read in two ways (decision 0003), and costs the same however the bytes are cut.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from duenotice.errors import Malformed

CHUNKED = -1
"""The body length of a request that sends its body in chunks."""

MAX_PIECES = 128
"""How many lines, parameters, values, names of a path and encoded letters a head may have: real ones have a dozen."""

TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE = re.compile(rb"(%b) ([!\"$-~]+) HTTP/1\.([01])" % TOKEN)
# The value is stripped afterwards: leading blanks in the pattern would backtrack over a line full of them.
_FIELD_LINE = re.compile(rb"(%b):([^\x00-\x08\x0a-\x1f\x7f]*)" % TOKEN)
_SEPARATORS = {b"\n": "lines", b"&": "parameters", b",": "commas", b"/": "slashes", b"%": "per cent signs"}
_HOST_LETTER = r"[A-Za-z0-9\-._~%!$&'()*+,;=:\[\]]"
_HOST = re.compile(f"{_HOST_LETTER}*")
_ABSOLUTE_FORM = re.compile(rf"http://{_HOST_LETTER}+(?=[/?]|\Z)", re.IGNORECASE)

Fields = dict[str, list[str]]


class UnmetExpectation(Malformed):
    """The request expects something other than 100-continue."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """One request without its body. Field names are in lower case; `minor` is the 1 of HTTP/1.1."""

    method: str
    path: str
    query: str
    minor: int
    fields: Fields
    body_length: int

    @property
    def keep_alive(self) -> bool:
        """Whether the client wants the connection to stay open (A11)."""
        tokens = self.listed("connection")
        return "close" not in tokens and (self.minor == 1 or "keep-alive" in tokens)

    @property
    def expects_continue(self) -> bool:
        """Whether the client holds its body back until we say 100 Continue (A11)."""
        return self.minor == 1 and self.body_length != 0 and "expect" in self.fields

    def listed(self, name: str) -> list[str]:
        """The comma-separated values of a field, in lower case."""
        joined = ",".join(self.fields.get(name, ()))
        return [value.strip().lower() for value in joined.split(",")] if joined else []


def parse_head(raw: bytes) -> RequestHead:
    """The head in these bytes, which end before the empty line."""
    _check_pieces(raw)
    first, *lines = raw.split(b"\r\n")
    request_line = _REQUEST_LINE.fullmatch(first)
    if request_line is None:
        raise Malformed("The request line is malformed.", hint="Send METHOD /path HTTP/1.1 and CRLF.")
    method, target, minor = (part.decode("ascii") for part in request_line.groups())
    path, query = _origin_form(method, target)
    fields = parse_fields(lines)
    _check_host(fields, int(minor))
    _check_expectation(fields)
    return RequestHead(method, path, query, int(minor), fields, _body_length(fields, int(minor)))


def parse_fields(lines: list[bytes]) -> Fields:
    """Header lines by name; folded lines, blanks before the colon and control characters are refused."""
    fields: Fields = {}
    for line in lines:
        match = _FIELD_LINE.fullmatch(line)
        if match is None:
            raise Malformed("A header line is malformed.", hint="Send Name: value and CRLF, without folding.")
        name, value = (part.decode("latin-1") for part in match.groups())
        fields.setdefault(name.lower(), []).append(value.strip(" \t"))
    return fields


def _check_pieces(raw: bytes) -> None:
    """Counted before anything is split: 16 KiB of `&` or of empty lines would be milliseconds of work (S24, S29)."""
    for separator, what in _SEPARATORS.items():
        if raw.count(separator) > MAX_PIECES:
            raise Malformed(f"The request has more than {MAX_PIECES} {what}.", hint="Send only what is asked for here.")


def _origin_form(method: str, target: str) -> tuple[str, str]:
    """Path and query; a target in absolute form, as sent to a proxy, works like the origin form (A02).

    CONNECT names no path, and what follows it is not HTTP to some readers.
    """
    absolute = _ABSOLUTE_FORM.match(target)
    if absolute is not None:
        target = target[absolute.end() :]
        target = target if target.startswith("/") else f"/{target}"
    if not target.startswith("/") or method == "CONNECT":
        raise Malformed("The request target is malformed.", hint="Ask for a path that begins with a slash.")
    path, _, query = target.partition("?")
    return path, query


def _check_host(fields: Fields, minor: int) -> None:
    hosts = fields.get("host", [])
    if len(hosts) > 1 or (minor == 1 and not hosts) or not all(map(_HOST.fullmatch, hosts)):
        raise Malformed("HTTP/1.1 needs exactly one valid Host header.", hint="Send Host: 169.254.169.254.")


def _check_expectation(fields: Fields) -> None:
    if any(value.lower() != "100-continue" for value in fields.get("expect", ())):
        raise UnmetExpectation("The only expectation known here is 100-continue.", hint="Leave Expect out.")


def _body_length(fields: Fields, minor: int) -> int:
    """How long the body is; saying it twice is how requests are smuggled, so that is refused."""
    encodings, lengths = fields.get("transfer-encoding"), fields.get("content-length", [])
    if encodings is not None:
        if lengths or minor == 0 or [value.lower() for value in encodings] != ["chunked"]:
            raise Malformed("The length of the body is unclear.", hint="Send one Content-Length, or chunks.")
        return CHUNKED
    if not lengths:
        return 0
    if len(lengths) > 1 or not (lengths[0].isascii() and lengths[0].isdigit()):
        raise Malformed("Content-Length must be one whole number.", hint="Send it once, in digits.")
    # Twenty digits are more than any limit, and Python refuses to convert thousands of them.
    return int(lengths[0].lstrip("0")[:20] or "0")


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
