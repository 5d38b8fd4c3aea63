"""Reads the head of one request. Strict: what two readers could understand in two ways is refused.

Pure: bytes in, a `RequestHead` out, or `Malformed`. Nothing here knows paths, callers or sockets.
"""

import re
from dataclasses import dataclass

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
