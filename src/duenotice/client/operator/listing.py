"""A long list of the operator's API: iterated page after page, or one page at a time."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from duenotice.client.operator.request import OperatorRequest, QueryValue, get
from duenotice.wire.operator import Page

T = TypeVar("T")
PAGE = 1000
"""Things on one page; the service gives no more."""


def page_request(
    kind: type[T], path: tuple[str, ...], query: dict[str, QueryValue], limit: int, cursor: str
) -> OperatorRequest[Page[T]]:
    """One page of a list."""
    return get(Page[kind], *path, **query, limit=limit, cursor=cursor)  # type: ignore[valid-type]


class Listing(Generic[T]):
    """`for vm in client.vms():` reads a page when it is needed; `list(…)` has them all.

    A thing that is added or removed meanwhile may be missed; none that stays is, and none is there twice except an
    event that is postponed.
    """

    def __init__(
        self,
        do: Callable[[OperatorRequest[Page[T]]], Page[T]],
        kind: type[T],
        path: tuple[str, ...],
        query: dict[str, QueryValue],
    ) -> None:
        self._do, self._kind, self._path, self._query = do, kind, path, query

    def page(self, cursor: str = "", limit: int = PAGE) -> Page[T]:
        """One page; `next` of a page is the cursor of the one after it."""
        return self._do(page_request(self._kind, self._path, self._query, limit, cursor))

    def __iter__(self) -> Iterator[T]:
        return self._walk(PAGE)

    def first(self, most: int) -> list[T]:
        """The first ones, at most this many."""
        found: list[T] = []
        for item in self._walk(min(PAGE, most)):
            found.append(item)
            if len(found) == most:
                break
        return found

    def _walk(self, limit: int) -> Iterator[T]:
        cursor: str | None = ""
        while cursor is not None:
            page = self.page(cursor, limit)
            yield from page.items
            cursor = page.next
