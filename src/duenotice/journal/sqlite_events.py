"""Which records are about which event: an index beside them, made when somebody asks, so that appends stay fast.

It can always be made again from the records. What it finds is read from the records, with their checksums.
"""

from collections.abc import Callable
from typing import Any

import apsw

from duenotice.journal.sqlite_checks import newest_position, row_of

INDEXED_AT_ONCE = 5_000
"""Records per step: commits wait no longer than that takes."""

_EVENT_ID = (
    """coalesce(json_extract(payload, '$.transition.event.id'), json_extract(payload, '$.transition.event_id'))"""
)
_INDEX = f"""INSERT OR IGNORE INTO events SELECT id, position FROM
    (SELECT {_EVENT_ID} AS id, position FROM records WHERE position BETWEEN ? AND ?) WHERE id IS NOT NULL"""
_INDEXED = "SELECT position FROM indexed"
_MOVE_INDEXED = "UPDATE indexed SET position = ?"
_FIND = """SELECT records.position, format, crc, CAST(payload AS BLOB) FROM records
    WHERE position IN (SELECT position FROM events WHERE id >= ?1 AND id < ?1 || char(0x10FFFF))
    ORDER BY position LIMIT ?2"""

Ask = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]


def is_behind(ask: Ask, newest: int) -> bool:
    """Whether there are records that the index does not know."""
    return bool(ask(_INDEXED, ())[0][0] < newest)


def index_some(db: apsw.Connection) -> None:
    """One step; to be called in a transaction."""
    (done,) = row_of(db, _INDEXED)
    last = min(done + INDEXED_AT_ONCE, newest_position(db))
    db.execute(_INDEX, (done + 1, last))
    db.execute(_MOVE_INDEXED, (last,))


def find(ask: Ask, prefix: str, limit: int) -> list[tuple[Any, ...]]:
    """The rows of the first records about events whose id begins like this."""
    return ask(_FIND, (prefix, limit))
