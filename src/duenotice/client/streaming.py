"""The client for asyncio: runs the same talks as the blocking client, over streams, and decides nothing."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from duenotice.client.base import ClientBase, ids_of
from duenotice.client.contract import name_in
from duenotice.client.endpoint import DISCOVER, Address, locate
from duenotice.client.exchange import Show, T, Talk
from duenotice.client.metadata_talks import Asker
from duenotice.client.patience import IsWanted, always
from duenotice.client.stream_line import StreamLine
from duenotice.client.watch_talk import OnError, Watch
from duenotice.wire.seen_documents import SeenDocument, SeenEvent


class AsyncMetadataClient(ClientBase[StreamLine]):
    """`MetadataClient` with `await`; any number of its calls may be under way at once, in one event loop.

    >>> async with AsyncMetadataClient() as client:
    ...     me = await client.instance_name()
    ...     async for document in client.watch():
    ...         mine = [event for event in document.events if event.hits(me)]
    """

    async def document(self) -> SeenDocument:
        """All events this VM is told of, now."""
        return await self._carry((await self._asker()).document())

    async def watch(self, on_error: OnError | None = None) -> AsyncGenerator[SeenDocument, None]:
        """The document, and then each one that differs from the last; waits in between.

        Errors are retried as in `document()`; one that stays is raised and ends the watch. With `on_error` it is
        given to that instead, and the watch goes on.
        """
        talk = Watch(await self._asker(), on_error).run()
        async with self._line() as line:
            while isinstance(step := await line.carry(talk), Show):
                yield step.shown

    async def approve(self, *events: SeenEvent | str, is_wanted: IsWanted = always) -> None:
        """Let these events start now, for all the VMs they hit (C04). Approving again does no harm.

        A try that failed is only repeated if `is_wanted()` still says so then.
        """
        await self._carry((await self._asker()).approve(ids_of(events), is_wanted))

    async def instance(self) -> dict[str, Any]:
        """All that the service knows of this VM."""
        return await self._carry((await self._asker()).instance())

    async def instance_name(self) -> str:
        """This VM's name, as `resources` has it."""
        return name_in(await self.instance())

    async def close(self) -> None:
        """End all idle connections. The client cannot be used afterwards."""
        self._end_all()
        await asyncio.sleep(0)  # the transports end with the next turn of the loop

    async def __aenter__(self) -> "AsyncMetadataClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _asker(self) -> Asker:
        return (await self._located())[1]

    async def _located(self) -> tuple[Address, Asker]:
        self._check_open()
        if self._known is None and self._endpoint == DISCOVER:
            return self._found(await asyncio.to_thread(locate, self._endpoint, self._patience.budget))
        return self._known or self._found(locate(self._endpoint, self._patience.budget))

    async def _carry(self, talk: Talk[T]) -> T:
        async with self._line() as line:
            value = await line.carry(talk)
            assert not isinstance(value, Show)
            return value

    @asynccontextmanager
    async def _line(self) -> AsyncIterator[StreamLine]:
        """A connection for one call; kept for the next one unless something went wrong with it."""
        address, _ = await self._located()
        line = self._idle.pop() if self._idle else self._new_line(address)
        try:
            yield line
        except BaseException:
            line.close()
            raise
        self._keep(line)

    def _new_line(self, address: Address) -> StreamLine:
        return StreamLine(address, self._source)
