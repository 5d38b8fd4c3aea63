"""How the console asks the operator's API: the same calls, with the visitor's own token, and no socket in between."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

import msgspec
from starlette.types import ASGIApp, Message

from duenotice.console.hints import PAGES
from duenotice.errors import DuenoticeError, Malformed, NotFound, Refused
from duenotice.wire.problem_json import hint_in

PAGE = 1000
FEED_QUEUE = 1000

Chunks = asyncio.Queue[bytes | None]
"""What a feed sends; None is its end."""


class ApiProblem(DuenoticeError):
    """The operator's API refused; with its own message."""

    def __init__(self, message: str = "", *, hint: str = "", status: int = 500) -> None:
        super().__init__(message, hint=hint)
        self.status = status

    @property
    def kind(self) -> type[DuenoticeError]:
        """The same error without HTTP."""
        return {400: Malformed, 404: NotFound}.get(self.status, Refused)


class Api:
    """The operator's API as one visitor may use it."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token
        self._home = asyncio.get_running_loop()

    async def get(self, *path: str, **query: Any) -> Any:
        """The answer to a GET."""
        return await self.call("GET", path, query)

    async def post(self, *path: str, body: Any = None, **query: Any) -> Any:
        """Do something."""
        return await self.call("POST", path, query, body)

    async def all(self, *path: str, most: int = 1_000_000, **query: Any) -> list[Any]:
        """All items of a list, page after page."""
        items: list[Any] = []
        cursor: str | None = ""
        while cursor is not None and len(items) < most:
            page = await self.get(*path, **query, limit=min(PAGE, most), cursor=cursor)
            items += page["items"]
            cursor = page["next"]
            await asyncio.sleep(0)  # let polls of VMs go ahead
        return items[:most]

    async def text(self, *path: str, **query: Any) -> str:
        """An answer as it is, byte for byte."""
        return (await self._exchange("GET", path, query, b"")).decode()

    async def call(self, method: str, path: tuple[str, ...], query: Mapping[str, Any], body: Any = None) -> Any:
        """Any call, JSON in and out."""
        answer = await self._exchange(method, path, query, b"" if body is None else json.dumps(body).encode())
        return msgspec.json.decode(answer) if answer else None

    async def ask(self, method: str, target: str, body: Any = None) -> Any:
        """Any call by its target, `/v1/vms?limit=1`, with its problems as errors without HTTP."""
        path, _, query = target.removeprefix("/v1/").partition("?")
        try:
            return await self.call(method, tuple(map(unquote, path.split("/"))), dict(parse_qsl(query)), body)
        except ApiProblem as problem:
            raise problem.kind(problem.message, hint=problem.hint) from None

    @asynccontextmanager
    async def feed(self, after: str) -> AsyncIterator[Chunks]:
        """The live feed; raises when it is not open."""
        chunks: Chunks = asyncio.Queue(FEED_QUEUE)
        opened: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                opened.set_result(message["status"])
            elif message.get("body"):
                await chunks.put(message["body"])

        async def run() -> None:
            try:
                await self._app(self._scope("GET", ("feed",), {"after": after}), _never, send)
            finally:
                await chunks.put(None)

        task = asyncio.ensure_future(run())
        try:
            if (status := await opened) >= 300:
                raise ApiProblem("The live feed is not open.", hint="The page tries again.", status=status)
            yield chunks
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _exchange(self, method: str, path: tuple[str, ...], query: Mapping[str, Any], body: bytes) -> bytes:
        """The API runs on one loop; pages may be made on another."""
        exchange = self._exchange_at_home(method, path, query, body)
        if asyncio.get_running_loop() is self._home:
            return await exchange
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(exchange, self._home))

    async def _exchange_at_home(
        self, method: str, path: tuple[str, ...], query: Mapping[str, Any], body: bytes
    ) -> bytes:
        status, parts = 0, bytearray()
        incoming = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Message:
            return next(incoming, {"type": "http.disconnect"})

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            parts.extend(message.get("body", b""))

        await self._app(self._scope(method, path, query), receive, send)
        if status >= 300:
            raise _problem(status, bytes(parts))
        return bytes(parts)

    def _scope(self, method: str, path: tuple[str, ...], query: Mapping[str, Any]) -> dict[str, Any]:
        given = {key: str(value) for key, value in query.items() if value is not None and value != ""}
        target = "/v1/" + "/".join(path)
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": target,
            "raw_path": quote(target).encode(),
            "query_string": urlencode(given).encode(),
            "root_path": "",
            "headers": [(b"authorization", f"Bearer {self._token}".encode()), (b"content-type", b"application/json")],
            "client": None,
            "server": None,
        }


async def _never() -> Message:
    never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    return await never


def _problem(status: int, body: bytes) -> ApiProblem:
    try:
        said = json.loads(body)
        return ApiProblem(str(said["title"]), hint=hint_in(said, PAGES), status=status)
    except (ValueError, KeyError, TypeError, AttributeError):
        return ApiProblem(f"The operator's API answers {status}.", hint="Look at the service's log.", status=status)
