"""What a query of Resource Graph does with rows: each step takes rows and gives rows (M12). Pure.

Rows come and go one by one, so that a thread that works on very many lets the others run (S26). What is kept of them
until the last one has come, their order or their groups, is paid from the `Budget` of the query (S24). No step makes
another row of a row: which columns are shown, and under which names, is said of the rows that are left in the end.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec

from duenotice.domain.bulk import PIECE
from duenotice.errors import Malformed


class Row(Protocol):
    """What has columns: an event, or what a step has counted."""

    def get(self, name: str, /) -> object:
        """The value of a column; None if there is none."""


Step = Callable[[Iterator[Row], "Budget"], Iterator[Row]]
Predicate = Callable[[Row], bool]
Key = tuple[tuple[int, float, str], ...]

MOST_KEPT = 48 * 1024 * 1024
"""Bytes that one query may keep of its rows: the order of 200,000 events by a short column."""
_ROW_BYTES = 200
"""What is kept of a row, beside the texts of it."""
_RANKED = 256
"""Letters of a text that count for the order of rows."""

_LET_GO = 500
"""Rows that are let go in one go: some milliseconds."""


class InvalidQuery(Malformed):
    """A query that is not understood, or is too large."""


class Budget:
    """The bytes that one query may keep of its rows."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = self._left = most

    def keep(self, values: Sequence[object]) -> None:
        """Pay for these values of one row."""
        self._left -= _ROW_BYTES + sum(len(value) for value in values if isinstance(value, str))
        if self._left < 0:
            raise InvalidQuery(
                f"Order and groups of these rows take more than {self._most // (1024 * 1024)} MiB.",
                hint="Leave rows out with where, or name fewer and shorter columns.",
            )


class GraphColumn(NamedTuple):
    """Where a value is: `properties.EventStatus` is a path of two; what is not there is None."""

    path: tuple[str, ...]
    as_text: bool = False

    def of(self, row: Row) -> object:
        """The value in a row."""
        found = row.get(self.path[0])
        for name in self.path[1:]:
            found = found.get(name) if isinstance(found, Mapping) else None
        return _text(found) if self.as_text else found

    def below(self, names: tuple[str, ...]) -> "GraphColumn":
        """A column inside this one; a text has nothing inside."""
        if names and self.as_text:
            return NOWHERE
        return self._replace(path=self.path + names)


NOWHERE = GraphColumn(("",))
"""A column that no row has."""


def _text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


# Comparing


def among(column: GraphColumn, values: Sequence[object], any_case: bool = False) -> Predicate:
    """Whether the value of a column is one of these; with `any_case` upper and lower case do not count.

    A number never equals a text, nor true and false; a list or an object equals none of them.
    """
    wanted = {_comparable(value, any_case) for value in values}

    def holds(row: Row) -> bool:
        found = column.of(row)
        return isinstance(found, _SIMPLE) and _comparable(found, any_case) in wanted

    return holds


_SIMPLE = (str, bool, int, float)


def _comparable(value: object, any_case: bool) -> tuple[bool, object]:
    return isinstance(value, bool), value.lower() if any_case and isinstance(value, str) else value


def none_of(condition: Predicate) -> Predicate:
    """Whether it does not hold: so it is also of what is not there at all."""
    return lambda row: not condition(row)


def any_of(conditions: Sequence[Predicate]) -> Predicate:
    """Whether one of them holds."""
    return conditions[0] if len(conditions) == 1 else lambda row: any(holds(row) for holds in conditions)


def all_of(conditions: Sequence[Predicate]) -> Predicate:
    """Whether each of them holds."""
    return conditions[0] if len(conditions) == 1 else lambda row: all(holds(row) for holds in conditions)


# Steps


def where(condition: Predicate) -> Step:
    """Those for which it holds."""
    return lambda rows, _: filter(condition, rows)


def limit(number: int) -> Step:
    """The first ones."""
    return lambda rows, _: islice(rows, number)


def count(rows: Iterator[Row], _: Budget) -> Iterator[Row]:
    """How many there are, as one row."""
    yield {"Count": sum(1 for _ in rows)}


def summarize(by: Sequence[tuple[str, GraphColumn]], name: str) -> Step:
    """How many there are for each value of these columns, in the order in which they are met."""

    def step(rows: Iterator[Row], budget: Budget) -> Iterator[Row]:
        counted: dict[tuple[object, ...], int] = {} if by else {(): 0}
        for row in rows:
            values = tuple(_plain(column.of(row)) for _, column in by)
            if values not in counted:
                budget.keep(values)
                counted[values] = 0
            counted[values] += 1
        for values, number in counted.items():
            yield {**dict(zip((each for each, _ in by), values, strict=True)), name: number}

    return step


def _plain(value: object) -> object:
    """A value that can be counted: a list or an object is counted by its text."""
    return value if value is None or isinstance(value, str | int | float) else _text(value)


def order(columns: Sequence[tuple[GraphColumn, bool]]) -> Step:
    """By these columns, each ascending or not; what is not there is less than all that is."""
    by = dict[GraphColumn, bool]()
    for column, ascending in columns:
        by.setdefault(column, ascending)  # named again it makes no difference

    def step(rows: Iterator[Row], budget: Budget) -> Iterator[Row]:
        def kept(number: int, row: Row) -> _Kept:
            ranks = [(_rank(column.of(row)), ascending) for column, ascending in by.items()]
            budget.keep([rank[2] for rank, _ in ranks])
            if isinstance(row, Forgetful):
                row.forget()
            return [rank if ascending else _Reversed(rank) for rank, ascending in ranks], number, row

        return _sorted(kept(number, row) for number, row in enumerate(rows))

    return step


class Forgetful:
    """A row that can make its values again: a row that waits for its turn keeps none of them."""

    __slots__ = ()

    def forget(self) -> None:
        """Keep none."""


_Kept = tuple[list[object], int, Row]
"""What counts for the order, the number of a row, which no other has, and the row."""


def _sorted(rows: Iterator[_Kept]) -> Iterator[Row]:
    """In pieces, as `in_order` does it; what nobody takes is let go in pieces too."""
    pieces = list(iter(lambda: sorted(islice(rows, PIECE)), []))
    try:
        for _, _, row in heapq.merge(*pieces):
            yield row
    finally:
        for piece in pieces:
            while piece:
                del piece[-_LET_GO:]


def _rank(value: object) -> tuple[int, float, str]:
    """Nothing first, then numbers, then texts."""
    if value is None:
        return 0, 0, ""
    if isinstance(value, int | float):
        return 1, value, ""
    return 2, 0, _text(value)[:_RANKED]


class _Reversed(NamedTuple):
    """Compares the other way round."""

    rank: tuple[int, float, str]

    def __lt__(self, other: object) -> bool:
        assert isinstance(other, _Reversed)
        return self.rank > other.rank


# Tables


def column_type(value: object) -> str:
    """What a table says of a column with this value; one without values is of texts."""
    for kind, told in ((str, "string"), (bool, "boolean"), (int, "integer"), (float, "number")):
        if isinstance(value, kind):
            return told
    return "string" if value is None else "object"
