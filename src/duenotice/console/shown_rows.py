"""Which rows of a long table a page shows."""

from typing import NamedTuple

from duenotice.console.pages import Visit

ROWS = 100


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
