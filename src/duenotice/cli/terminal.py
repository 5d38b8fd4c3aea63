"""Tables for people on a terminal, drawn by rich; in a pipe they are plain lines, which need no rich (`output`)."""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from duenotice.cli import views
from duenotice.cli.output import (
    Fields,
    TableColumn,
    TableView,
    write_plain_detail,
    write_plain_table,
)
from duenotice.escape import lines

T = TypeVar("T")
BAR = 16
MANY_ITEMS = 1000
LONGEST_STATE = 9
GAP = 2
WRAPPED = 24
"""Optional columns are left out before a column that may shrink gets narrower than this many cells."""
WRAPS = ("list", "pairs", "gist", "prose")
"""Looks of columns that may shrink when a terminal is narrow."""
LONGEST_LINE = 10_000
"""In a pipe no line is wrapped: a program reads it."""


def share_bar(share: float, style: str, width: int = BAR) -> Text:
    """A share from 0 to 1 as a bar."""
    full = round(share * width)
    return Text("━" * full, style) + Text("━" * (width - full), "bright_black")


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
    if out.is_terminal and len(items) <= MANY_ITEMS:
        out.print(AdaptiveTable(items, view, now))
        return
    write_plain_table(items, view, now)


def write_detail(item: Fields, view: TableView, now: datetime) -> None:
    """Print one thing."""
    out = console()
    if out.is_terminal:
        out.print(detail(item, view, now))
        return
    write_plain_detail(item, view, now)


def counted(items: Iterable[T]) -> Iterator[T]:
    """The items; while very many arrive, a person sees how many there are so far."""
    out = console(stderr=True)
    with contextlib.ExitStack() as stack:
        for number, item in enumerate(items, start=1):
            if number == MANY_ITEMS and out.is_terminal:
                status = stack.enter_context(out.status(""))
            if number % MANY_ITEMS == 0 and out.is_terminal:
                status.update(f"{number:,} so far")
            yield item


class AdaptiveTable:
    """A table of things; if the terminal is too narrow, optional columns are left out, the last one first."""

    def __init__(self, items: list[Fields], view: TableView, now: datetime) -> None:
        self._items, self._view, self._now = items, view, now

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        kept = list(self._view.columns)
        widths = {column: self._wanted(column) + GAP for column in kept}
        for column in reversed(self._view.columns):
            if column.optional and sum(widths[each] for each in kept) - GAP > options.max_width:
                kept.remove(column)
        yield table(self._items, self._view._replace(columns=tuple(kept)), self._now)

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


def detail(item: Fields, view: TableView, now: datetime) -> Table:
    """One thing, a line for each of its columns."""
    made = Table.grid(padding=(0, 2, 0, 0))
    for column in view.columns + view.more:
        made.add_row(Text(column.title, "bold"), _cell(item, column, now))
    return made


def _cell(item: Fields, column: TableColumn, now: datetime) -> Text | str:
    """What stands in a cell; rich takes no text from outside for its markup."""
    shown = views.cell(item, column, now)
    return Text(shown, getattr(shown, "style", "")) if isinstance(shown, str) else shown


def state(value: object) -> Text:
    """A state in its colour."""
    shown = views.state(value)
    return Text(shown, shown.style)
