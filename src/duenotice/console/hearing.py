"""One feed for all open pages of a token: all open tabs together use one connection of the feed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.errors import DuenoticeError, Unavailable
from duenotice.wire.operator import Record

MOST_PAGES = 50
"""Live pages of one token; each is a connection, and the port has 200."""

PAGE_QUEUE = 1000
"""Records that may wait for one page."""

Records = asyncio.Queue[Record | None]
"""What a page is told; None is the end."""


class SharedFeed:
    """An open feed, and the pages that get it."""

    def __init__(self, client: AsyncOperatorClient) -> None:
        self.pages: set[Records] = set()
        self.is_over = False
        self.is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._pass_on(client), name="console-feed")

    async def close(self) -> None:
        """Close the feed."""
        self.is_over = True
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _pass_on(self, client: AsyncOperatorClient) -> None:
        try:
            async with client.feed(on_lost=_give_up) as feed:
                self.is_open.set_result(None)
                async for record in feed:
                    for page in list(self.pages):
                        self._tell(page, record)
        except DuenoticeError as problem:
            self._refuse(problem)
        finally:
            self.is_over = True
            self._refuse(Unavailable("The feed did not open.", hint="Try again."))
            for page in list(self.pages):
                self._end(page)

    def _refuse(self, problem: DuenoticeError) -> None:
        if not self.is_open.done():
            self.is_open.set_exception(problem)
            self.is_open.exception()  # perhaps no page is left

    def _tell(self, page: Records, record: Record) -> None:
        try:
            page.put_nowait(record)
        except asyncio.QueueFull:  # the page comes back and continues where it was
            self._end(page)

    def _end(self, page: Records) -> None:
        self.pages.discard(page)
        while not page.empty():
            page.get_nowait()
        page.put_nowait(None)


def _give_up(error: DuenoticeError) -> None:
    """The pages come back by themselves; and when the service ends, nothing must hold it up."""
    raise error


class Hearing:
    """The open feeds, by the id of the token."""

    def __init__(self) -> None:
        self._lines: dict[str, SharedFeed] = {}

    @property
    def listeners(self) -> int:
        """How many hear now."""
        return sum(len(line.pages) for line in self._lines.values())

    @asynccontextmanager
    async def hear(self, token_id: str, client: AsyncOperatorClient) -> AsyncIterator[Records]:
        """Records from now on, for one page; raises when too many pages are live."""
        line = self._lines.get(token_id)
        if line is None or line.is_over:
            line = self._lines[token_id] = SharedFeed(client)
        if len(line.pages) >= MOST_PAGES:
            raise Unavailable(f"{MOST_PAGES} pages of this token are live.", hint="Close some.")
        page = Records(PAGE_QUEUE)
        line.pages.add(page)
        try:
            await asyncio.shield(line.is_open)
            yield page
        finally:
            line.pages.discard(page)
            if not line.pages:
                if self._lines.get(token_id) is line:
                    del self._lines[token_id]
                await line.close()
