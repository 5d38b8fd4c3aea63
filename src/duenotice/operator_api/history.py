"""The calls of the timeline: all events of a span of time, past, running and coming, with their moments.

What is over is a fold of the journal's records, with a limit: only the newest events that are over are kept, and a
start looks back over a limited number of records.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct, structs
from starlette.requests import Request
from starlette.responses import Response

from duenotice.clock import Instant
from duenotice.domain import transitions as t
from duenotice.domain.event import Event
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.errors import Malformed, NotFound
from duenotice.operator_api.answers import Resource, shown
from duenotice.operator_api.calls import Call
from duenotice.wire import operator as o
from duenotice.wire.operator import from_domain
from duenotice.wire.operator.to_domain import parse_type
from duenotice.wire.start_requests_json import canonical_id

MOST = 5000
"""Events in one answer; for the others, ask for a shorter span of time."""

MOST_OVER = 10_000
LOOK_BACK = 50_000
"""Records that a start reads to know the past."""

READ_AT_ONCE = 1000


class EventTrace(Struct, frozen=True):
    """One event and its moments; `approved_by` is who did it by name, `outcome` is empty while it lives."""

    event: Event
    raised_at: datetime | None = None
    approved_at: datetime | None = None
    approved_by: str = ""
    ended_at: datetime | None = None
    outcome: str = ""
    reason: str = ""


class EventTraces:
    """The traces of events: of live ones, and of the newest that are over."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._live = {event.id: EventTrace(event) for event in events}
        self._over: OrderedDict[str, EventTrace] = OrderedDict()

    def note(self, records: Sequence[t.Record]) -> None:
        """Take in what was committed."""
        for record in records:
            match record.transition:
                case t.EventRaised(event):
                    at_once = record.at if event.approved_by else None
                    self._live[event.id] = EventTrace(event, record.at, at_once, event.approved_by)
                case t.EventStarted(event) | t.EventPostponed(event) | t.EventMoved(event) | t.EventNarrowed(event):
                    self._live[event.id] = structs.replace(self._live.get(event.id, EventTrace(event)), event=event)
                case t.EventApproved(event_id) if event_id in self._live:
                    trace = self._live[event_id]
                    self._live[event_id] = structs.replace(trace, approved_at=record.at, approved_by=record.actor)
                case t.EventCompleted(event_id):
                    self._end(event_id, record.at, "completed")
                case t.EventCancelled(event_id, reason=reason):
                    self._end(event_id, record.at, "cancelled", reason)
                case t.EventFailed(event_id, reason=reason):
                    self._end(event_id, record.at, "failed", reason)

    def learn(self, before: "EventTraces") -> None:
        """Add older traces; what is already known is newer and stays."""
        for known in (self._live, self._over):
            for event_id in known.keys() & before._live.keys():
                known[event_id] = _joined(before._live[event_id], known[event_id])
        self._over = before._over | self._over

    def all(self) -> tuple[EventTrace, ...]:
        """All of them as they are now; those that are over first."""
        return (*self._over.values(), *self._live.values())

    def find(self, beginning: str) -> list[EventTrace]:
        """Those whose id begins like this."""
        if (exact := self._live.get(beginning) or self._over.get(beginning)) is not None:
            return [exact]
        return [trace for trace in self.all() if trace.event.id.startswith(beginning)]

    def _end(self, event_id: str, at: datetime, outcome: str, reason: str = "") -> None:
        if (trace := self._live.pop(event_id, None)) is None:
            return
        self._over[event_id] = structs.replace(trace, ended_at=at, outcome=outcome, reason=reason)
        if len(self._over) > MOST_OVER:
            self._over.popitem(last=False)


def between(traces: Iterable[EventTrace], since: datetime, until: datetime) -> Iterator[EventTrace]:
    """Those whose trace overlaps a span of time."""
    for trace in traces:
        begin = trace.raised_at or trace.event.started_at or trace.event.not_before
        if begin <= until and (trace.ended_at is None or trace.ended_at >= since):
            yield trace


async def traces_before(engine: Engine, position: int) -> EventTraces:
    """The traces before a position, read from the journal, looking back at most that many records."""
    traces, after = EventTraces(), max(0, position - LOOK_BACK)
    while after < position and (records := await engine.history(after, READ_AT_ONCE)):
        traces.note([record for record in records if record.position <= position])
        after = records[-1].position
    return traces


def _joined(before: EventTrace, now: EventTrace) -> EventTrace:
    """A trace put together from before this start and after it."""
    return structs.replace(
        now,
        raised_at=now.raised_at or before.raised_at,
        approved_at=now.approved_at or before.approved_at,
        approved_by=now.approved_by or before.approved_by,
    )


class Timelines(Resource):
    """The events of a span of time."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._traces, self._began_at = EventTraces(engine.state.events.values()), engine.state.position
        self._past: asyncio.Task[None] | None = None
        engine.on_commit.append(self._traces.note)

    def calls(self) -> list[Call]:
        """The rows of the table."""
        viewer, all_, query = Role.VIEWER, "/v1/timeline", ("from", "to", "type", "vm")
        life, one = {200: o.Life}, "The life of one event, also when over"
        return [
            Call("GET", all_, viewer, self.index, "Events of a span of time", {200: o.Lives}, query=query),
            Call("GET", f"{all_}/{{id}}", viewer, self.show, one, life),
        ]

    async def index(self, request: Request) -> Response:
        """Events with their moments; by default from an hour ago to a week ahead."""
        await self._looked_back()
        now = self._engine.clock.now()
        since = _moment(request, "from", now.at - timedelta(hours=1))
        until = _moment(request, "to", now.at + timedelta(days=7))
        wanted, traces = _wanted(request), self._traces.all()

        def write() -> o.Lives:
            found = list(filter(wanted, between(traces, since, until)))
            items = tuple(_told(trace, now) for trace in found[-MOST:])
            return o.Lives(from_domain.whole_second(now.at), items, len(found) - len(items))

        return await self._written(write)

    async def show(self, request: Request) -> Response:
        """One event with its moments."""
        await self._looked_back()
        text = request.path_params["id"]
        found = self._traces.find(canonical_id(text).upper())
        if len(found) != 1:
            raise NotFound(f"{len(found) or 'No'} events begin with {text}.", hint="Give the whole id.")
        return shown(_told(found[0], self._engine.clock.now()))

    async def _looked_back(self) -> None:
        """The first request reads the past; requests in the meantime wait for the same result."""
        if self._past is None:
            self._past = asyncio.ensure_future(self._look_back())
        await asyncio.shield(self._past)

    async def _look_back(self) -> None:
        self._traces.learn(await traces_before(self._engine, self._began_at))


def _wanted(request: Request) -> Callable[[EventTrace], bool]:
    query = request.query_params
    type_, vm = parse_type(query["type"]) if "type" in query else None, query.get("vm", "")
    return lambda trace: type_ in (None, trace.event.type) and (not vm or vm in trace.event.resources)


def _told(trace: EventTrace, now: Instant) -> o.Life:
    """An event as in other answers, and its moments."""
    return from_domain.life(
        from_domain.event(trace.event, now if trace.ended_at is None else None),
        raised_at=trace.raised_at,
        approved_at=trace.approved_at,
        approved_by=trace.approved_by,
        ended_at=trace.ended_at,
        outcome=trace.outcome,
        reason=trace.reason,
    )


def _moment(request: Request, name: str, default: datetime) -> datetime:
    if (text := request.query_params.get(name)) is None:
        return default
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Malformed(f"{name}={text[:40]} is not a time.", hint="Write it like 2026-01-01T12:00:00Z.") from None
