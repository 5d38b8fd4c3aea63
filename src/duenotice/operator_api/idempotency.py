"""The same POST twice is done once: answers are kept by `Idempotency-Key`, in memory, for a day.

A restart forgets them: a client that must be sure across one looks at what there is before it asks again.
"""

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from duenotice.clock import monotonic
from duenotice.errors import Malformed, Refused

HEADER = "idempotency-key"
KEPT_SECONDS = 24 * 3600.0
MOST_KEYS = 10_000
MOST_BYTES = 64 * 1024 * 1024
KEY = re.compile(r"[!-~]{1,255}")


class _Kept(NamedTuple):
    request: bytes
    answer: "asyncio.Future[Response]"
    until: float


class Answers:
    """What was answered to which key of which token; bounded, oldest forgotten first (S24)."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._bytes = 0
        self._now = now

    async def once(self, request: Request, do: Callable[[], Awaitable[Response]]) -> Response:
        """The answer to a request, done now or before; who comes while it is being done waits for it."""
        text = request.headers.get(HEADER)
        if text is None or request.method != "POST":
            return await do()
        if not KEY.fullmatch(text):
            raise Malformed("The Idempotency-Key will not do.", hint="Use 1 to 255 letters, digits and signs.")
        key, digest = (request.state.actor, text), await _digest(request)
        self._forget()
        kept = self._kept.get(key)
        if kept is None:
            return await self._first(key, digest, do)
        if kept.request != digest:
            raise Refused("This Idempotency-Key was used for another request.", hint="Use a new key for each request.")
        return _again(await asyncio.shield(kept.answer))

    async def _first(self, key: tuple[str, str], digest: bytes, do: Callable[[], Awaitable[Response]]) -> Response:
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._kept[key] = _Kept(digest, answer, self._now() + KEPT_SECONDS)
        try:
            response = await do()
        except BaseException as error:
            # A refusal has changed nothing and may be asked for again; those who wait are told the same.
            del self._kept[key]
            answer.set_exception(error if isinstance(error, Exception) else ConnectionError())
            answer.exception()
            raise
        answer.set_result(response)
        if response.headers.get("cache-control") == "no-store":  # a secret: asked for again it is another one
            del self._kept[key]
            return response
        self._bytes += len(response.body)
        return response

    def _forget(self) -> None:
        while self._kept:
            key, kept = next(iter(self._kept.items()))
            full = len(self._kept) > MOST_KEYS or self._bytes > MOST_BYTES
            if not kept.answer.done() or (kept.until > self._now() and not full):
                return
            del self._kept[key]
            self._bytes -= len(kept.answer.result().body)


def _again(response: Response) -> Response:
    copy = Response(response.body, response.status_code, dict(response.headers))
    copy.headers["Idempotent-Replayed"] = "true"
    return copy


async def _digest(request: Request) -> bytes:
    head = f"{request.url.path}?{request.url.query}\n".encode()
    return hashlib.sha256(head + await request.body()).digest()
