"""The lives of events: those of live events, and of the newest that are over.

What is over is a fold of the journal's records, with a limit: only the newest events that are over are kept, and the
first who asks makes it look back over a limited number of records.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct, structs

from duenotice.domain import records as t
from duenotice.domain.event import Event
from duenotice.engine.engine import Engine

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

    def over(self) -> tuple[EventTrace, ...]:
        """Those that are over, the first to end first."""
        return tuple(self._over.values())

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


class EventLives:
    """The traces of one engine's events, for all doors together."""

    def __init__(self, engine: Engine) -> None:
        self._traces, self._began_at = EventTraces(engine.state.events.values()), engine.state.position
        self._past: asyncio.Task[None] | None = None
        engine.on_commit.append(self._traces.note)

    async def traces(self, engine: Engine) -> EventTraces:
        """All of them. The first request reads the past; requests in the meantime wait for the same result."""
        if self._past is None or (self._past.done() and self._past.exception() is not None):
            self._past = asyncio.ensure_future(self._look_back(engine))
        await asyncio.shield(self._past)
        return self._traces

    async def _look_back(self, engine: Engine) -> None:
        self._traces.learn(await traces_before(engine, self._began_at))


def lives_of(engine: Engine) -> EventLives:
    """The lives of an engine's events; every door that asks gets the same, so that they are kept once."""
    return engine.kept_once(EventLives, lambda: EventLives(engine))
