"""The client for asyncio: runs the same talks as the blocking client, over streams, and decides nothing."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, assert_never

from duenotice.client.asking import Asker
from duenotice.client.base import PIECE, ClientBase, ids_of, left
from duenotice.client.contract import name_in
from duenotice.client.endpoint import DISCOVER, Address, locate
from duenotice.client.exchange import Close, Connect, Receive, Send, Show, Sleep, Step, T, Talk
from duenotice.client.watching import OnError, Watch
from duenotice.wire.seen_document import SeenDocument, SeenEvent


class AsyncMetadataClient(ClientBase["_Line"]):
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
                yield step.document

    async def approve(self, *events: SeenEvent | str) -> None:
        """Let these events start now, for all the VMs they hit (C04). Approving again does no harm."""
        await self._carry((await self._asker()).approve(ids_of(events)))

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
    async def _line(self) -> AsyncIterator["_Line"]:
        """A connection for one call; kept for the next one unless something went wrong with it."""
        address, _ = await self._located()
        line = self._idle.pop() if self._idle else _Line(address, self._source)
        try:
            yield line
        except BaseException:
            line.close()
            raise
        self._keep(line)


class _Line:
    """A connection that does what a talk says."""

    def __init__(self, address: Address, source: tuple[str, int] | None) -> None:
        self._address = address
        self._source = source
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def carry(self, talk: Talk[T]) -> Show | T:
        """Carry a talk to its end, or to the next document it shows."""
        reply, failure = None, None
        while True:
            try:
                step = talk.send(reply) if failure is None else talk.throw(failure)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Show):
                return step
            try:
                reply, failure = await self._do(step), None
            except OSError as error:
                failure = error

    async def _do(self, step: Step) -> Any:
        match step:
            case Connect(deadline, reuse):
                return await self._connect(deadline, reuse)
            case Send(data, deadline):
                return await self._send(data, deadline)
            case Receive(deadline):
                return await self._receive(deadline)
            case Close():
                return self.close()
            case Sleep(seconds):
                return await asyncio.sleep(seconds)
            case Show():
                return None
            case _:
                assert_never(step)

    async def _connect(self, deadline: float, reuse: bool) -> bool:
        if reuse and await self._is_quiet():
            return True
        self.close()
        async with asyncio.timeout(left(deadline)):
            self._streams = await asyncio.open_connection(*self._address, local_addr=self._source)
        return False

    async def _is_quiet(self) -> bool:
        """Whether the connection is open and quiet: it has not ended, and no unexpected bytes have come."""
        if self._streams is None:
            return False
        try:
            await asyncio.sleep(0)  # the loop may not have taken from the socket what is there
            async with asyncio.timeout(0):
                await self._streams[0].read(1)
        except TimeoutError:
            return True
        except OSError:
            return False
        return False

    async def _send(self, data: bytes, deadline: float) -> None:
        _, writer = self._open()
        async with asyncio.timeout(left(deadline)):
            writer.write(data)
            await writer.drain()

    async def _receive(self, deadline: float) -> bytes:
        reader, _ = self._open()
        async with asyncio.timeout(left(deadline)):
            return await reader.read(PIECE)

    def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            raise ConnectionError("not connected")
        return self._streams

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
