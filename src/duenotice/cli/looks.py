"""How a value looks in a cell: coloured states, times relative to now, short ids."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from rich.text import Text

from duenotice.wire.duration import span

SHORT_ID = 8
GIST = 80
BAR = 16
STYLES = {
    "scheduled": "yellow",
    "approved": "cyan",
    "started": "bold red",
    "completed": "green",
    "over": "green",
    "running": "cyan",
    "under-way": "cyan",
    "paused": "yellow",
    "done": "green",
    "healthy": "green",
    "degraded": "yellow",
    "failed": "bold red",
    "passed": "green",
    "refused": "yellow",
    "waiting": "dim",
    "skipped": "dim",
    "cancelled": "dim",
    "added": "green",
    "removed": "red",
    "changed": "yellow",
    "admin": "red",
    "operator": "yellow",
}


def relative(moment: str, now: str) -> str:
    """`in 14m 30s`, `3h ago`, `now`."""
    if not moment:
        return "–"
    try:
        seconds = round((datetime.fromisoformat(moment) - datetime.fromisoformat(now)).total_seconds())
    except (ValueError, TypeError):
        return moment
    if seconds == 0:
        return "now"
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def state(value: Any, _: str = "") -> Text:
    """A state in its colour."""
    return Text(_plain(value), STYLES.get(_plain(value).lower(), ""))


def moment(when: str) -> str:
    """`14:03:20 UTC`."""
    return f"{datetime.fromisoformat(when):%H:%M:%S} UTC"


def shifted(when: str, seconds: float) -> str:
    """A moment that much later."""
    return (datetime.fromisoformat(when) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def passed(begin: str, end: str, now: str) -> float:
    """How much of the time between two moments is over, from 0 to 1."""
    first, last, here = (datetime.fromisoformat(moment) for moment in (begin, end, now))
    return 1.0 if last <= first else min(1.0, max(0.0, (here - first) / (last - first)))


def bar(share: float, style: str, width: int = BAR) -> Text:
    """A share from 0 to 1 as a bar."""
    full = round(share * width)
    return Text("━" * full, style) + Text("━" * (width - full), "bright_black")


def _plain(value: Any) -> str:
    if value is None or value == "":
        return "–"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _many(value: Any, _: str) -> str:
    return _plain(" ".join(map(str, value)) if isinstance(value, list) else value)


def _pairs(value: Any, _: str) -> str:
    return _plain(" ".join(f"{key}={inner}" for key, inner in value.items()) if isinstance(value, dict) else value)


def _gist(value: Any, _: str) -> str:
    """The details of a record in short: for a list its length, for a thing its name."""
    parts = (
        f"{key}={_short(inner)[: SHORT_ID if key.endswith('_id') else None]}"
        for key, inner in (value or {}).items()
        if inner not in (None, "")
    )
    return _plain(" ".join(parts))[:GIST]


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("name") or str(value.get("id", "…"))[:SHORT_ID])
    return str(len(value)) if isinstance(value, list) else str(value)


def _progress(value: Any, _: str) -> str:
    value = value or {}
    return f"{sum(value.get(key, 0) for key in ('done', 'failed', 'skipped'))}/{sum(value.values())}"


def _not_before(event: Any, now: str) -> str:
    """An event that has started shows no NotBefore."""
    return relative(event["not_before"] or "", now) if event["phase"] == "scheduled" else "–"


LOOKS: dict[str, Callable[[Any, str], Text | str]] = {
    "text": lambda value, _: Text(_plain(value)),
    "prose": lambda value, _: Text(_plain(value)),
    "id": lambda value, _: Text(_plain(value)[:SHORT_ID]),
    "name": lambda value, _: Text(_plain(value), "bold"),
    "state": state,
    "when": lambda value, now: relative(value or "", now),
    "not-before": _not_before,
    "span": lambda value, _: "–" if value in (None, -1) else span(float(value)),
    "list": lambda value, now: Text(_many(value, now)),
    "pairs": lambda value, now: Text(_pairs(value, now)),
    "gist": lambda value, now: Text(_gist(value, now)),
    "as-is": lambda value, _: value,
    "progress": _progress,
}
