"""What a database answers, as values. An answer that cannot be read is a database that cannot be used now (N22).

A head that is empty, a dump that was restored in part, a column that somebody has changed: somebody works at it, so the
node waits for the end of that, as it waits for a database that is away.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from duenotice.errors import Unavailable

T = TypeVar("T")

_HINT = "Is it being restored, or was it changed by hand? Restore all of it; this node goes on by itself."


def rows_of(name: str, kind: type[T], rows: Sequence[Any]) -> list[T]:
    """Each row as a value of this kind, a named tuple or a tuple."""
    try:
        return msgspec.convert(rows, list[kind])  # type: ignore[valid-type]
    except msgspec.ValidationError as error:
        raise _unreadable(name, f"{error}") from None


def row_of(name: str, kind: type[T], rows: Sequence[Any], table: str) -> T:
    """The one row of a table that always has one."""
    if len(rows) != 1:
        raise _unreadable(name, f"the table {table} has {len(rows)} rows instead of one")
    return rows_of(name, kind, rows)[0]


def read_with(name: str, read: Callable[[str], T], answer: Any) -> T:
    """What one of our functions has answered, as JSON in a text; all of them look at the head."""
    try:
        return read(answer)
    except (msgspec.MsgspecError, TypeError) as error:
        is_empty = answer is None or answer.startswith("[null")
        raise _unreadable(name, "the table head has no row" if is_empty else f"{error}") from None


def _unreadable(name: str, what: str) -> Unavailable:
    return Unavailable(f"{name} answers what cannot be read: {what.rstrip('.')}.", hint=_HINT)
