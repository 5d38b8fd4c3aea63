"""The operator's REST API as one ASGI application, made from the table of its calls."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from duenotice.bounds import CallBounds, body_of
from duenotice.clock import boot_micros
from duenotice.engine.engine import Engine
from duenotice.engine.followers import Followers
from duenotice.engine.ticker import Ticker
from duenotice.errors import DuenoticeError, Unavailable
from duenotice.operator_api.answers import KeptAnswers, on_error, problem
from duenotice.operator_api.attention import Attentions
from duenotice.operator_api.audit import Audit
from duenotice.operator_api.azure import AzureDoors, TellAzure
from duenotice.operator_api.calls import Call, Handler, check_query
from duenotice.operator_api.clock import Clocks
from duenotice.operator_api.counting import KnownNumbers
from duenotice.operator_api.event_table import EventTables
from duenotice.operator_api.events import Events
from duenotice.operator_api.feed import Feed
from duenotice.operator_api.fleet import Fleets
from duenotice.operator_api.follow import FollowCalls
from duenotice.operator_api.groups import Groups
from duenotice.operator_api.history import Timelines
from duenotice.operator_api.hosts import Hosts
from duenotice.operator_api.large_body import LargeBody
from duenotice.operator_api.maintenances import Maintenances
from duenotice.operator_api.monitoring import Metrics, Probes
from duenotice.operator_api.node_list import NodeList
from duenotice.operator_api.node_troubles import Trouble, troubles
from duenotice.operator_api.nodes import Nodes
from duenotice.operator_api.openapi import openapi_call
from duenotice.operator_api.pasts import Pasts
from duenotice.operator_api.paths import Paths
from duenotice.operator_api.search import Searches
from duenotice.operator_api.subscriptions import Subscriptions
from duenotice.operator_api.tokens import Gate, Tokens, comes_with_token
from duenotice.operator_api.vm_table import VmTables
from duenotice.operator_api.vms import FaultPort, SilentFor, VmFaults, Vms
from duenotice.push.service import PushMeasure

UNCOUNTED = 1024 * 1024
"""Bytes of a body that needs no place of its own; requests have places."""
PATIENCE_SECONDS = 5.0
"""How long a large body waits before it is read; less than its client has time to send it."""


class OperatorApi:
    """Brings the calls of all resources together, each behind the gate."""

    def __init__(
        self,
        engine: Engine,
        ticker: Ticker,
        silent_for: SilentFor = lambda _: None,
        faults: FaultPort | None = None,
        fleet_problem: Callable[[], str | None] = lambda: None,
        followers: Followers | None = None,
        nodes: Nodes | None = None,
        node: str = "node",
        azure: TellAzure = lambda: None,
        pushes: Callable[[], Sequence[PushMeasure]] = tuple,
    ) -> None:
        self.feed, self.gate = (
            Feed(engine),
            Gate(lambda: engine.state.tokens, (lambda _: "") if nodes is None else nodes.vouched_for),
        )
        self._engine, self._nodes, self._answers = engine, nodes, KeptAnswers(engine.answered)
        self._large = asyncio.Lock()
        followers = followers or Followers(engine.state.position)
        follow = FollowCalls(engine, followers)
        way = None if nodes is None else nodes.way

        def found() -> Iterator[Trouble]:
            return troubles(engine, followers, follow.places.readers(), way, boot_micros())

        self.calls: list[Call] = [
            *Probes(engine, fleet_problem, found).calls(),
            *_vms(engine, silent_for),
            *VmFaults(engine, faults).calls(),
            *_in_numbers(engine, self.feed, fleet_problem),
            *(call for kind in (Groups, Hosts, Events, Maintenances) for call in kind(engine).calls()),
            *Clocks(engine, ticker).calls(),
            *_admitted(engine, azure),
            *_reports(engine, self.feed, pushes),
            *follow.calls(),
            *NodeList(engine, node, followers, follow.places.readers, found).calls(),
            *(() if nodes is None else nodes.calls()),
        ]
        self.calls.append(openapi_call(tuple(self.calls)))

    def app(self) -> ASGIApp:
        """The ASGI application."""
        by_path: dict[str, dict[str, Call]] = {}
        for call in self.calls:
            by_path.setdefault(call.path, {})[call.method] = call
        endpoints = {path: _Endpoint(self._dispatch(calls), _methods(calls)) for path, calls in by_path.items()}
        return _Doorway(endpoints)

    async def _refusal(self, request: Request, call: Call) -> Response | None:
        """Why nobody is let in, or None. A token may have been made at another node just now."""
        if call.role is None:
            return call.refuse(request)
        refusal = self.gate.refuse(request, call.role)
        is_settled = refusal is None and call.method != "GET"
        if self._nodes is None or is_settled or not comes_with_token(request):
            return refusal
        await self._nodes.caught_up(call)
        return self.gate.refuse(request, call.role)

    def _dispatch(self, calls: dict[str, Call]) -> Handler:
        async def dispatch(request: Request) -> Response:
            call = calls["GET" if request.method == "HEAD" else request.method]
            if (refusal := await self._refusal(request, call)) is not None:
                return refusal
            check_query(request, call)
            if call.method == "GET":
                return await self._answer(request, call)
            async with self._place_for(request, call.bounds) as is_large:
                request.state.aside = self._engine.aside
                if is_large and call.bounds.on_disk:
                    return await self._answer_large(request, call)
                request.state.body = await body_of(request.receive, _announced(request), call.bounds)
                return await self._answer(request, call)

        return dispatch

    async def _answer_large(self, request: Request, call: Call) -> Response:
        request.state.body = body = LargeBody()
        try:
            await body.fill(request.receive, _announced(request), call.bounds)
            return await self._answer(request, call)
        finally:
            await asyncio.to_thread(body.close)  # the last to let go of 256 MB gives them back

    async def _answer(self, request: Request, call: Call) -> Response:
        async def answer() -> Response:
            return await self._answers.once(request, lambda: call.handler(request))

        if self._nodes is None:
            return await answer()
        if call.method == "GET" or call.here:
            return self._nodes.signed(await answer())
        return await self._nodes.answer(request, answer)

    @asynccontextmanager
    async def _place_for(self, request: Request, bounds: CallBounds) -> AsyncIterator[bool]:
        """One large body is there at a time, from before it is read until its answer is made (S24); tells if it is."""
        announced = _announced(request)
        if bounds.body <= UNCOUNTED or (announced.isdecimal() and len(announced) <= 18 and int(announced) <= UNCOUNTED):
            yield False
            return
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._large.acquire()
        except TimeoutError:
            raise Unavailable("Another large request is being read.", hint="Try again when it is done.") from None
        try:
            yield True
        finally:
            self._large.release()


class _Endpoint(NamedTuple):
    """All calls of one path."""

    dispatch: Handler
    methods: frozenset[str]


def _methods(calls: dict[str, Call]) -> frozenset[str]:
    return frozenset((*calls, "HEAD") if "GET" in calls else calls)


class _Doorway:
    """Answers the calls that there are. All else, such as a path that nobody knows, is answered by Starlette.

    Its routes and layers around each call would take longer than the call.
    """

    def __init__(self, endpoints: dict[str, _Endpoint]) -> None:
        self._paths = Paths(endpoints)
        routes = [Route(path, each.dispatch, methods=list(each.methods)) for path, each in endpoints.items()]
        handlers = {DuenoticeError: on_error, HTTPException: _on_http_error, Exception: on_error}
        self._starlette = Starlette(routes=routes, exception_handlers=handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        found = self._paths.find(scope["path"]) if scope["type"] == "http" else None
        if found is None or scope["method"] not in found.what.methods:
            await self._starlette(scope, receive, send)
            return
        scope["path_params"] = found.names
        request = Request(scope, receive, send)
        try:
            response = await found.what.dispatch(request)
        except HTTPException as error:
            response = await _on_http_error(request, error)
        except DuenoticeError as error:
            response = await on_error(request, error)
        except Exception as error:
            await (await on_error(request, error))(scope, receive, send)
            raise  # the server logs it
        await response(scope, receive, send)


def _vms(engine: Engine, silent_for: SilentFor) -> list[Call]:
    """VMs one by one, in a table, and by name."""
    return [*Vms(engine, silent_for).calls(), *VmTables(engine, silent_for).calls(), *Searches(engine).calls()]


def _admitted(engine: Engine, azure: TellAzure) -> list[Call]:
    """Who may ask, and who is told."""
    return [*AzureDoors(engine, azure).calls(), *Tokens(engine).calls(), *Subscriptions(engine).calls()]


def _in_numbers(engine: Engine, feed: Feed, problem: Callable[[], str | None]) -> list[Call]:
    """The whole fleet, counted once for all who ask."""
    numbers = KnownNumbers()
    return [*Fleets(engine, feed, problem, numbers).calls(), *Attentions(engine, numbers).calls()]


def _reports(engine: Engine, feed: Feed, pushes: Callable[[], Sequence[PushMeasure]]) -> list[Call]:
    """What has happened, and how much."""
    past = (call for kind in (Timelines, Pasts, EventTables) for call in kind(engine).calls())
    return [*past, *Audit(engine, feed).calls(), *Metrics(engine, feed, pushes).calls()]


async def _on_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, error.detail, "GET /openapi.json lists every call.", dict(error.headers or {}))


def _announced(request: Request) -> str:
    return request.headers.get("content-length", "")
