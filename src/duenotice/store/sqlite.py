"""The embedded journal: one SQLite file that survives kill -9 and power loss (S5), and is never emptied silently."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import apsw
import structlog

from duenotice.clock import Alive
from duenotice.domain.records import IncarnationsLifted, Record
from duenotice.domain.snapshot import Snapshot
from duenotice.errors import Damaged, Unavailable
from duenotice.store.codec import RECORDS, SNAPSHOTS, Row, mark_of, refuse_unless_next, refuse_unless_reached
from duenotice.store.sqlite_database import SqliteDatabase
from duenotice.store.sqlite_file import newest_position, row_of

TIDY_PAGES = 1_000
"""`maintain` moves the write-ahead log into the database from this size on (4 MiB)."""
OVERDUE_PAGES = 16_000
"""An append does so itself from this size on (64 MiB): if the service was never idle, the disk must not fill up."""
RECORDS_AT_ONCE = 256
KEPT_SNAPSHOTS = 2

_ADD_RECORD = "INSERT INTO records VALUES (?, ?, ?, CAST(? AS TEXT))"
_ADD_NEXT_RECORD = """INSERT INTO records SELECT ?1, ?2, ?3, CAST(?4 AS TEXT)
    WHERE ?1 = 1 + (SELECT coalesce(max(position), 0) FROM records)"""
_RECORDS_BETWEEN = """SELECT position, format, crc, CAST(payload AS BLOB) FROM records
    WHERE position BETWEEN ? AND ? ORDER BY position"""
_PUT_SNAPSHOT = "INSERT OR REPLACE INTO snapshots SELECT ?, ?, ?, CAST(value AS TEXT) FROM carray(?)"
_FORGET_OLD_SNAPSHOTS = """DELETE FROM snapshots WHERE position NOT IN
    (SELECT position FROM snapshots ORDER BY position DESC LIMIT ?)"""
_SNAPSHOT_POSITIONS = "SELECT position FROM snapshots ORDER BY position DESC"
_SNAPSHOT_AT = "SELECT position, format, crc, CAST(payload AS BLOB) FROM snapshots WHERE position = ?"

INDEXED_AT_ONCE = 5_000
"""Records per step of the index of events: commits wait no longer than that takes."""
# The index is made when somebody asks, so that appends stay fast, and can always be made again from the records. What
# it finds is read from the records, with their checksums.
_EVENT_ID = "coalesce(json_extract(payload, '$.transition.event.id'), json_extract(payload, '$.transition.event_id'))"
_INDEX = f"""INSERT OR IGNORE INTO events SELECT id, position FROM
    (SELECT {_EVENT_ID} AS id, position FROM records WHERE position BETWEEN ? AND ?) WHERE id IS NOT NULL"""
_INDEXED = "SELECT position FROM indexed"
_MOVE_INDEXED = "UPDATE indexed SET position = ?"
_FIND = """SELECT records.position, format, crc, CAST(payload AS BLOB) FROM records
    WHERE position IN (SELECT position FROM events WHERE id >= ?1 AND id < ?1 || char(0x10FFFF))
    ORDER BY position LIMIT ?2"""

_log = structlog.get_logger()


class SqliteJournal:
    """`journal.db` in a data directory that no other process may use meanwhile."""

    blocking = True

    def __init__(self, data_dir: Path) -> None:
        self._database = SqliteDatabase(data_dir)

    @property
    def restored(self) -> bool:
        """Whether the directory has no note of how far this journal had come; until incarnations are lifted."""
        return self._database.restored

    @property
    def seen(self) -> int:
        """Up to which position readers have seen the journal, as noted last."""
        return self._database.seen

    def note_seen(self, position: int) -> None:
        """Remember how far readers have seen."""
        self._database.note_seen(position)

    @property
    def alive(self) -> Alive | None:
        """The last moment in which VMs could be answered, as noted last."""
        return self._database.alive

    def note_alive(self, alive: Alive) -> None:
        """Remember that VMs can be answered now."""
        self._database.note_alive(alive)

    def append(self, records: Sequence[Record]) -> None:
        """Store all records or none; when this returns they survive kill -9 and power loss (S5)."""
        if not records:
            return
        rows = [RECORDS.pack(record) for record in records]
        lift = _lift_in(zip(records, rows, strict=True)) if self.restored else None
        if lift:
            self._database.note_lift(mark_of(lift))

        def add(db: apsw.Connection) -> None:
            refuse_unless_next(newest_position(db), records)
            db.executemany(_ADD_RECORD, rows)

        # Most commands lead to one record. To check and store it in one statement spares three calls of SQLite.
        if len(rows) != 1 or not self._database.changed_by(_ADD_NEXT_RECORD, rows[0]):
            self._database.within(add)
        if lift:
            self._database.end_restore(lift.position)
        self._database.note(rows[-1].position)
        if self._database.log_pages >= OVERDUE_PAGES:
            with suppress(Unavailable):  # the records are safe in the log, and the next append tries again
                self._move_log()

    def read(self, after: int, limit: int | None = None) -> Iterator[Record]:
        """The records behind a position, in order, each checked as it is read; ends where it ended at first."""
        with self._database.translated_errors():
            yield from self._records(after, limit)

    def index(self) -> bool:
        """A step of the index of events; whether there is more to do."""
        with self._database.translated_errors():
            is_behind = bool(self._database.ask(_INDEXED)[0][0] < self._database.newest_position())
        if is_behind:
            self._database.within(_index_some)
        return is_behind

    def find(self, prefix: str, limit: int) -> list[Record]:
        """The first records about events whose id begins like this, as far as they are indexed."""
        with self._database.translated_errors():
            return [RECORDS.unpack(Row._make(row)) for row in self._database.ask(_FIND, (prefix, limit))]

    def first_position(self) -> int:
        """All are kept."""
        return 1

    def last_position(self) -> int:
        """The position of the newest record; 0 when there is none."""
        with self._database.translated_errors():
            return self._database.newest_position()

    def snapshot(self) -> Snapshot | None:
        """The newest intact snapshot. If one is damaged, the records are used instead, if all of them are intact."""
        with self._database.translated_errors():
            positions = [position for (position,) in self._database.ask(_SNAPSHOT_POSITIONS)]
            found = next(filter(None, map(self._intact_snapshot, positions)), None)
            start = found.position if found else 0
            if positions and start != positions[0]:
                deque(self._records(start, None), maxlen=0)
            return found

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Store a snapshot durably and forget all but the newest two; no record is ever removed."""
        row = SNAPSHOTS.pack(snapshot)

        def put(db: apsw.Connection) -> None:
            refuse_unless_reached(newest_position(db), row.position)
            # As a value, all of it would be copied before SQLite begins, and no other thread could run (S26).
            db.execute(_PUT_SNAPSHOT, (*row[:3], apsw.carray((row.payload,))))
            db.execute(_FORGET_OLD_SNAPSHOTS, (KEPT_SNAPSHOTS,))

        self._database.within(put)

    def needs_upkeep(self) -> bool:
        """Whether the write-ahead log has grown."""
        return self._database.log_pages >= TIDY_PAGES

    def maintain(self) -> None:
        """Upkeep for an idle moment: move the write-ahead log into the database if it has grown."""
        if self.needs_upkeep():
            self._move_log()

    def check_files(self) -> None:
        """Raise if a file was renamed, deleted or replaced, as each commit does; or overwritten by somebody else."""
        self._database.check_bytes()

    def close(self) -> None:
        """Leave one clean file and release the lock."""
        self._database.close()

    def _move_log(self) -> None:
        with self._database.translated_errors():
            self._database.move_log()

    def _records(self, after: int, limit: int | None) -> Iterator[Record]:
        newest = self._database.newest_position()
        end = newest if limit is None else min(newest, after + limit)
        for first in range(after + 1, end + 1, RECORDS_AT_ONCE):
            last = min(end, first + RECORDS_AT_ONCE - 1)
            rows = self._database.ask(_RECORDS_BETWEEN, (first, last))
            if [row[0] for row in rows] != list(range(first, last + 1)):
                raise Damaged(f"some of the records {first} to {last} are missing")
            yield from map(RECORDS.unpack, map(Row._make, rows))

    def _intact_snapshot(self, position: int) -> Snapshot | None:
        rows = self._database.ask(_SNAPSHOT_AT, (position,))
        if not rows:
            raise Damaged(f"snapshot {position} is listed but cannot be found")
        try:
            return SNAPSHOTS.unpack(Row._make(rows[0]))
        except Damaged as error:
            _log.warning(error.message, action="snapshot-skipped", file=str(self._database.path))
            return None


def _lift_in(records: Iterable[tuple[Record, Row]]) -> Row | None:
    """The first of these that lifts the incarnations."""
    return next((row for record, row in records if isinstance(record.transition, IncarnationsLifted)), None)


def _index_some(db: apsw.Connection) -> None:
    (done,) = row_of(db, _INDEXED)
    last = min(done + INDEXED_AT_ONCE, newest_position(db))
    db.execute(_INDEX, (done + 1, last))
    db.execute(_MOVE_INDEXED, (last,))
