"""Which rows of a long table a page shows."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from duenotice.console.pages import Visit
from duenotice.wire.operator import EventTable, VmTable

ROWS = 100
Table = TypeVar("Table", EventTable, VmTable)


class ShownRows(NamedTuple):
    """Which rows are shown, and of how many."""

    page: int
    total: int
    size: int = ROWS

    @property
    def pages(self) -> int:
        """There is always one, if only an empty one."""
        return max(1, -(-self.total // self.size))

    @property
    def first(self) -> int:
        """The number of the first row that is shown."""
        return min((self.page - 1) * self.size + 1, self.total)

    @property
    def last(self) -> int:
        """The number of the last row that is shown."""
        return min(self.page * self.size, self.total)


def page_of(visit: Visit) -> int:
    """Which page; what is not a number is the first."""
    text = visit.query("page")
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 7 else 1


async def whole_page(page: int, ask: Callable[[int, int], Awaitable[Table]]) -> Table:
    """All rows of a page, asked for by offset and number: an answer ends at its bytes, and the next goes on there."""
    begin = (page - 1) * ROWS
    found: Table = await ask(begin, ROWS)
    while len(found.items) < min(ROWS, found.total - begin):
        more: Table = await ask(begin + len(found.items), ROWS - len(found.items))
        if not more.items:
            break  # there are fewer by now
        found = replace(found, items=(*found.items, *more.items))
    return found
