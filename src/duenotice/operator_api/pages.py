"""Long lists in pages: `{"items": […], "next": cursor or null}`, in an order that a change does not disturb."""

from collections.abc import Callable, Iterable, Mapping
from heapq import nsmallest
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice.errors import Malformed

T = TypeVar("T")
DEFAULT_LIMIT = 100
MOST = 1000


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
