"""The lives of events, also of those that are over: when each was told, approved, started and ended.

A fold of the journal's records, with a limit: only the newest events that are over are kept, and a start looks back
only so far.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct, structs

from duenotice.domain import transitions as t
from duenotice.domain.event import Event
from duenotice.engine.engine import Engine

MOST_OVER = 10_000
LOOK_BACK = 50_000
"""Records that a start reads to know the past."""

READ_AT_ONCE = 1000


class Life(Struct, frozen=True):
    """One event and its moments; `approved_by` is who did it by name, `outcome` is empty while it lives."""

    event: Event
    raised_at: datetime | None = None
    approved_at: datetime | None = None
    approved_by: str = ""
    ended_at: datetime | None = None
    outcome: str = ""
    reason: str = ""


class Lives:
    """The lives of events: of live ones, and of the newest that are over."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._live = {event.id: Life(event) for event in events}
        self._over: OrderedDict[str, Life] = OrderedDict()

    def note(self, records: Sequence[t.Record]) -> None:
        """Take in what was committed."""
        for record in records:
            match record.transition:
                case t.EventRaised(event):
                    at_once = record.at if event.approved_by else None
                    self._live[event.id] = Life(event, record.at, at_once, event.approved_by)
                case t.EventStarted(event) | t.EventPostponed(event) | t.EventMoved(event) | t.EventNarrowed(event):
                    self._live[event.id] = structs.replace(self._live.get(event.id, Life(event)), event=event)
                case t.EventApproved(event_id) if event_id in self._live:
                    life = self._live[event_id]
                    self._live[event_id] = structs.replace(life, approved_at=record.at, approved_by=record.actor)
                case t.EventCompleted(event_id):
                    self._end(event_id, record.at, "completed")
                case t.EventCancelled(event_id, reason=reason):
                    self._end(event_id, record.at, "cancelled", reason)
                case t.EventFailed(event_id, reason=reason):
                    self._end(event_id, record.at, "failed", reason)

    def learn(self, before: "Lives") -> None:
        """Add older lives; what is already known is newer and stays."""
        for known in (self._live, self._over):
            for event_id in known.keys() & before._live.keys():
                known[event_id] = _joined(before._live[event_id], known[event_id])
        self._over = before._over | self._over

    def all(self) -> tuple[Life, ...]:
        """All of them as they are now; those that are over first."""
        return (*self._over.values(), *self._live.values())

    def find(self, beginning: str) -> list[Life]:
        """Those whose id begins so."""
        if (exact := self._live.get(beginning) or self._over.get(beginning)) is not None:
            return [exact]
        return [life for life in self.all() if life.event.id.startswith(beginning)]

    def _end(self, event_id: str, at: datetime, outcome: str, reason: str = "") -> None:
        if (life := self._live.pop(event_id, None)) is None:
            return
        self._over[event_id] = structs.replace(life, ended_at=at, outcome=outcome, reason=reason)
        if len(self._over) > MOST_OVER:
            self._over.popitem(last=False)


def between(lives: Iterable[Life], since: datetime, until: datetime) -> Iterator[Life]:
    """Those whose life overlaps a span of time."""
    for life in lives:
        begin = life.raised_at or life.event.started_at or life.event.not_before
        if begin <= until and (life.ended_at is None or life.ended_at >= since):
            yield life


async def lives_before(engine: Engine, position: int) -> Lives:
    """The lives before a position, read from the journal, looking back only so far."""
    lives, after = Lives(), max(0, position - LOOK_BACK)
    while after < position and (records := await engine.history(after, READ_AT_ONCE)):
        lives.note([record for record in records if record.position <= position])
        after = records[-1].position
    return lives


def _joined(before: Life, now: Life) -> Life:
    """A life put together from before this start and after it."""
    return structs.replace(
        now,
        raised_at=now.raised_at or before.raised_at,
        approved_at=now.approved_at or before.approved_at,
        approved_by=now.approved_by or before.approved_by,
    )
