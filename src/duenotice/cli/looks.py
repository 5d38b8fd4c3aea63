"""How a value looks in a cell: coloured states, times as seen from now, short ids."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from rich.text import Text

SHORT_ID = 8
GIST = 80
BAR = 16
STYLES = {
    "scheduled": "yellow",
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
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


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


def span(seconds: float) -> str:
    """The two largest units of a span of time."""
    left, parts = round(seconds), []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def state(value: Any, _: str = "") -> Text:
    """A state in its colour."""
    return Text(_plain(value), STYLES.get(_plain(value).lower(), ""))


def passed(begin: str, end: str, now: str) -> float:
    """How much of the time between two moments is over, from 0 to 1."""
    first, last, here = (datetime.fromisoformat(moment) for moment in (begin, end, now))
    return 1.0 if last <= first else min(1.0, max(0.0, (here - first) / (last - first)))


def bar(share: Any, _: str = "") -> Text:
    """A share from 0 to 1 as a bar."""
    full = round(float(share or 0) * BAR)
    return Text("━" * full, "cyan") + Text("━" * (BAR - full), "bright_black")


def _plain(value: Any) -> str:
    if value is None or value == "":
        return "–"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _many(value: Any, _: str) -> str:
    return _plain(" ".join(map(str, value)) if isinstance(value, list) else value)


def _pairs(value: Any, _: str) -> str:
    return _plain(" ".join(f"{key}={inner}" for key, inner in value.items()) if isinstance(value, dict) else value)


def _gist(value: Any, _: str) -> str:
    """The details of a record in short: of lists how many, of things their name."""
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


LOOKS: dict[str, Callable[[Any, str], Text | str]] = {
    "text": lambda value, _: Text(_plain(value)),
    "prose": lambda value, _: Text(_plain(value)),
    "id": lambda value, _: Text(_plain(value)[:SHORT_ID]),
    "name": lambda value, _: Text(_plain(value), "bold"),
    "state": state,
    "when": lambda value, now: relative(value or "", now),
    "span": lambda value, _: "–" if value in (None, -1) else span(float(value)),
    "list": lambda value, now: Text(_many(value, now)),
    "pairs": lambda value, now: Text(_pairs(value, now)),
    "gist": lambda value, now: Text(_gist(value, now)),
    "bar": bar,
    "progress": _progress,
}
