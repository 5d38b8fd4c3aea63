"""Tables for people, on a terminal and in a pipe."""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from duenotice.cli.looks import LOOKS
from duenotice.cli.output import Column, View
from duenotice.plain_text import each_in_one_line, lines

MANY = 1000
LONGEST_STATE = 9
GAP = 2
WRAPPED = 24
"""Spare columns are left out before a column that may shrink gets narrower than this many cells."""
WRAPS = ("list", "pairs", "gist", "prose")
"""Looks of columns that may shrink when a terminal is narrow."""


LONGEST_LINE = 10_000
"""In a pipe no line is wrapped: a program reads it."""


class PlainConsole(Console):
    """Only we set colours and move the cursor: no text from outside can do so (S28)."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Make control characters visible; rich keeps its own terminal codes in other segments."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=lines(segment.text))


def console(stderr: bool = False) -> Console:
    """The console for people; a style in brackets is only text there."""
    return PlainConsole(file=sys.stderr if stderr else sys.stdout, highlight=False, markup=False, emoji=False)


def write(what: Any) -> None:
    """Print something; in a pipe without spaces at the ends of lines."""
    out = console()
    if out.is_terminal:
        out.print(what)
        return
    out.width = LONGEST_LINE
    with out.capture() as captured:
        out.print(what)
    out.file.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def write_table(items: list[Any], view: View, now: str) -> None:
    """Print things. In a pipe, or when there are very many, they are plain lines of any length."""
    out = console()
    if out.is_terminal and len(items) <= MANY:
        out.print(Fitted(items, view, now))
        return
    titles = [column.title for column in view.columns]
    rows = ([str(_cell(item, column, now)) for column in view.columns] for item in items)
    out.file.writelines(aligned([titles, *rows]))


def write_card(item: Any, view: View, now: str) -> None:
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


def counted(items: Iterable[Any]) -> Iterator[Any]:
    """The items; while very many arrive, a person sees how many there are so far."""
    out = console(stderr=True)
    with contextlib.ExitStack() as stack:
        for number, item in enumerate(items, start=1):
            if number == MANY and out.is_terminal:
                status = stack.enter_context(out.status(""))
            if number % MANY == 0 and out.is_terminal:
                status.update(f"{number:,} so far")
            yield item


def has_times(view: View) -> bool:
    """Whether a table of this view needs the time."""
    return any(column.look in ("when", "not-before") for column in view.columns + view.more)


class Fitted:
    """A table of things; if the terminal is too narrow, spare columns are left out, the last one first."""

    def __init__(self, items: list[Any], view: View, now: str) -> None:
        self._items, self._view, self._now = items, view, now

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        columns = list(self._view.columns)
        widths = {column: self._wanted(column) + GAP for column in columns}
        for column in reversed(self._view.columns):
            if column.spare and sum(widths[each] for each in columns) - GAP > options.max_width:
                columns.remove(column)
        yield table(self._items, self._view._replace(columns=tuple(columns)), self._now)

    def _wanted(self, column: Column) -> int:
        """How wide a column wants to be; one that may shrink wants no more than WRAPPED cells."""
        cells = (str(_cell(item, column, self._now)) for item in self._items)
        widest = max(map(cell_len, (column.title, *cells)))
        return min(widest, WRAPPED) if column.look in WRAPS else widest


def table(items: list[Any], view: View, now: str) -> Table:
    """A table of things."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for column in view.columns:
        width = LONGEST_STATE if column.look == "state" else None  # columns do not move when states change
        made.add_column(column.title, no_wrap=column.look not in WRAPS, overflow="fold", min_width=width)
    for item in items:
        made.add_row(*(_cell(item, column, now) for column in view.columns))
    return made


def card(item: Any, view: View, now: str) -> Table:
    """One thing, a line for each of its columns."""
    made = Table.grid(padding=(0, 2, 0, 0))
    for column in view.columns + view.more:
        made.add_row(Text(column.title, "bold"), _cell(item, column, now))
    return made


def _cell(item: Any, column: Column, now: str) -> Text | str:
    """A value, or the whole thing, as it looks; it is made plain first, so that its width is right."""
    for part in column.key.split(".") if column.key else ():
        item = item.get(part) if isinstance(item, dict) else None
    return LOOKS[column.look](each_in_one_line(item), now)
