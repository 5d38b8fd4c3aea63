"""Tables for people on a terminal, drawn by rich; in a pipe they are plain lines, which need no rich (`cells`)."""

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

from duenotice.cli import cells
from duenotice.cli.cells import Fields
from duenotice.cli.output import TableColumn, TableView
from duenotice.escape import lines

T = TypeVar("T")
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


def bar(share: float, style: str, width: int = BAR) -> Text:
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
    if out.is_terminal and len(items) <= MANY:
        out.print(Fitted(items, view, now))
        return
    cells.write_table(items, view, now)


def write_card(item: Fields, view: TableView, now: datetime) -> None:
    """Print one thing."""
    out = console()
    if out.is_terminal:
        out.print(card(item, view, now))
        return
    cells.write_card(item, view, now)


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
    """What stands in a cell; rich takes no text from outside for its markup."""
    shown = cells.cell(item, column, now)
    return Text(shown, getattr(shown, "style", "")) if isinstance(shown, str) else shown


def state(value: object) -> Text:
    """A state in its colour."""
    shown = cells.state(value)
    return Text(shown, shown.style)
