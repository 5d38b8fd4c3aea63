"""Calls the operator's API of this process without a network: the ASGI application itself, on the loop it runs on."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import unquote

from duenotice.client.line import left
from duenotice.client.operator.request import OperatorRequest
from duenotice.http.http1 import Response

T = TypeVar("T")
Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
"""An ASGI application."""

GRACE_SECONDS = 5.0
QUEUE = 1000
"""Pieces of an answer without end that may wait for their reader."""


class AppCarrier:
    """Calls the application on its own loop, from whichever loop this is."""

    def __init__(self, app: App, token: str, home: asyncio.AbstractEventLoop) -> None:
        self._app, self._token, self._home = app, token, home

    async def ask(self, request: OperatorRequest[Any], deadline: float) -> Response:
        async with asyncio.timeout(left(deadline)):
            response = await at(self._home, self._answer(request))
        await asyncio.sleep(0)  # let polls of VMs go ahead
        return response

    async def listen(self, request: OperatorRequest[Any], deadline: float) -> "AppHeard":
        async with asyncio.timeout(left(deadline)):
            return await at(self._home, self._heard(request))

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _answer(self, request: OperatorRequest[Any]) -> Response:
        status, headers, parts = 0, dict[str, str](), bytearray()
        incoming = iter([{"type": "http.request", "body": request.body, "more_body": False}])

        async def receive() -> Message:
            return next(incoming, {"type": "http.disconnect"})

        async def send(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], _headers(message)
            parts.extend(message.get("body", b""))

        await self._app(scope_of(request, self._token), receive, send)
        return Response(status, headers, bytes(parts))

    async def _heard(self, request: OperatorRequest[Any]) -> "AppHeard":
        heard = AppHeard(self._home)
        await heard.begin(self._app, scope_of(request, self._token))
        return heard


class AppHeard:
    """An answer that does not end, made by a task on the application's loop."""

    head: Response

    def __init__(self, home: asyncio.AbstractEventLoop) -> None:
        self._home = home
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(QUEUE)
        self._begun: asyncio.Future[Response] = home.create_future()
        self._is_over = False

    async def begin(self, app: App, scope: Message) -> None:
        """Wait until the answer begins; on the application's loop."""
        self._task = asyncio.ensure_future(self._run(app, scope))
        await asyncio.wait((self._task, self._begun), return_when=asyncio.FIRST_COMPLETED)
        if not self._begun.done():
            await self._task
            raise ConnectionError("the application did not answer")
        self.head = self._begun.result()

    async def more(self, deadline: float) -> bytes:
        async with asyncio.timeout(left(deadline)):
            return await at(self._home, self._pieces.get())

    async def close(self) -> None:
        await at(self._home, self._end())

    async def _run(self, app: App, scope: Message) -> None:
        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._begun.set_result(Response(message["status"], _headers(message), b""))
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


class BlockingAppCarrier:
    """The same from a thread without a loop."""

    def __init__(self, app: App, token: str, home: asyncio.AbstractEventLoop) -> None:
        self._carrier, self._home = AppCarrier(app, token, home), home

    def ask(self, request: OperatorRequest[Any], deadline: float) -> Response:
        return _waited(self._home, self._carrier.ask(request, deadline), left(deadline))

    def listen(self, request: OperatorRequest[Any], deadline: float) -> "BlockingAppHeard":
        heard = _waited(self._home, self._carrier.listen(request, deadline), left(deadline))
        return BlockingAppHeard(self._home, heard)

    def close(self) -> None:
        """Nothing is kept open."""


class BlockingAppHeard:
    """An answer that does not end, for a thread without a loop."""

    def __init__(self, home: asyncio.AbstractEventLoop, heard: AppHeard) -> None:
        self.head, self._home, self._heard = heard.head, home, heard

    def more(self, deadline: float) -> bytes:
        return _waited(self._home, self._heard.more(deadline), left(deadline))

    def close(self) -> None:
        with suppress(TimeoutError):
            _waited(self._home, self._heard.close(), GRACE_SECONDS)


async def at(home: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """The result of some work that has to be done on another loop, or on this one."""
    if asyncio.get_running_loop() is home:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, home))


def _waited(home: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], seconds: float) -> T:
    """The work has its own deadline; beyond it we wait a little, because its loop may have ended."""
    return asyncio.run_coroutine_threadsafe(work, home).result(seconds + GRACE_SECONDS)


def scope_of(request: OperatorRequest[Any], token: str) -> Message:
    """The request as ASGI has it."""
    path, _, query = request.target.partition("?")
    headers = request.headers(token) | {"Content-Length": str(len(request.body))}
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
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": None,
        "server": None,
    }


def _headers(message: Message) -> dict[str, str]:
    return {bytes(name).decode("latin-1").lower(): bytes(value).decode("latin-1") for name, value in message["headers"]}


async def _never() -> Message:
    never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    return await never
