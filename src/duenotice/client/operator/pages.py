"""A long list of the operator's API: iterated page after page, or one page at a time."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Generic

from duenotice.client.operator.request import ListRequest, OperatorRequest, T
from duenotice.wire.operator import Page

PAGE = 1000
"""Things on one page; the service gives no more."""


class Pages(Generic[T]):
    """`for vm in client.vms():` reads a page when it is needed; `list(…)` has them all.

    A thing that is added or removed meanwhile may be missed; none that stays is, and none is there twice except an
    event that is postponed.
    """

    def __init__(self, send: Callable[[OperatorRequest[Page[T]]], Page[T]], request: ListRequest[T]) -> None:
        self._send, self._request = send, request

    def page(self, cursor: str = "", limit: int = PAGE) -> Page[T]:
        """One page; `next` of a page is the cursor of the one after it."""
        return self._send(self._request.page(cursor, limit))

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


class AsyncPages(Generic[T]):
    """`async for vm in client.vms():` reads a page when it is needed; `await client.vms().all()` has them all."""

    def __init__(self, send: Callable[[OperatorRequest[Page[T]]], Awaitable[Page[T]]], request: ListRequest[T]) -> None:
        self._send, self._request = send, request

    async def page(self, cursor: str = "", limit: int = PAGE) -> Page[T]:
        """One page; `next` of a page is the cursor of the one after it."""
        return await self._send(self._request.page(cursor, limit))

    def __aiter__(self) -> AsyncIterator[T]:
        return self._walk(PAGE)

    async def all(self) -> list[T]:
        """All of them."""
        return [item async for item in self]

    async def first(self, most: int) -> list[T]:
        """The first ones, at most this many."""
        found: list[T] = []
        async for item in self._walk(min(PAGE, most)):
            found.append(item)
            if len(found) == most:
                break
        return found

    async def _walk(self, limit: int) -> AsyncIterator[T]:
        cursor: str | None = ""
        while cursor is not None:
            page = await self.page(cursor, limit)
            for item in page.items:
                yield item
            cursor = page.next
