"""What a VM sees: its document compared with what is expected. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from duenotice.scenarios.verbs import GONE
from duenotice.wire.operator import Document, ScheduledEvent
from duenotice.wire.spans import parse_time


class Expectation(NamedTuple):
    """An expectation with names and ids in place of roles; None is anything."""

    status: str
    event_id: str | None = None
    wanted: Mapping[str, object] = {}
    hits: str | None = None
    resources: frozenset[str] | None = None
    notice: float | None = None
    total: int | None = None


class Observation(NamedTuple):
    """Whether it is true, which event shows it or may show it later, and what was seen."""

    ok: bool
    event: ScheduledEvent | None
    seen: str


KEYS = {
    "type": "event_type",
    "source": "event_source",
    "not_before": "not_before",
    "description": "description",
    "duration": "duration_in_seconds",
}
"""The name of an option in the document."""


def look(expected: Expectation, document: Document, now: datetime, slack: float) -> Observation:
    """Compare a document with an expectation; `slack` is how many seconds a fast clock may have lost."""
    events = document.events
    about = [event for event in events if _is_about(expected, event)]
    right_number = expected.total in (None, len(events))
    if expected.status == GONE:
        return Observation(not about and right_number, None, describe(events, now))
    shown = [event for event in about if _shows(expected, event, now, slack)]
    found = next(iter(shown or about), None)
    return Observation(bool(shown) and right_number, found, describe((found,) if shown and found else events, now))


def describe(events: tuple[ScheduledEvent, ...], now: datetime) -> str:
    """Events in a few words."""
    return "; ".join(_words(event, now) for event in events) or "no events"


def next_moment(document: Document, now: datetime) -> float | None:
    """Seconds until the next NotBefore of a document; None when there is none ahead."""
    ahead = [_notice(event, now) for event in document.events if event.not_before]
    return min((seconds for seconds in ahead if seconds > 0), default=None)


def _is_about(expected: Expectation, event: ScheduledEvent) -> bool:
    fixed = {key: value for key, value in expected.wanted.items() if key != "not_before"}
    return (
        expected.event_id in (None, event.event_id)
        and all(getattr(event, KEYS[key]) == value for key, value in fixed.items())
        and (expected.hits is None or expected.hits in event.resources)
        and (expected.resources is None or expected.resources == set(event.resources))
    )


def _shows(expected: Expectation, event: ScheduledEvent, now: datetime, slack: float) -> bool:
    return (
        event.event_status == expected.status
        and expected.wanted.get("not_before", event.not_before) == event.not_before
        and (expected.notice is None or _notice(event, now) >= expected.notice - slack)
    )


def _notice(event: ScheduledEvent, now: datetime) -> float:
    return (parse_time(event.not_before) - now).total_seconds() if event.not_before else 0.0


def _words(event: ScheduledEvent, now: datetime) -> str:
    names = " ".join(event.resources[:5]) + (" …" if len(event.resources) > 5 else "")
    return f"{event.event_type} {event.event_status}{_when(event, now)}: {names}"


def _when(event: ScheduledEvent, now: datetime) -> str:
    if not event.not_before:
        return ""
    moment = parse_time(event.not_before)
    return f", NotBefore {moment:%H:%M:%S}" if moment.date() == now.date() else f", NotBefore {moment:%d %b %H:%M:%S}"
