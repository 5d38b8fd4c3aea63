"""The routes of the operator's REST API, one `Route` per path: raise, approve and cancel events, apply fleets."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import uuid4

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from duenotice import __version__
from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.event import EventType
from duenotice.domain.notice import LONGEST_PREDICTION_SECONDS
from duenotice.engine.engine import Engine
from duenotice.engine.ticker import Ticker
from duenotice.errors import DuenoticeError, Malformed, NotFound
from duenotice.operator_api.problems import on_error, problem
from duenotice.operator_api.tokens import ADMIN, Gate
from duenotice.wire import operator_json
from duenotice.wire.document_json import format_iso
from duenotice.wire.duration import parse_duration
from duenotice.wire.fleet_toml import read_fleet
from duenotice.wire.start_requests_json import canonical_id

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]

_OPERATIONS = {"restart": EventType.REBOOT, "redeploy": EventType.REDEPLOY, "delete": EventType.TERMINATE}
_HINTS = {
    404: "The README lists the calls.",
    405: "Use a method that Allow names.",
    413: "Send less at a time.",
}
LARGEST_BODY = 1024 * 1024
LARGEST_FLEET = 256 * 1024 * 1024
_HOST_ACTS = ("degrade", "fail", "repair")


class _Advance(msgspec.Struct, forbid_unknown_fields=True):
    """How much time is to pass."""

    by: str


class _Degrade(msgspec.Struct, forbid_unknown_fields=True):
    """How far ahead a failure is predicted."""

    notice: str = ""


class OperatorApi:
    """Translates requests to commands and records to JSON."""

    def __init__(self, engine: Engine, ticker: Ticker, token: str) -> None:
        self._engine = engine
        self._ticker = ticker
        self._gate = Gate(token)

    def app(self) -> Starlette:
        """The ASGI application."""
        routes = [
            Route("/livez", self._alive),
            Route("/readyz", self._ready),
            Route("/version", self._version),
            Route("/v1/clock", self._guarded(self._clock)),
            Route("/v1/clock/advance", self._guarded(self._advance), methods=["POST"]),
            Route("/v1/fleet", self._guarded(self._apply_fleet), methods=["PUT"]),
            Route("/v1/events", self._guarded(self._events), methods=["GET", "POST"]),
            Route("/v1/events/{id}", self._guarded(self._show_event)),
            Route("/v1/events/{id}/approve", self._guarded(self._approve), methods=["POST"]),
            Route("/v1/events/{id}/cancel", self._guarded(self._cancel), methods=["POST"]),
            Route("/v1/vms/{name}/{operation}", self._guarded(self._operate), methods=["POST"]),
            Route("/v1/hosts/{name}/{operation}", self._guarded(self._host), methods=["POST"]),
        ]
        handlers: dict[Any, Any] = {
            DuenoticeError: on_error,
            HTTPException: _on_http_error,
            Exception: on_error,
        }
        return Starlette(routes=routes, exception_handlers=handlers)

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: Request) -> Response:
            return self._gate.refuse(request) or await handler(request)

        return guarded

    async def _alive(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, _: Request) -> Response:
        if self._engine.broken is not None:
            return problem(503, self._engine.broken.message, self._engine.broken.hint)
        return JSONResponse({"status": "ok"})

    async def _version(self, _: Request) -> Response:
        return JSONResponse({"version": __version__})

    async def _clock(self, _: Request) -> Response:
        clock = self._engine.clock
        return JSONResponse({"clock": clock.name, "now": format_iso(clock.now().at)})

    async def _advance(self, request: Request) -> Response:
        asked = await _body(request, _Advance)
        await self._ticker.advance(parse_duration(asked.by))
        return await self._clock(request)

    async def _apply_fleet(self, request: Request) -> Response:
        try:
            text = (await _read(request, LARGEST_FLEET)).decode()
        except UnicodeDecodeError:
            raise Malformed("The fleet is not UTF-8 text.", hint="Send the fleet file as it is.") from None
        # In a thread: a large fleet takes seconds to read, and VMs go on asking.
        declaration = await asyncio.to_thread(read_fleet, text)
        records = await self._engine.submit(c.ApplyFleet(declaration), ADMIN)
        return JSONResponse({"changes": len(records), "vms": len(self._engine.publisher.by_name)})

    async def _events(self, request: Request) -> Response:
        if request.method == "POST":
            return await self._schedule(request)
        return JSONResponse([operator_json.event_to_json(event) for event in self._engine.publisher.events()])

    async def _schedule(self, request: Request) -> Response:
        asked = await _body(request, operator_json.ScheduleRequest)
        command = c.ScheduleEvent(
            event_id=_new_id(),
            type=operator_json.parse_type(asked.type),
            resources=asked.resources,
            not_before=operator_json.parse_moment(asked.not_before),
            description=asked.description,
            duration=asked.duration,
            cause=operator_json.parse_cause(asked.cause),
        )
        return await self._raise(command)

    async def _show_event(self, request: Request) -> Response:
        event_id = canonical_id(request.path_params["id"])
        for event in self._engine.publisher.events():
            if event.id == event_id:
                return JSONResponse(operator_json.event_to_json(event))
        raise NotFound(f"There is no event {event_id}.", hint="It may be over; GET /v1/events lists the live ones.")

    async def _approve(self, request: Request) -> Response:
        await self._engine.submit(c.ApproveEvents((canonical_id(request.path_params["id"]),)), ADMIN)
        return Response(status_code=204)

    async def _cancel(self, request: Request) -> Response:
        await self._engine.submit(c.CancelEvent(canonical_id(request.path_params["id"])), ADMIN)
        return Response(status_code=204)

    async def _operate(self, request: Request) -> Response:
        name, operation = request.path_params["name"], request.path_params["operation"]
        if operation == "evict":
            return await self._raise(c.EvictVm(_new_id(), name))
        if operation not in _OPERATIONS:
            raise NotFound(f"A VM cannot {operation!r}.", hint=f"Use {', '.join(_OPERATIONS)} or evict.")
        return await self._raise(c.OperateVm(_new_id(), name, _OPERATIONS[operation]))

    async def _host(self, request: Request) -> Response:
        name, operation = request.path_params["name"], request.path_params["operation"]
        if operation == "degrade":
            asked = await _body(request, _Degrade)
            notice = parse_duration(asked.notice) if asked.notice else float(LONGEST_PREDICTION_SECONDS)
            return await self._raise(c.DegradeHost(name, notice, _new_id()))
        if operation == "fail":
            return await self._raise(c.FailHost(name, _new_id()))
        if operation == "repair":
            return await self._raise(c.RepairHost(name))
        raise NotFound(f"A host cannot {operation!r}.", hint=f"Use {', '.join(_HOST_ACTS)}.")

    async def _raise(self, command: c.Command) -> Response:
        """Submit what may raise events, and answer with those; none when nobody listens (F03)."""
        records = await self._engine.submit(command, ADMIN)
        raised = [r.transition.event for r in records if isinstance(r.transition, t.EventRaised)]
        return JSONResponse([operator_json.event_to_json(event) for event in raised], 201 if raised else 200)


def _new_id() -> str:
    return str(uuid4()).upper()


async def _body(request: Request, kind: type[T]) -> T:
    body = await _read(request, LARGEST_BODY) or b"{}"
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"The body will not do: {error}.", hint="Send JSON with the keys of this call.") from None


async def _read(request: Request, most: int) -> bytes:
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise HTTPException(413, f"The body is larger than {most} bytes.")
    except ClientDisconnect:
        raise Malformed("The request ended before its body.", hint="Send all of it.") from None
    return bytes(body)


async def _on_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, error.detail, _HINTS.get(error.status_code, ""), dict(error.headers or {}))
