"""Long lists in pages: `{"items": […], "next": cursor or null}`, in an order that changes do not disturb."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest
from itertools import islice
from typing import NamedTuple, TypeVar

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
        raise Malformed(f"{name}={text[:40]} is not valid.", hint=f"Use a whole number from {least} to {most}.")
    return value


def limit_of(request: Request) -> int:
    """How many items a page may have."""
    return number(request, "limit", DEFAULT_LIMIT, 1, MOST)


class Paging(NamedTuple):
    """Which page of a list a request asks for."""

    limit: int
    cursor: str

    def page(
        self, items: Iterable[T], key: Callable[[T], str], to_json: Callable[[T], Mapping[str, object]]
    ) -> dict[str, object]:
        """The items behind the cursor, by their key; only as many are sorted as are shown."""
        behind = (item for item in items if key(item) > self.cursor) if self.cursor else items
        found = nsmallest(self.limit + 1, behind, key=key)
        shown = found[: self.limit]
        rest = key(shown[-1]) if len(found) > self.limit else None
        return {"items": [to_json(item) for item in shown], "next": rest}

    def page_of_names(
        self, names: Sequence[str], to_json: Callable[[str], Mapping[str, object] | None]
    ) -> dict[str, object]:
        """The same for very many things with their names in order; what has no JSON is left out."""
        behind = (names[place] for place in range(bisect_right(names, self.cursor), len(names)))
        wanted = ((name, item) for name in behind if (item := to_json(name)) is not None)
        found = list(islice(wanted, self.limit + 1))
        rest = found[self.limit - 1][0] if len(found) > self.limit else None
        return {"items": [item for _, item in found[: self.limit]], "next": rest}


def paging_of(request: Request) -> Paging:
    """The page that a request asks for."""
    return Paging(limit_of(request), request.query_params.get("cursor", ""))


def page(
    request: Request, items: Iterable[T], key: Callable[[T], str], to_json: Callable[[T], Mapping[str, object]]
) -> Response:
    """A page of things of which there are never very many."""
    return JSONResponse(paging_of(request).page(items, key, to_json))
