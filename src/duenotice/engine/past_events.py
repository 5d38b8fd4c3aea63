"""The past of events as the journal tells it, in short: kept up to a limit, and read on from where it was left.

Reading is off the loop, a piece at a time; who asks meanwhile waits for the same piece.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct, structs

from duenotice.domain import records as t
from duenotice.domain.event import EventType
from duenotice.engine.engine import Engine

MOST_EVENTS = 20_000
LOOK_BACK = 200_000
"""Records that are read to know the past."""

READ_AT_ONCE = 1000


class PastEvent(Struct, frozen=True, gc=False):
    """One event: what it was, which VMs it hit, what they were promised, and how it ended."""

    id: str
    type: EventType
    scope: str
    vms: tuple[str, ...]
    promised_at: datetime
    raised_at: datetime | None = None
    approved_at: datetime | None = None
    approved_by: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: str = ""


_OUTCOMES: dict[type, str] = {
    t.EventCompleted: "completed",
    t.EventCancelled: "cancelled",
    t.EventFailed: "failed",
}


class PastEvents:
    """The fold: newest events, and since when all are known (None: since the beginning)."""

    def __init__(self) -> None:
        self.complete_since: datetime | None = None
        self._events: OrderedDict[str, PastEvent] = OrderedDict()

    def all(self) -> tuple[PastEvent, ...]:
        """All of them, oldest first."""
        return tuple(self._events.values())

    def note(self, records: Iterable[t.Record]) -> None:
        """Take in what has happened."""
        for record in records:
            self._note(record)
        while len(self._events) > MOST_EVENTS:
            _, oldest = self._events.popitem(last=False)
            self.complete_since = oldest.raised_at or self.complete_since

    def _note(self, record: t.Record) -> None:
        match record.transition:
            case t.EventRaised(event):
                at_once = record.at if event.approved_by else None
                self._events[event.id] = PastEvent(
                    event.id, event.type, event.scope, event.resources, event.not_before, record.at, at_once,
                    event.approved_by, event.started_at,
                )  # fmt: skip
            case t.EventStarted(event):
                self._change(event.id, started_at=record.at)
            case t.EventApproved(event_id, by=by):
                self._change(event_id, approved_at=record.at, approved_by=by)
            case t.EventCompleted(event_id) | t.EventCancelled(event_id) | t.EventFailed(event_id):
                self._change(event_id, ended_at=record.at, outcome=_OUTCOMES[type(record.transition)])

    def _change(self, event_id: str, **fields: object) -> None:
        if event_id in self._events:
            self._events[event_id] = structs.replace(self._events[event_id], **fields)


class PastReader:
    """Reads the journal once, and then only what is new."""

    def __init__(self) -> None:
        self._past, self._read = PastEvents(), -1
        self._turn = asyncio.Lock()

    async def past(self, engine: Engine) -> PastEvents:
        """All that is known now."""
        async with self._turn:
            end = engine.state.position
            if self._read < 0:
                self._read = max(0, end - LOOK_BACK)
            cut = self._read > 0 and self._past.complete_since is None and not self._past.all()
            while self._read < end and (found := await engine.history_as(self._read, READ_AT_ONCE, _small)):
                if cut:
                    self._past.complete_since, cut = found[0].at, False
                self._past.note(found)
                self._read = found[-1].position
        return self._past


def _small(record: t.Record) -> t.Record:
    """The record, but without what is not about events: a whole fleet may be in one."""
    is_about_event = isinstance(record.transition, t.EventRaised | t.EventStarted | t.EventApproved | _Ends)
    return record if is_about_event else structs.replace(record, transition=_NOTHING)


_Ends = t.EventCompleted | t.EventCancelled | t.EventFailed
_NOTHING = t.ScopeEnabled("")


def past_of(engine: Engine) -> PastReader:
    """The reader of an engine's past; everybody who asks shares it."""
    return engine.kept_once(PastReader, PastReader)
