"""What the service answers, as values: an event and a record with usual fields, of which a test names what matters."""

from datetime import UTC, datetime
from typing import Any

from duenotice.wire.operator import Details, Event, Record

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(hour: int, minute: int = 0, second: int = 0, day: int = 1) -> datetime:
    """A time of that day."""
    return datetime(2026, 1, day, hour, minute, second, tzinfo=UTC)


def event(**fields: Any) -> Event:
    """A Reboot of web-0 that starts in 15 minutes."""
    usual: dict[str, Any] = {
        "id": "ABCDEFGH-1",
        "type": "Reboot",
        "phase": "scheduled",
        "scope": "set/web",
        "resources": ("web-0",),
        "update_domain": 0,
        "cause": "user",
        "source": "User",
        "description": "",
        "duration": -1,
        "not_before": at(12, 15),
        "approved_by": None,
        "started_at": None,
        "ends_at": None,
        "consent": "scope",
        "awaited": (),
        "awaited_in_all": 0,
    }
    return Event(**usual | fields)


def record(action: str, event_id: str | None = None, **details: Any) -> Record:
    """A record of now."""
    return Record(position=1, at=NOON, actor="token/ann", action=action, event_id=event_id, details=Details(**details))
