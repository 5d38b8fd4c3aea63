"""A long list of the operator's API for asyncio: iterated page after page, or one page at a time."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

from duenotice.client.operator.listing import PAGE, page_request
from duenotice.client.operator.request import OperatorRequest, QueryValue
from duenotice.wire.operator import Page

T = TypeVar("T")


class AsyncListing(Generic[T]):
    """`async for vm in client.vms():` reads a page when it is needed; `await client.vms().all()` has them all."""

    def __init__(
        self,
        do: Callable[[OperatorRequest[Page[T]]], Awaitable[Page[T]]],
        kind: type[T],
        path: tuple[str, ...],
        query: dict[str, QueryValue],
    ) -> None:
        self._do, self._kind, self._path, self._query = do, kind, path, query

    async def page(self, cursor: str = "", limit: int = PAGE) -> Page[T]:
        """One page; `next` of a page is the cursor of the one after it."""
        return await self._do(page_request(self._kind, self._path, self._query, limit, cursor))

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
