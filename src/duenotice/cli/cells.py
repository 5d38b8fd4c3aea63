"""How a value looks in a cell of a table, and tables as plain lines: in a pipe, and where rich is not installed."""

import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from duenotice.cli.output import TableColumn, TableView
from duenotice.escape import each_in_one_line
from duenotice.wire.spans import span

Fields = dict[str, object]
"""A thing as JSON has it."""
SHORT_ID = 8
GIST = 80
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
    "suspect": "yellow",
    "failed": "bold red",
    "resolved": "dim",
    "passed": "green",
    "leads": "bold green",
    "follows": "green",
    "silent": "yellow",
    "replaced": "yellow",
    "starting": "cyan",
    "down": "bold red",
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


def relative(moment: datetime, now: datetime) -> str:
    """`in 14m 30s`, `3h ago`, `now`."""
    seconds = round((moment - now).total_seconds())
    if seconds == 0:
        return "now"
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def _when(value: object, now: datetime) -> str:
    """A time as JSON has it, seen from now; anything else as it is."""
    try:
        return relative(datetime.fromisoformat(str(value)), now)
    except (ValueError, TypeError):
        return _plain(value)


class Styled(str):
    """A text with the style that it has on a terminal."""

    style: str

    def __new__(cls, text: str, style: str) -> "Styled":
        made = super().__new__(cls, text)
        made.style = style
        return made


def state(value: object, _: object = None) -> Styled:
    """A state in its colour."""
    return Styled(_plain(value), STYLES.get(_plain(value).lower(), ""))


def passed(begin: datetime, end: datetime, now: datetime) -> float:
    """How much of the time between two moments is over, from 0 to 1."""
    return 1.0 if end <= begin else min(1.0, max(0.0, (now - begin) / (end - begin)))


def _plain(value: object) -> str:
    if value is None or value == "":
        return "–"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _many(value: object, _: object) -> str:
    return _plain(" ".join(map(str, value)) if isinstance(value, list) else value)


def _pairs(value: object, _: object) -> str:
    return _plain(" ".join(f"{key}={inner}" for key, inner in value.items()) if isinstance(value, dict) else value)


def _gist(value: object, _: object) -> str:
    """The details of a record in short: for a list its length, for a thing its name."""
    details = value if isinstance(value, dict) else {}
    parts = (
        f"{key}={_short(inner)[: SHORT_ID if key.endswith('_id') else None]}"
        for key, inner in details.items()
        if inner not in (None, "")
    )
    return _plain(" ".join(parts))[:GIST]


def _short(value: object) -> str:
    if isinstance(value, dict):
        return str(value.get("name") or str(value.get("id", "…"))[:SHORT_ID])
    return str(len(value)) if isinstance(value, list) else str(value)


def _progress(value: object, _: object) -> str:
    """How many steps need nothing more; one that has failed does."""
    steps = value if isinstance(value, dict) else {}
    failed = f", {steps['failed']} failed" if steps.get("failed") else ""
    return f"{sum(steps.get(key, 0) for key in ('done', 'skipped'))}/{sum(steps.values())}{failed}"


def _event_state(event: object, _: object) -> Styled:
    """The state of an event; only some answers say it, and in the others it lives."""
    assert isinstance(event, dict)
    is_approved = event["phase"] == "scheduled" and event.get("approved_by")
    return state(event.get("state") or ("approved" if is_approved else event["phase"]))


def _not_before(event: object, now: datetime) -> str:
    """An event that has started shows no NotBefore, and advice has none that counts."""
    from duenotice.wire.seen_documents import ADVICE  # costs milliseconds that --help should not pay

    assert isinstance(event, dict)
    waits = event["phase"] == "scheduled" and event["type"] != ADVICE and not event.get("outcome")
    return _when(event["not_before"], now) if waits else "–"


def _ends(event: object, now: datetime) -> str:
    """When it should be over; of one that has failed, this does not come."""
    assert isinstance(event, dict)
    return "–" if event.get("outcome") else _when(event["ends_at"], now)


LOOKS: dict[str, Callable[[object, datetime], Any]] = {
    "text": lambda value, _: _plain(value),
    "prose": lambda value, _: _plain(value),
    "id": lambda value, _: _plain(value)[:SHORT_ID],
    "name": lambda value, _: Styled(_plain(value), "bold"),
    "state": state,
    "event-state": _event_state,
    "ends": _ends,
    "when": _when,
    "not-before": _not_before,
    "span": lambda value, _: "–" if value in (None, -1) else span(float(str(value))),
    "seconds": lambda value, _: "–" if value is None else f"{float(str(value)):.1f}s",
    "list": lambda value, now: _many(value, now),
    "pairs": lambda value, now: _pairs(value, now),
    "gist": lambda value, now: _gist(value, now),
    "as-is": lambda value, _: _plain(value) if isinstance(value, str | None) else value,  # a picture that rich draws
    "progress": _progress,
}


def aligned(rows: list[list[str]]) -> Iterator[str]:
    """Lines with aligned cells; rich would take a minute for 100,000 of them."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip() + "\n"


def has_times(view: TableView) -> bool:
    """Whether a table of this view needs the time."""
    return any(column.look in ("when", "not-before", "ends") for column in view.columns + view.more)


def cell(item: Fields, column: TableColumn, now: datetime) -> Any:
    """A value, or the whole thing, as it looks; it is made plain first, so that its width is right (S28)."""
    value: object = item
    for part in column.key.split(".") if column.key else ():
        value = value.get(part) if isinstance(value, dict) else None
    return LOOKS[column.look](each_in_one_line(value), now)


def write_table(items: list[Fields], view: TableView, now: datetime) -> None:
    """Print things as plain lines of any length."""
    titles = [column.title for column in view.columns]
    rows = ([str(cell(item, column, now)) for column in view.columns] for item in items)
    sys.stdout.writelines(aligned([titles, *rows]))


def write_card(item: Fields, view: TableView, now: datetime) -> None:
    """Print one thing as plain lines."""
    rows = [[column.title, str(cell(item, column, now))] for column in view.columns + view.more]
    sys.stdout.writelines(aligned(rows))
