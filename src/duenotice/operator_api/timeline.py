"""The route of the timeline: all events of a span of time, past, running and coming."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice.clock import Instant
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.errors import Malformed, NotFound
from duenotice.operator_api.lives import Life, Lives, between, lives_before
from duenotice.operator_api.looking import written
from duenotice.operator_api.table import Call
from duenotice.wire import operator_shapes as shapes
from duenotice.wire.operator_json import event_to_json, parse_type
from duenotice.wire.start_requests_json import canonical_id
from duenotice.wire.times import format_iso

MOST = 5000
"""Events in one answer; for the others, ask for a shorter span of time."""


class Timeline:
    """Translates from lives to JSON."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._clock = engine, engine.clock
        self._lives, self._began_at = Lives(engine.state.events.values()), engine.state.position
        self._past: asyncio.Task[None] | None = None
        engine.on_commit.append(self._lives.note)

    def calls(self) -> list[Call]:
        """The rows of the table."""
        viewer, query = Role.VIEWER, ("from", "to", "type", "vm")
        lives, life = {200: shapes.Lives}, {200: shapes.Life}
        return [
            Call("GET", "/v1/timeline", viewer, self.index, "Events of a span of time", None, query, lives),
            Call("GET", "/v1/timeline/{id}", viewer, self.show, "The life of one event, also when over", answers=life),
        ]

    async def index(self, request: Request) -> Response:
        """Events with their moments; by default from an hour ago to a week ahead."""
        await self._looked_back()
        now = self._clock.now()
        since = _moment(request, "from", now.at - timedelta(hours=1))
        until = _moment(request, "to", now.at + timedelta(days=7))
        wanted, lives = _wanted(request), self._lives.all()

        def write() -> shapes.Lives:
            found = list(filter(wanted, between(lives, since, until)))
            items = [life_to_json(life, now) for life in found[-MOST:]]
            return {"now": format_iso(now.at), "items": items, "left_out": len(found) - len(items)}

        return await written(self._engine, write)

    async def show(self, request: Request) -> Response:
        """One event with its moments."""
        await self._looked_back()
        text = request.path_params["id"]
        found = self._lives.find(canonical_id(text).upper())
        if len(found) != 1:
            raise NotFound(f"{len(found) or 'No'} events begin with {text}.", hint="Give the whole id.")
        return JSONResponse(life_to_json(found[0], self._clock.now()))

    async def _looked_back(self) -> None:
        """The first request reads the past; requests in the meantime wait for the same result."""
        if self._past is None:
            self._past = asyncio.ensure_future(self._look_back())
        await asyncio.shield(self._past)

    async def _look_back(self) -> None:
        self._lives.learn(await lives_before(self._engine, self._began_at))


def _wanted(request: Request) -> Callable[[Life], bool]:
    query = request.query_params
    type_, vm = parse_type(query["type"]) if "type" in query else None, query.get("vm", "")
    return lambda life: type_ in (None, life.event.type) and (not vm or vm in life.event.resources)


def life_to_json(life: Life, now: Instant) -> shapes.Life:
    """An event as in other answers, and its moments."""
    return {
        **event_to_json(life.event, now if life.ended_at is None else None),
        "raised_at": _text(life.raised_at),
        "approved_at": _text(life.approved_at),
        "approved_by": life.approved_by or life.event.approved_by or None,
        "ended_at": _text(life.ended_at),
        "outcome": life.outcome or None,
        "reason": life.reason,
    }


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else format_iso(moment)


def _moment(request: Request, name: str, default: datetime) -> datetime:
    if (text := request.query_params.get(name)) is None:
        return default
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Malformed(f"{name}={text[:40]} is not a time.", hint="Write it like 2026-01-01T12:00:00Z.") from None
