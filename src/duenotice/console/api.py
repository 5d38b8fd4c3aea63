"""How the console asks the operator's API: the same calls, with the visitor's own token, and no socket in between."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlencode

from starlette.types import ASGIApp, Message

from duenotice.errors import DuenoticeError

PAGE = 1000


class ApiProblem(DuenoticeError):
    """The operator's API refused; its own words."""

    def __init__(self, status: int, title: str, hint: str) -> None:
        super().__init__(title, hint=hint)
        self.status = status


class Api:
    """The operator's API as one visitor may use it."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def get(self, *path: str, **query: Any) -> Any:
        """What is there."""
        return await self._call("GET", path, query, b"")

    async def post(self, *path: str, body: Any = None, **query: Any) -> Any:
        """Do something."""
        return await self._call("POST", path, query, b"" if body is None else json.dumps(body).encode())

    async def all(self, *path: str, most: int = 1_000_000, **query: Any) -> list[Any]:
        """All items of a list, page after page."""
        items: list[Any] = []
        cursor: str | None = ""
        while cursor is not None and len(items) < most:
            page = await self.get(*path, **query, limit=min(PAGE, most), cursor=cursor)
            items += page["items"]
            cursor = page["next"]
            await asyncio.sleep(0)  # VMs are asking too
        return items[:most]

    async def text(self, *path: str, **query: Any) -> str:
        """An answer as it is, byte for byte."""
        status, body = await self._exchange("GET", path, query, b"")
        if status >= 300:
            raise _problem(status, body)
        return body.decode()

    async def feed(self, after: str) -> AsyncIterator[bytes]:
        """The live feed, chunk by chunk, until the reader stops reading."""
        chunks: asyncio.Queue[bytes | None] = asyncio.Queue(1000)

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 300:
                raise ApiProblem(message["status"], "The feed is not open.", "Try again later.")
            if message.get("body"):
                await chunks.put(message["body"])

        async def run() -> None:
            try:
                await self._app(self._scope("GET", ("feed",), {"after": after}), _never, send)
            finally:
                await chunks.put(None)

        task = asyncio.ensure_future(run())
        try:
            while (chunk := await chunks.get()) is not None:
                yield chunk
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, DuenoticeError):
                await task

    async def _call(self, method: str, path: tuple[str, ...], query: Mapping[str, Any], body: bytes) -> Any:
        status, answer = await self._exchange(method, path, query, body)
        if status >= 300:
            raise _problem(status, answer)
        return json.loads(answer) if answer else None

    async def _exchange(
        self, method: str, path: tuple[str, ...], query: Mapping[str, Any], body: bytes
    ) -> tuple[int, bytes]:
        status, parts = 0, bytearray()
        incoming = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Message:
            return next(incoming, {"type": "http.disconnect"})

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            parts.extend(message.get("body", b""))

        await self._app(self._scope(method, path, query), receive, send)
        return status, bytes(parts)

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
    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


def _problem(status: int, body: bytes) -> ApiProblem:
    try:
        said = json.loads(body)
        return ApiProblem(status, str(said["title"]), str(said.get("hint", "")))
    except (ValueError, KeyError, TypeError):
        return ApiProblem(status, f"The operator's API answers {status}.", "Look at the service's log.")
