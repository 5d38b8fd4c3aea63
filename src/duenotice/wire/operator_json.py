"""What the operator's side reads and writes: events as JSON with names of our own, times in RFC 3339."""

from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from duenotice.domain.event import Cause, Event, EventType
from duenotice.errors import Malformed
from duenotice.wire.document_json import SOURCE_NAMES, TYPE_NAMES, format_iso

T = TypeVar("T")

_TYPES = {name.lower(): event_type for event_type, name in TYPE_NAMES.items()}
_CAUSES = {cause.value: cause for cause in (Cause.MAINTENANCE, Cause.LIVE_MIGRATION, Cause.USER)}


class ScheduleRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request to schedule an event."""

    type: str
    resources: tuple[str, ...]
    not_before: datetime | None = None
    description: str | None = None
    duration: int | None = None
    cause: str = Cause.MAINTENANCE.value


def parse_type(text: str) -> EventType:
    """`Reboot`, in any case."""
    return _named(text, _TYPES, "an event type", [TYPE_NAMES[event_type] for event_type in EventType])


def parse_cause(text: str) -> Cause:
    """A cause an operator may give."""
    return _named(text, _CAUSES, "a cause", list(_CAUSES))


def parse_moment(moment: datetime | None) -> datetime | None:
    """A moment with its offset; one without could mean anything."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise Malformed(f"not_before {moment.isoformat()} has no offset.", hint="Write it in UTC, with a Z.")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise Malformed(f"not_before {moment.isoformat()} is beyond all time.", hint="Write it in UTC.") from None


def event_to_json(event: Event) -> dict[str, object]:
    """One event as the operator sees it."""
    return {
        "id": event.id,
        "type": TYPE_NAMES[event.type],
        "phase": event.phase.value,
        "scope": event.scope,
        "resources": list(event.resources),
        "update_domain": event.update_domain,
        "cause": event.cause.value,
        "source": SOURCE_NAMES[event.source],
        "description": event.description,
        "duration": event.duration,
        "not_before": format_iso(event.not_before),
        "approved_by": event.approved_by or None,
        "started_at": None if event.started_at is None else format_iso(event.started_at),
    }


def _named(text: str, table: dict[str, T], what: str, known: list[str]) -> T:
    if text.lower() not in table:
        raise Malformed(f"{text!r} is not {what}.", hint=f"Use one of {', '.join(known)}.")
    return table[text.lower()]
