"""The Azure door as one ASGI application, made from the table of its calls."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from uuid import uuid4

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duenotice.azure_api.compute import AvailabilitySets, Policies, ScaleSets, VirtualMachines
from duenotice.azure_api.impacts import Impacts
from duenotice.azure_api.maintenance import MaintenanceCalls
from duenotice.azure_api.operations import Operations
from duenotice.azure_api.resource import AnyCase, AzureCall, AzureResource, Handle
from duenotice.azure_api.resource_graph import ResourceGraph
from duenotice.azure_api.shape import AzureError, error_response, on_error, on_http_error, too_large
from duenotice.azure_api.sign_in import AzureGate, SignIn
from duenotice.azure_api.signing_keys import SigningKeys
from duenotice.bounds import LARGE_BYTES, check_length
from duenotice.engine.engine import Engine
from duenotice.errors import DuenoticeError, Unavailable


class AzureApi:
    """Brings the calls of all resources together, each behind the gate."""

    def __init__(self, engine: Engine, keys: SigningKeys) -> None:
        self.operations, self._gate = Operations(engine), AzureGate(engine, keys)
        self._place, self._large = AzureResource(engine), LargeAnswers()
        self.calls: list[AzureCall] = [
            *SignIn(engine, keys).calls(),
            *VirtualMachines(engine, self.operations).calls(),
            *Policies(engine).calls(),
            *ResourceGraph(engine).calls(),
            *ScaleSets(engine, self.operations).calls(),
            *VirtualMachines(engine, self.operations, of_scale_sets=True).calls(),
            *AvailabilitySets(engine).calls(),
            *MaintenanceCalls(engine, self.operations).calls(),
            *Impacts(engine, self.operations).calls(),
            *self.operations.calls(),
        ]

    def close(self) -> None:
        """Answer the polls that are held."""
        self.operations.close()

    def app(self) -> ASGIApp:
        """The ASGI application."""
        handlers = {DuenoticeError: on_error, HTTPException: on_http_error, Exception: on_error}
        return Named(Starlette(routes=[*self._routes()], exception_handlers=handlers))

    def _routes(self) -> Iterable[AnyCase]:
        by_path: dict[str, dict[str, AzureCall]] = {}
        for call in self.calls:
            by_path.setdefault(call.path, {})[call.method] = call
        return (AnyCase(path, self._dispatch(calls), list(calls)) for path, calls in by_path.items())

    def _dispatch(self, calls: dict[str, AzureCall]) -> Handle:
        async def dispatch(request: Request) -> Response:
            call = calls["GET" if request.method == "HEAD" else request.method]
            if call.role is not None:
                self._gate.admit(request, call.role)
                self._place.check_place(request)
            check_length(request.headers.get("content-length", ""), call.bounds)
            request.state.bounds = call.bounds
            if call.bounds.answer <= LARGE_BYTES:
                answer = await call.handler(request)
                if call.method == "GET" and len(answer.body) > call.bounds.answer:
                    raise too_large("What was asked for", call.bounds.answer, "A list has it: each page may be larger.")
                return answer
            return await self._large.answered(request.state.token.id, partial(call.handler, request))

        return dispatch


MOST_LARGE, MOST_LARGE_OF_ONE = 16, 4
"""Answers under way that may be large, of all tokens together and of one: until the last byte of them is sent."""
PATIENCE_SECONDS = 20.0
"""How long a request waits for its place."""


class LargeAnswers:
    """Places for answers that may be large, so that those who do not read cost a bounded buffer (S24)."""

    def __init__(self) -> None:
        self._taken, self._waiting = Counter[str](), set[asyncio.Future[None]]()

    async def answered(self, token_id: str, work: Callable[[], Awaitable[Response]]) -> Response:
        """The answer of this work, which keeps its place until it was sent."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._take(token_id)
        except TimeoutError:
            raise Unavailable("Too many large answers are under way.", hint="Read those that were asked for.") from None
        try:
            return PlacedAnswer(await work(), partial(self._leave, token_id))
        except BaseException:
            self._leave(token_id)
            raise

    async def _take(self, token_id: str) -> None:
        while self._taken.total() >= MOST_LARGE or self._taken[token_id] >= MOST_LARGE_OF_ONE:
            left = asyncio.get_running_loop().create_future()
            self._waiting.add(left)
            try:
                await left
            finally:
                self._waiting.discard(left)
        self._taken[token_id] += 1

    def _leave(self, token_id: str) -> None:
        self._taken[token_id] -= 1
        self._taken += Counter()  # who has no place is forgotten
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)


class PlacedAnswer(Response):
    """An answer that leaves its place when it was sent, or cannot be."""

    def __init__(self, answer: Response, leave: Callable[[], None]) -> None:
        self._answer, self._leave = answer, leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await self._answer(scope, receive, send)
        finally:
            self._leave()


LONGEST_TARGET = 4096
"""Bytes of a path, and of a query."""
LONGEST_NAME = 256
"""Bytes of what we say again in answers and tokens: a host, an id of a request."""
_SAID_AGAIN = (b"host", b"x-ms-client-request-id", b"x-ms-correlation-request-id")


def _too_long(scope: Scope) -> str:
    """What of a request is too long to be looked at any closer; empty: nothing (S29)."""
    if max(len(scope["raw_path"]), len(scope["query_string"])) > LONGEST_TARGET:
        return f"The path or the query has more than {LONGEST_TARGET} bytes."
    for name, value in scope["headers"]:
        if name in _SAID_AGAIN and len(value) > LONGEST_NAME:
            return f"The header {name.decode()} has more than {LONGEST_NAME} bytes."
    return ""


class Named:
    """Gives each answer an id, and the id that the client gave its request (M04)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and the answer back with its ids."""
        if too_long := _too_long(scope):
            await error_response(400, AzureError("InvalidRequest", too_long))(scope, receive, send)
            return
        asked, ours = Headers(scope=scope), str(uuid4())

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["x-ms-request-id"] = ours
                headers["x-ms-correlation-request-id"] = asked.get("x-ms-correlation-request-id", ours)
                if "x-ms-client-request-id" in asked:
                    headers["x-ms-client-request-id"] = asked["x-ms-client-request-id"]
            await send(message)

        await self._app(scope, receive, named)
