"""Bounds that all ports share: what may come in and go out at the most (S24, S26, S29).

A bound is looked at before the work that it bounds: who asks first, then how large it is, and only then what it says.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from duenotice.errors import Malformed, TooLarge

FORM_FIELDS = 20
"""Fields of a form; the largest of ours has half as many."""

LARGE_BYTES = 64 * 1024
"""What is larger is decoded, encoded and joined off the loop that answers polls."""

PAGE_BYTES = 1024 * 1024
"""A page of a list ends here, or at its number of rows."""

PAGE_ROWS = 1000
"""Rows of one page of a list."""

LONGEST_ITEM = 4 * PAGE_BYTES
"""Bytes of one item or row, which alone may be larger than a page: 20,000 VMs of one set, each named."""


class CallBounds(NamedTuple):
    """What one call of a port may cost at the most (S24, S29): bytes of its body, and fields of a form in it.

    `rows` and `answer` are looked at by the Azure door. Of an answer that is a page, `answer` bounds the one item that
    every page has, however large it is. Pages of both ports end at `PAGE_BYTES`. A body that is `on_disk` is never in
    memory as a whole when it is large.
    """

    body: int = LARGE_BYTES
    fields: int = FORM_FIELDS
    rows: int = 1
    answer: int = LARGE_BYTES
    on_disk: bool = False


SMALL = CallBounds()
SIGNING_IN = CallBounds(body=16 * 1024)
"""Anybody may send it; the form of the largest identity library has 2 kB."""
NAMES = CallBounds(body=256 * 1024)
"""A list of names: of 3,700 VMs with the longest names, or three times as many with usual ones."""
BEATS = CallBounds(body=1024 * 1024)
"""What a follower tells of 5,000 scopes with the longest names."""
WHOLE_FLEET = CallBounds(body=256 * 1024 * 1024)
"""A fleet file of a million VMs fits; more is a mistake."""
FLEET_FILE = WHOLE_FLEET._replace(on_disk=True)
ONE_LARGE = CallBounds(answer=LONGEST_ITEM)
PAGES = CallBounds(rows=PAGE_ROWS, answer=LONGEST_ITEM)

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
"""How an ASGI application hears of a body."""


def check_length(announced: str, bounds: CallBounds) -> None:
    """Refuse a body that says that it is larger than this, before any of it is read (S29)."""
    if announced.isdecimal() and (len(announced) > 18 or int(announced) > bounds.body):
        raise _too_large(bounds)


async def body_of(receive: Receive, announced: str, bounds: CallBounds) -> bytearray:
    """The whole body of a request, up to what the row of its call says; `announced` is its Content-Length, or empty."""
    body = bytearray()
    async for piece in pieces_of(receive, announced, bounds):
        body += piece
    return body


async def pieces_of(receive: Receive, announced: str, bounds: CallBounds) -> AsyncIterator[bytes]:
    """The same, in the pieces in which it comes."""
    check_length(announced, bounds)
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Malformed("The request ended before the end of its body.", hint="Send all of it.")
        piece: bytes = message.get("body", b"")
        more, size = message.get("more_body", False), size + len(piece)
        if size > bounds.body:
            raise _too_large(bounds)
        yield piece


def _too_large(bounds: CallBounds) -> TooLarge:
    return TooLarge(f"The body is larger than {bounds.body} bytes.", hint="Send less in one request.")


def form_fields(body: bytes | bytearray, most: int = FORM_FIELDS) -> list[tuple[str, str]]:
    """The fields of a form; its separators are counted before anything is decoded."""
    try:
        return parse_qsl(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=most)
    except ValueError:
        raise Malformed(f"The form has more than {most} fields.", hint="Send only the fields of this form.") from None
