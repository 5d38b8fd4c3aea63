"""Live events, kept up to date by folding the records of the feed. Pure."""

from typing import Any

Events = dict[str, Any]

OUTCOMES = {"event-completed": "completed", "event-cancelled": "cancelled", "event-failed": "failed"}
_CARRIERS = ("event-raised", "event-moved", "event-narrowed", "event-postponed", "event-started")
_PHASES = ("scheduled", "started")


def fold(events: Events, record: Any) -> Any:
    """Take in a record. Returns the event to show, or None; the phase of an event that is over says how it ended."""
    action, event_id = record["action"], record["event_id"]
    if action in OUTCOMES:
        gone = events.pop(event_id, None)
        return None if gone is None else gone | {"phase": OUTCOMES[action]}
    now = _as_of(record, events.get(event_id))
    if now is None or now == events.get(event_id):
        return None
    events[event_id] = now
    return now


def _as_of(record: Any, known: Any) -> Any:
    """The event after a record; None when the record is not about an event, or is not new."""
    if record["action"] == "event-approved" and known is not None:
        return known | {"approved_by": record["details"]["by"]}
    if record["action"] not in _CARRIERS:
        return None
    event = record["details"]["event"]
    # We read the events after we opened the feed, so its first records may be older than what we read.
    older = known is not None and _PHASES.index(event["phase"]) < _PHASES.index(known["phase"])
    return None if older else event
