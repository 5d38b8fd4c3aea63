"""Tables for people, on a terminal and in a pipe, and how a value looks in a cell of one."""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from duenotice.cli.output import TableColumn, TableView
from duenotice.plain_text import each_in_one_line, lines
from duenotice.wire.duration import span

T = TypeVar("T")
Fields = dict[str, object]
"""A thing as JSON has it."""
SHORT_ID = 8
GIST = 80
BAR = 16
MANY = 1000
LONGEST_STATE = 9
GAP = 2
WRAPPED = 24
"""Spare columns are left out before a column that may shrink gets narrower than this many cells."""
WRAPS = ("list", "pairs", "gist", "prose")
"""Looks of columns that may shrink when a terminal is narrow."""
LONGEST_LINE = 10_000
"""In a pipe no line is wrapped: a program reads it."""
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


def state(value: object, _: object = None) -> Text:
    """A state in its colour."""
    return Text(_plain(value), STYLES.get(_plain(value).lower(), ""))


def passed(begin: datetime, end: datetime, now: datetime) -> float:
    """How much of the time between two moments is over, from 0 to 1."""
    return 1.0 if end <= begin else min(1.0, max(0.0, (now - begin) / (end - begin)))


def bar(share: float, style: str, width: int = BAR) -> Text:
    """A share from 0 to 1 as a bar."""
    full = round(share * width)
    return Text("━" * full, style) + Text("━" * (width - full), "bright_black")


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
    steps = value if isinstance(value, dict) else {}
    return f"{sum(steps.get(key, 0) for key in ('done', 'failed', 'skipped'))}/{sum(steps.values())}"


def _not_before(event: object, now: datetime) -> str:
    """An event that has started shows no NotBefore."""
    assert isinstance(event, dict)
    return _when(event["not_before"], now) if event["phase"] == "scheduled" else "–"


LOOKS: dict[str, Callable[[object, datetime], Text | str]] = {
    "text": lambda value, _: Text(_plain(value)),
    "prose": lambda value, _: Text(_plain(value)),
    "id": lambda value, _: Text(_plain(value)[:SHORT_ID]),
    "name": lambda value, _: Text(_plain(value), "bold"),
    "state": state,
    "when": _when,
    "not-before": _not_before,
    "span": lambda value, _: "–" if value in (None, -1) else span(float(str(value))),
    "seconds": lambda value, _: "–" if value is None else f"{float(str(value)):.1f}s",
    "list": lambda value, now: Text(_many(value, now)),
    "pairs": lambda value, now: Text(_pairs(value, now)),
    "gist": lambda value, now: Text(_gist(value, now)),
    "as-is": lambda value, _: value if isinstance(value, Text) else _plain(value),
    "progress": _progress,
}


class PlainConsole(Console):
    """Only we set colours and move the cursor: no text from outside can do so (S28)."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Make control characters visible; rich keeps its own terminal codes in other segments."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=lines(segment.text))


def console(stderr: bool = False) -> Console:
    """The console for people; a style in brackets is only text there."""
    return PlainConsole(file=sys.stderr if stderr else sys.stdout, highlight=False, markup=False, emoji=False)


def write(what: RenderableType) -> None:
    """Print something; in a pipe without spaces at the ends of lines."""
    out = console()
    if out.is_terminal:
        out.print(what)
        return
    out.width = LONGEST_LINE
    with out.capture() as captured:
        out.print(what)
    out.file.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def write_table(items: list[Fields], view: TableView, now: datetime) -> None:
    """Print things. In a pipe, or when there are very many, they are plain lines of any length."""
    out = console()
    if out.is_terminal and len(items) <= MANY:
        out.print(Fitted(items, view, now))
        return
    titles = [column.title for column in view.columns]
    rows = ([str(_cell(item, column, now)) for column in view.columns] for item in items)
    out.file.writelines(aligned([titles, *rows]))


def write_card(item: Fields, view: TableView, now: datetime) -> None:
    """Print one thing."""
    out = console()
    if out.is_terminal:
        out.print(card(item, view, now))
        return
    rows = [[column.title, str(_cell(item, column, now))] for column in view.columns + view.more]
    out.file.writelines(aligned(rows))


def aligned(rows: list[list[str]]) -> Iterator[str]:
    """Lines with aligned cells; rich would take a minute for 100,000 of them."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip() + "\n"


def counted(items: Iterable[T]) -> Iterator[T]:
    """The items; while very many arrive, a person sees how many there are so far."""
    out = console(stderr=True)
    with contextlib.ExitStack() as stack:
        for number, item in enumerate(items, start=1):
            if number == MANY and out.is_terminal:
                status = stack.enter_context(out.status(""))
            if number % MANY == 0 and out.is_terminal:
                status.update(f"{number:,} so far")
            yield item


def has_times(view: TableView) -> bool:
    """Whether a table of this view needs the time."""
    return any(column.look in ("when", "not-before") for column in view.columns + view.more)


class Fitted:
    """A table of things; if the terminal is too narrow, spare columns are left out, the last one first."""

    def __init__(self, items: list[Fields], view: TableView, now: datetime) -> None:
        self._items, self._view, self._now = items, view, now

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        columns = list(self._view.columns)
        widths = {column: self._wanted(column) + GAP for column in columns}
        for column in reversed(self._view.columns):
            if column.spare and sum(widths[each] for each in columns) - GAP > options.max_width:
                columns.remove(column)
        yield table(self._items, self._view._replace(columns=tuple(columns)), self._now)

    def _wanted(self, column: TableColumn) -> int:
        """How wide a column wants to be; one that may shrink wants no more than WRAPPED cells."""
        cells = (str(_cell(item, column, self._now)) for item in self._items)
        widest = max(map(cell_len, (column.title, *cells)))
        return min(widest, WRAPPED) if column.look in WRAPS else widest


def table(items: list[Fields], view: TableView, now: datetime) -> Table:
    """A table of things."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for column in view.columns:
        width = LONGEST_STATE if column.look == "state" else None  # columns do not move when states change
        made.add_column(column.title, no_wrap=column.look not in WRAPS, overflow="fold", min_width=width)
    for item in items:
        made.add_row(*(_cell(item, column, now) for column in view.columns))
    return made


def card(item: Fields, view: TableView, now: datetime) -> Table:
    """One thing, a line for each of its columns."""
    made = Table.grid(padding=(0, 2, 0, 0))
    for column in view.columns + view.more:
        made.add_row(Text(column.title, "bold"), _cell(item, column, now))
    return made


def _cell(item: Fields, column: TableColumn, now: datetime) -> Text | str:
    """A value, or the whole thing, as it looks; it is made plain first, so that its width is right."""
    value: object = item
    for part in column.key.split(".") if column.key else ():
        value = value.get(part) if isinstance(value, dict) else None
    return LOOKS[column.look](each_in_one_line(value), now)
