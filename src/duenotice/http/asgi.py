"""A service of this process without a network: the ASGI application itself, on the loop it runs on, as a transport."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from duenotice.http.flow import Exchange, Open, T, left
from duenotice.http.http1 import Request, Response, ResponseHead

Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
"""An ASGI application."""

GRACE_SECONDS = 5.0
QUEUE = 1000
"""Pieces of an answer without end that may wait for their reader."""


class AsgiTransport:
    """Calls the application on its own loop, from whichever loop this is. Nothing is kept open."""

    def __init__(self, app: App, home: asyncio.AbstractEventLoop) -> None:
        self._app, self._home = app, home

    async def exchange(self, step: Exchange) -> Response:
        """The whole answer."""
        async with asyncio.timeout(left(step.deadline)):
            response = await at(self._home, self._answer(step.request))
        await asyncio.sleep(0)  # let polls of VMs go ahead
        return response

    async def open(self, step: Open) -> "AsgiStream":
        """The answer as it comes."""
        async with asyncio.timeout(left(step.deadline)):
            return await at(self._home, self._begun(step.request))

    async def close(self) -> None:
        """There is nothing to end."""

    async def _answer(self, request: Request) -> Response:
        status, headers, parts = 0, dict[str, str](), bytearray()
        incoming = iter([{"type": "http.request", "body": request.body, "more_body": False}])

        async def receive() -> Message:
            return next(incoming, {"type": "http.disconnect"})

        async def send(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], _headers(message)
            parts.extend(message.get("body", b""))

        await self._app(_scope_of(request), receive, send)
        return Response(status, headers, bytes(parts))

    async def _begun(self, request: Request) -> "AsgiStream":
        stream = AsgiStream(self._home)
        await stream.begin(self._app, _scope_of(request))
        return stream


class AsgiStream:
    """An answer that does not end, made by a task on the application's loop."""

    head: ResponseHead

    def __init__(self, home: asyncio.AbstractEventLoop) -> None:
        self._home = home
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(QUEUE)
        self._begun: asyncio.Future[ResponseHead] = home.create_future()
        self._is_over = False

    async def begin(self, app: App, scope: Message) -> None:
        """Wait until the answer begins; on the application's loop."""
        self._task = asyncio.ensure_future(self._run(app, scope))
        await asyncio.wait((self._task, self._begun), return_when=asyncio.FIRST_COMPLETED)
        if not self._begun.done():
            await self._task
            raise ConnectionError("the application did not answer")
        self.head = self._begun.result()

    async def read(self, deadline: float) -> bytes:
        """The next bytes, empty at the end."""
        async with asyncio.timeout(left(deadline)):
            return await at(self._home, self._pieces.get())

    async def end(self) -> None:
        """Read no more."""
        await at(self._home, self._end())

    async def _run(self, app: App, scope: Message) -> None:
        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._begun.set_result(ResponseHead(1, message["status"], _headers(message)))
            elif body := message.get("body"):
                await self._pieces.put(body)

        try:
            await app(scope, _never, send)
        finally:
            if not self._is_over:  # somebody reads, so there will be room
                await self._pieces.put(b"")

    async def _end(self) -> None:
        self._is_over = True
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        with suppress(asyncio.QueueFull):  # a wait for more is told; when it is full, nobody waits
            self._pieces.put_nowait(b"")


class ThreadedAsgiTransport:
    """The same from a thread without a loop."""

    def __init__(self, app: App, home: asyncio.AbstractEventLoop) -> None:
        self._inner, self._home = AsgiTransport(app, home), home

    def exchange(self, step: Exchange) -> Response:
        """The whole answer."""
        return _waited(self._home, self._inner.exchange(step), left(step.deadline))

    def open(self, step: Open) -> "ThreadedAsgiStream":
        """The answer as it comes."""
        return ThreadedAsgiStream(self._home, _waited(self._home, self._inner.open(step), left(step.deadline)))

    def close(self) -> None:
        """There is nothing to end."""


class ThreadedAsgiStream:
    """An answer that does not end, for a thread without a loop."""

    def __init__(self, home: asyncio.AbstractEventLoop, inner: AsgiStream) -> None:
        self.head, self._home, self._inner = inner.head, home, inner

    def read(self, deadline: float) -> bytes:
        """The next bytes, empty at the end."""
        return _waited(self._home, self._inner.read(deadline), left(deadline))

    def end(self) -> None:
        """Read no more."""
        with suppress(TimeoutError):
            _waited(self._home, self._inner.end(), GRACE_SECONDS)


async def at(home: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """The result of some work that has to be done on another loop, or on this one."""
    if asyncio.get_running_loop() is home:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, home))


def _waited(home: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], seconds: float) -> T:
    """The work has its own deadline; beyond it we wait a little, because its loop may have ended."""
    return asyncio.run_coroutine_threadsafe(work, home).result(seconds + GRACE_SECONDS)


def _scope_of(request: Request) -> Message:
    """The request as ASGI has it."""
    path, _, query = request.path.partition("?")
    headers = [(name.lower().encode(), value.encode()) for name, value in request.headers.items()]
    headers.append((b"content-length", b"%d" % len(request.body)))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "client": None,
        "server": None,
    }


def _headers(message: Message) -> dict[str, str]:
    return {bytes(name).decode("latin-1").lower(): bytes(value).decode("latin-1") for name, value in message["headers"]}


async def _never() -> Message:
    never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    return await never
