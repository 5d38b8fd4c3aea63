"""Long lists in pages: `{"items": […], "next": cursor or null}`, in an order that a change does not disturb."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from heapq import nsmallest
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice.engine.names import Names
from duenotice.errors import Malformed

T = TypeVar("T")
DEFAULT_LIMIT = 100
MOST = 1000
SLICE = 16
"""Things made ready in one turn of the loop: VMs that ask meanwhile wait a fraction of a millisecond."""

_encode = msgspec.json.Encoder().encode


def number(request: Request, name: str, default: int, least: int, most: int) -> int:
    """A whole number from the query."""
    text = request.query_params.get(name)
    if text is None:
        return default
    value = int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else -1
    if not least <= value <= most:
        raise Malformed(f"{name}={text[:40]} will not do.", hint=f"Use a whole number from {least} to {most}.")
    return value


def limit_of(request: Request) -> int:
    """How many items a page may have."""
    return number(request, "limit", DEFAULT_LIMIT, 1, MOST)


def page(
    request: Request, items: Iterable[T], key: Callable[[T], str], to_json: Callable[[T], Mapping[str, object]]
) -> Response:
    """The items behind the cursor, by their key; only as many are sorted as are shown."""
    limit, cursor = limit_of(request), request.query_params.get("cursor", "")
    behind = (item for item in items if key(item) > cursor) if cursor else items
    found = nsmallest(limit + 1, behind, key=key)
    shown = found[:limit]
    rest = key(shown[-1]) if len(found) > limit else None
    return JSONResponse({"items": [to_json(item) for item in shown], "next": rest})


async def page_of_names(
    request: Request, names: Callable[[], Names], to_json: Callable[[str], Mapping[str, object] | None]
) -> Response:
    """The same for very many things with their names in order; others get their turn between slices of it.

    What has no JSON is left out. Names may come and go meanwhile, so each slice is found anew.
    """
    limit, last = limit_of(request), request.query_params.get("cursor", "")
    found: list[tuple[str, bytes]] = []
    while len(found) <= limit and (some := names().after(last, SLICE)):
        found += [(name, _encode(item)) for name in some if (item := to_json(name)) is not None]
        last = some[-1]
        await asyncio.sleep(0)
    rest = found[limit - 1][0] if len(found) > limit else None
    items = b",".join(item for _, item in found[:limit])
    return Response(b'{"items":[%b],"next":%b}' % (items, _encode(rest)), media_type="application/json")
