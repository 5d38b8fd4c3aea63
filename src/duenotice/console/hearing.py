"""One feed for all open pages of a token: all open tabs together use one connection of the feed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from duenotice.console.api import FEED_QUEUE, Api, ApiProblem, Chunks

MOST_PAGES = 50
"""Live pages of one token; each is a connection, and the port has 200."""


class Line:
    """An open feed, and the pages that get it."""

    def __init__(self, api: Api) -> None:
        self.pages: set[Chunks] = set()
        self.is_over = False
        self.is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._pass_on(api), name="console-feed")

    async def close(self) -> None:
        """Close the feed."""
        self.is_over = True
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _pass_on(self, api: Api) -> None:
        try:
            async with api.feed("") as chunks:
                self.is_open.set_result(None)
                while (chunk := await chunks.get()) is not None:
                    for page in list(self.pages):
                        self._tell(page, chunk)
        except ApiProblem as problem:
            self._refuse(problem)
        finally:
            self.is_over = True
            self._refuse(ApiProblem("The feed did not open.", hint="Try again.", status=503))
            for page in list(self.pages):
                self._end(page)

    def _refuse(self, problem: ApiProblem) -> None:
        if not self.is_open.done():
            self.is_open.set_exception(problem)
            self.is_open.exception()  # perhaps no page is left

    def _tell(self, page: Chunks, chunk: bytes) -> None:
        try:
            page.put_nowait(chunk)
        except asyncio.QueueFull:  # the page comes back and continues where it was
            self._end(page)

    def _end(self, page: Chunks) -> None:
        self.pages.discard(page)
        while not page.empty():
            page.get_nowait()
        page.put_nowait(None)


class Hearing:
    """The open feeds, by the id of the token."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}

    @asynccontextmanager
    async def hear(self, token_id: str, api: Api) -> AsyncIterator[Chunks]:
        """Records from now on, for one page; raises when too many pages are live."""
        line = self._lines.get(token_id)
        if line is None or line.is_over:
            line = self._lines[token_id] = Line(api)
        if len(line.pages) >= MOST_PAGES:
            raise ApiProblem(f"{MOST_PAGES} pages of this token are live.", hint="Close some.", status=503)
        page = Chunks(FEED_QUEUE)
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
