"""Where others read a request that we accept in another way, or not at all, and why that is no danger.

Each row names the reader, what it says instead, and when that is all right. A difference without a row is a finding.
"""

from collections.abc import Callable
from typing import NamedTuple

from simulator.http.opinions import Meaning

# fmt: off
KNOWN_TO_HTTPTOOLS = frozenset({
    "DELETE", "GET", "HEAD", "POST", "PUT", "OPTIONS", "TRACE", "COPY", "LOCK", "MKCOL", "MOVE", "PROPFIND",
    "PROPPATCH", "SEARCH", "UNLOCK", "BIND", "REBIND", "UNBIND", "ACL", "REPORT", "MKACTIVITY", "CHECKOUT",
    "MERGE", "M-SEARCH",
    "NOTIFY", "SUBSCRIBE", "UNSUBSCRIBE", "PATCH", "PURGE", "MKCALENDAR", "LINK", "UNLINK", "SOURCE", "QUERY",
})
# fmt: on


class Difference(NamedTuple):
    """`says` begins what the reader says; `is_known` looks at how we read the request, and at its bytes."""

    reader: str
    says: str
    reason: str
    is_known: Callable[[Meaning, bytes], bool]


DIFFERENCES = (
    Difference(
        "h11",
        "bad target",
        "Python looks at the host of an absolute target. We do not: whatever it names, it is us who are asked.",
        lambda _, raw: b"http://" in raw.lower(),
    ),
    Difference(
        "httptools",
        "bad target",
        "Python looks at the host of an absolute target. We do not: whatever it names, it is us who are asked.",
        lambda _, raw: b"http://" in raw.lower(),
    ),
    Difference(
        "httptools",
        "HttpParser",
        "It knows a list of methods. We take any name for one and answer 405, with the length of the body understood.",
        lambda ours, _: ours.method not in KNOWN_TO_HTTPTOOLS,
    ),
    Difference(
        "httptools",
        "it ends later",
        "PRI is the beginning of HTTP/2 to it, whatever follows. To us it is a method that nobody has: 405.",
        lambda ours, _: ours.method == "PRI",
    ),
    Difference(
        "httptools",
        "HttpParserError: Request has invalid `Transfer-Encoding`",
        "It takes no tab behind the coding. The standard and we take blanks and tabs there; who refuses reads nothing.",
        lambda ours, raw: b"chunked" in ours.fields["transfer-encoding"] and b"\t" in raw[: ours.length],
    ),
    Difference(
        "httptools",
        "another stays_open",
        "When HTTP/1.0 says close and keep-alive, it takes keep-alive. We take close, as the standard says.",
        lambda ours, _: ours.minor == 0 and not ours.stays_open,
    ),
    Difference(
        "httptools",
        "another body",
        "A request may offer another protocol. To it all behind the head is that protocol, also the body. We never "
        "change the protocol, and read the body: a client that offers HTTP/2 may send its approval so.",
        lambda ours, _: "upgrade" in ours.fields and _wants(ours, b"upgrade"),
    ),
    Difference(
        "h11",
        "no request line received",
        "It refuses empty lines before a request. The standard says to skip one; we skip four, httptools any number.",
        lambda _, raw: raw.startswith(b"\r\n"),
    ),
    Difference(
        "h11",
        "another stays_open",
        "It closes every connection of HTTP/1.0. We keep it open for who asks for that, and say so in the answer.",
        lambda ours, _: ours.minor == 0 and ours.stays_open,
    ),
    Difference(
        "h11",
        "bad Content-Length",
        "It takes 20 digits. We take more if they are zeros at the front: the number is the same for who can read it.",
        lambda ours, _: len(ours.fields["content-length"][0]) > 20,
    ),
)


def _wants(ours: Meaning, option: bytes) -> bool:
    """Whether `Connection` says this."""
    return any(option in line.lower() for line in ours.fields.get("connection", ()))


def known(reader: str, ours: Meaning, raw: bytes, theirs: Meaning | str) -> Difference | None:
    """The row that explains why a reader differs; None when there is none."""
    said = _said(ours, theirs)
    rows = (row for row in DIFFERENCES if row.reader == reader and said.startswith(row.says))
    return next((row for row in rows if row.is_known(ours, raw)), None)


def _said(ours: Meaning, theirs: Meaning | str) -> str:
    """Why it is refused, or what is different."""
    if isinstance(theirs, str):
        return theirs
    return "another " + ", ".join(name for name, value in theirs._asdict().items() if value != getattr(ours, name))
