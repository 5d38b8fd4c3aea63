"""What a query of Resource Graph does with rows: each step takes rows and gives rows (M12). Pure.

Rows come and go one by one, so that a thread that works on very many lets the others run (S26).
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from duenotice.domain.pieces import PIECE

Row = Mapping[str, object]
Step = Callable[[Iterator[Row]], Iterator[Row]]
Predicate = Callable[[Row], bool]
Compare = Callable[[object, object], bool]

_LET_GO = 500
"""Rows that are let go in one go: some milliseconds."""


class GraphColumn(NamedTuple):
    """Where a value is: `properties.EventStatus` is a path of two; what is not there is None."""

    path: tuple[str, ...]
    as_text: bool = False

    def of(self, row: Row) -> object:
        """The value in a row."""
        found: object = row
        for name in self.path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return _text(found) if self.as_text else found


def _text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


# Comparing


def equal(one: object, other: object) -> bool:
    """`==`: the same, also in upper and lower case; a number never equals a text."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def alike(one: object, other: object) -> bool:
    """`=~`: the same, whether in upper or in lower case."""
    if isinstance(one, str) and isinstance(other, str):
        return one.lower() == other.lower()
    return equal(one, other)


def unequal(one: object, other: object) -> bool:
    """`!=`: also what is not there at all."""
    return not equal(one, other)


def unlike(one: object, other: object) -> bool:
    """`!~`: different, even if upper and lower case do not count."""
    return not alike(one, other)


def compared(column: GraphColumn, compare: Compare, value: object) -> Predicate:
    """Whether the value of a column compares like this."""
    return lambda row: compare(column.of(row), value)


def any_of(conditions: Sequence[Predicate]) -> Predicate:
    """Whether one of them holds."""
    return conditions[0] if len(conditions) == 1 else lambda row: any(holds(row) for holds in conditions)


def all_of(conditions: Sequence[Predicate]) -> Predicate:
    """Whether each of them holds."""
    return conditions[0] if len(conditions) == 1 else lambda row: all(holds(row) for holds in conditions)


# Steps


def where(condition: Predicate) -> Step:
    """Those for which it holds."""
    return lambda rows: filter(condition, rows)


def project(chosen: Sequence[tuple[str, GraphColumn]]) -> Step:
    """Only these columns, with these names."""
    return lambda rows: ({name: column.of(row) for name, column in chosen} for row in rows)


def limit(number: int) -> Step:
    """The first ones."""
    return lambda rows: islice(rows, number)


def count(rows: Iterator[Row]) -> Iterator[Row]:
    """How many there are, as one row."""
    yield {"Count": sum(1 for _ in rows)}


def summarize(by: Sequence[tuple[str, GraphColumn]], name: str) -> Step:
    """How many there are for each value of these columns, in the order in which they are met."""

    def step(rows: Iterator[Row]) -> Iterator[Row]:
        counted = Counter(tuple(_plain(column.of(row)) for _, column in by) for row in rows)
        if not by:
            yield {name: counted.total()}
        for values, number in counted.items() if by else ():
            yield {**dict(zip((each for each, _ in by), values, strict=True)), name: number}

    return step


def _plain(value: object) -> object:
    """A value that can be counted: a list or an object is counted by its text."""
    return value if value is None or isinstance(value, str | int | float) else _text(value)


def order(columns: Sequence[tuple[GraphColumn, bool]]) -> Step:
    """By these columns, each ascending or not; what is not there is less than all that is."""

    def key(row: Row) -> list[object]:
        keys = ((_rank(column.of(row)), ascending) for column, ascending in columns)
        return [rank if ascending else _Reversed(rank) for rank, ascending in keys]

    return lambda rows: _sorted(rows, key)


def _sorted(rows: Iterator[Row], key: Callable[[Row], list[object]]) -> Iterator[Row]:
    """In pieces, as `in_order` does it; what nobody takes is let go in pieces too."""
    pieces = list(iter(lambda: sorted(islice(rows, PIECE), key=key), []))
    try:
        yield from heapq.merge(*pieces, key=key)
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
    return 2, 0, _text(value)


class _Reversed(NamedTuple):
    """Compares the other way round."""

    rank: tuple[int, float, str]

    def __lt__(self, other: object) -> bool:
        assert isinstance(other, _Reversed)
        return self.rank > other.rank


# Tables


def column_type(rows: Iterable[Row], name: str) -> str:
    """What a table says of a column; a column without values is of texts."""
    value = next((row[name] for row in rows if row.get(name) is not None), "")
    for kind, told in ((str, "string"), (bool, "boolean"), (int, "integer"), (float, "number")):
        if isinstance(value, kind):
            return told
    return "object"
