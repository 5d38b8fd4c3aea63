"""From records to changes of events: what is to be told, and the event as it was. It does no I/O."""

from collections.abc import Iterable, Mapping

from duenotice.domain import records as t
from duenotice.domain.event import Event, Phase
from duenotice.wire.azure import EventChange

_ENDS: dict[type, Phase] = {
    t.EventCompleted: Phase.COMPLETED,
    t.EventCancelled: Phase.CANCELLED,
    t.EventFailed: Phase.FAILED,
}

TOLD: tuple[type, ...] = (t.EventRaised, t.EventMoved, t.EventNarrowed, t.EventPostponed, t.EventStarted, *_ENDS)
"""Changes that somebody who reads documents would see; an approval is not one."""


class UnknownEvent(LookupError):
    """A record about an event that the book does not know: its earlier records do."""


class EventBook:
    """The events as they are at one place of the journal: the end of an event does not say what it was."""

    def __init__(self, events: Mapping[str, Event] | None = None) -> None:
        self._events = dict(events or {})

    def take(self, record: t.Record) -> EventChange | None:
        """Go on by one record; what it changes, if it is about an event."""
        change = record.transition
        match change:
            case (
                t.EventRaised(event)
                | t.EventMoved(event)
                | t.EventNarrowed(event)
                | t.EventPostponed(event)
                | t.EventStarted(event)
            ):
                before = self._events.get(event.id, event)
                self._events[event.id] = event
                return EventChange(record.position, record.when, event, before)
            case t.EventCompleted(event_id) | t.EventCancelled(event_id) | t.EventFailed(event_id):
                known = self._events.pop(event_id, None)
                if known is None:
                    raise UnknownEvent(event_id)
                over, why = known.with_(phase=_ENDS[type(change)]), getattr(change, "reason", "")
                return EventChange(record.position, record.when, over, known, why)
        return None

    def learn(self, event: Event) -> None:
        """An event as it is at this place."""
        self._events[event.id] = event


def event_before(position: int, records: Iterable[t.Record]) -> Event | None:
    """An event as its own records tell that it was before a position."""
    known: Event | None = None
    for record in records:
        if record.position < position and isinstance(
            record.transition, t.EventRaised | t.EventMoved | t.EventNarrowed | t.EventPostponed | t.EventStarted
        ):
            known = record.transition.event
    return known
