"""The journal in PostgreSQL: what a node stores there, any other can go on from; an append is fenced (N01, S21)."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import structlog

from duenotice.clock import Alive, monotonic
from duenotice.domain.records import Record
from duenotice.domain.snapshot import Snapshot
from duenotice.engine.fenced_journal import FoundCopy
from duenotice.engine.members import Deposed
from duenotice.errors import Damaged, InvariantBroken, Rewound
from duenotice.store.codec import RECORDS, SNAPSHOTS, Row, refuse_unless_reached
from duenotice.store.data_dir import CheckpointFile, LocalCheckpoint
from duenotice.store.postgres_connection import Connection
from duenotice.store.postgres_errors import row_of, rows_of, translated_errors
from duenotice.store.postgres_members import PostgresMembers, lifts

RECORDS_AT_ONCE = 256
KEPT_SNAPSHOTS = 2
SNAPSHOT_ENOUGH = 600.0
"""Seconds to store or read a snapshot: that of a million VMs is large."""

_HEAD = """SELECT position, shown, origin = duenotice.origin(),
    extract(epoch FROM clock_timestamp() - timestamptz '2020-01-01 00:00:00+00')::float8 FROM duenotice.head"""
_POSITION = "SELECT position FROM duenotice.head"
_CHECKSUM = "SELECT crc FROM duenotice.records WHERE position = %s"
_RECORDS_BETWEEN = """SELECT position, format, crc, payload FROM duenotice.records
    WHERE position BETWEEN %s AND %s ORDER BY position"""
# One round trip: where the journal ends, whether our newest record is still the one that we know, and the next records.
_NEXT_RECORDS = """SELECT head.position, (SELECT crc FROM duenotice.records WHERE position = %s),
    next.position, next.format, next.crc, next.payload
    FROM duenotice.head LEFT JOIN duenotice.records AS next ON next.position BETWEEN %s AND least(head.position, %s)
    ORDER BY next.position"""
# The index of events is used first, however many records there are: with a plain LIMIT the planner may read them all.
_FIND = """WITH found AS MATERIALIZED (SELECT position FROM duenotice.records WHERE event >= %s AND event < %s)
    SELECT position, format, crc, payload FROM duenotice.records
    WHERE position IN (SELECT position FROM found ORDER BY position LIMIT %s) ORDER BY position"""
_SNAPSHOT_POSITIONS = "SELECT position FROM duenotice.snapshots ORDER BY position DESC"
_SNAPSHOT_AT = "SELECT position, format, crc, payload FROM duenotice.snapshots WHERE position = %s"
_SAVE_SNAPSHOT = "SELECT duenotice.save_snapshot(%s, %s, %s, %s, %s, %s)::text"
_MARK_AS_COPY = "UPDATE duenotice.head SET origin = '' WHERE leader = %s AND epoch = %s RETURNING true"
_LOST = (
    "Its last commits were lost, perhaps in a failover without a synchronous standby. "
    "duenotice goes on from what is there, and lifts the incarnations."
)
_BEYOND_UTF8 = b"\xff"

_log = structlog.get_logger()


class PostgresJournal:
    """The records and snapshots of a database, as one life of a node writes them under its epoch; all may read.

    A life that does not lead is refused when it writes.
    """

    blocking = True

    def __init__(self, url: str, members: PostgresMembers, checkpoint: CheckpointFile, life: str) -> None:
        self.life = life
        self.epoch = 0
        self._members = members
        self._checkpoint = checkpoint
        self._connection = Connection(url)
        self._last = (0, 0)  # the newest record that we have read or stored, and its checksum
        self._reached = 0
        self.found = FoundCopy(0, 0)
        self._servers_time = (0.0, 0.0)  # its seconds since 2020, and ours since boot
        members.on_stored = self._note_stored
        try:
            self._look_around(checkpoint.latest)
        except BaseException:
            self._connection.close()
            raise

    def _look_around(self, known: LocalCheckpoint) -> None:
        """Is this the journal that we left? If not, VMs may have seen more than it knows (S3)."""
        position, shown, is_here = self._head()
        self._reached, self.found = position, FoundCopy(position, known.floor)
        self._members.is_copy = position > 0 and not (is_here and self._has(known.position, known.crc))
        self.seen = min(position, max(shown, known.seen))
        self.alive = known.alive

    def look_again(self) -> None:
        """We lead from now on: if this is another server, or another timeline, nobody knows what it has lost (N14)."""
        position, _, is_here = self._head()
        if position > 0 and not is_here:
            self.found, self._members.is_copy = FoundCopy(position, self._checkpoint.latest.floor), True

    def _head(self) -> tuple[int, int, bool]:
        found = row_of(self.name, tuple[int, int, bool, float], self._connection.ask(_HEAD), "head")
        self._servers_time = found[-1], monotonic()
        return found[:-1]

    @property
    def name(self) -> str:
        """The database, as people are told of it: without its password."""
        return self._connection.name

    def seconds_since_2020(self) -> int:
        """By the clock of the server, as it was when we looked last, and by the time that has passed here since."""
        there, here = self._servers_time
        return int(there + monotonic() - here)

    def _has(self, position: int, crc: int) -> bool:
        return position == 0 or self._connection.ask(_CHECKSUM, (position,)) == [(crc,)]

    @property
    def restored(self) -> bool:
        """Whether this is a copy put in place; until incarnations are lifted."""
        return self._members.is_copy

    def note_lifted(self, position: int, floor: int) -> None:
        """Incarnations were last lifted at this position, to at least this number."""
        if floor > self._checkpoint.latest.floor:
            self._checkpoint.note(floor=floor)
        if position > self.found.position and floor > self.found.floor:
            self._members.is_copy = False  # another node has done it, and knew how far they were lifted before

    def note_seen(self, position: int) -> None:
        """Remember how far readers have seen; the database knows it from `show`."""
        self.seen = position
        if not self.restored:
            self._checkpoint.note(seen=position)

    def note_alive(self, alive: Alive) -> None:
        """Remember that VMs can be answered now; the database has the steady time of the leader's last beat."""
        self.alive = alive
        if not self.restored:
            self._checkpoint.note(alive=alive)

    def append(self, records: Sequence[Record]) -> None:
        """Store all records or none, if we lead; when this returns they survive kill -9 and power loss (S5)."""
        if not records:
            return
        try:
            self._members.append(self.life, self.epoch, records)
        except InvariantBroken:
            self._newest()  # if records are gone that we had stored, that is what it says
            raise

    def _note_stored(self, last: Row) -> None:
        """This is in the database: if it is not any more, then it has lost something."""
        if last.position > self._last[0]:
            self._last = last.position, last.crc
            self._reached = max(self._reached, last.position)
            if not self.restored:
                self._checkpoint.note(position=last.position, crc=last.crc)

    def read(self, after: int, limit: int | None = None) -> Iterator[Record]:
        """The records behind a position, in order, each checked as it is read; ends where it ended at first."""
        with translated_errors(self.name):
            yield from self._records(after, limit)

    def index(self) -> bool:
        """There is nothing to do: each record is stored with its event."""
        return False

    def find(self, prefix: str, limit: int) -> list[Record]:
        """The first records about events whose id begins like this."""
        begin = prefix.encode()
        with translated_errors(self.name):
            rows = self._connection.ask(_FIND, (begin, begin + _BEYOND_UTF8, limit))
            return [RECORDS.unpack(row) for row in self._rows(rows)]

    def first_position(self) -> int:
        """All are kept."""
        return 1

    def last_position(self) -> int:
        """The position of the newest record; 0 when there is none."""
        with translated_errors(self.name):
            return self._newest()

    def snapshot(self) -> Snapshot | None:
        """The newest intact snapshot. If one is damaged, the records are used instead, if all of them are intact."""
        with translated_errors(self.name):
            positions = [position for (position,) in self._connection.ask(_SNAPSHOT_POSITIONS)]
            found = next(filter(None, map(self._intact_snapshot, positions)), None)
            start = found.position if found else 0
            if positions and start != positions[0]:
                deque(self._records(start, None), maxlen=0)
            return found

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Store a snapshot durably and forget all but the newest two; no record is ever removed."""
        row = SNAPSHOTS.pack(snapshot)
        values = (self.life, row.position, row.format, row.crc, row.payload.decode(), KEPT_SNAPSHOTS)
        ((answer,),) = self._connection.ask(_SAVE_SNAPSHOT, values, patience=SNAPSHOT_ENOUGH)
        if answer == '"deposed"':
            raise Deposed("Another node leads by now.", hint="It takes the snapshots.")
        refuse_unless_reached(int(answer), row.position)

    def mark_as_copy(self) -> None:
        """Let the next start treat this as an older copy that was put in place: it lifts the incarnations (S3)."""
        self._connection.ask(_MARK_AS_COPY, (self.life, self.epoch))

    def needs_upkeep(self) -> bool:
        """Never: PostgreSQL has its own."""
        return False

    def maintain(self) -> None:
        """There is nothing to tidy up."""

    def close(self) -> None:
        """Close the database and release the data directory."""
        self._connection.close()
        self._members.close()
        self._checkpoint.close()

    def _newest(self) -> int:
        (position,) = row_of(self.name, tuple[int], self._connection.ask(_POSITION), "head")
        self._refuse_if_rewound(position)
        return position

    def _refuse_if_rewound(self, position: int) -> None:
        if position < self._reached:
            raise Rewound(
                f"it ends at record {position} although record {self._reached} was stored",
                hint=_LOST,
            )

    def _records(self, after: int, limit: int | None) -> Iterator[Record]:
        most = RECORDS_AT_ONCE if limit is None else min(limit, RECORDS_AT_ONCE)
        known, crc = self._last
        answer = self._connection.ask(_NEXT_RECORDS, (known, after + 1, after + most))
        newest, found_crc = row_of(self.name, tuple[int, int | None], [row[:2] for row in answer[:1]], "head")
        self._refuse_if_rewound(newest)
        end = newest if limit is None else min(newest, after + limit)
        if after <= known and known and found_crc != crc:  # others may have written behind what is left
            for piece in _pieces(after, end):
                self._between(*piece)  # damage says more than that something is lost
            raise Rewound(f"record {known} is not the one that was stored", hint=_LOST)
        ready: Any = [row[2:] for row in answer if row[2] is not None]
        for piece in _pieces(after, end):
            rows, found = self._between(*piece, ready)
            ready = None
            if not self.found.floor and lifts([record for record in found if record.position > self.found.position]):
                self._members.is_copy = False  # another node has done it; if we know of more, `note_lifted` decides
            self._note_stored(rows[-1])
            yield from found

    def _between(self, first: int, last: int, answer: Any = None) -> tuple[list[Row], list[Record]]:
        """`answer` is what the database has said to that, if it was asked before."""
        rows = self._rows(self._connection.ask(_RECORDS_BETWEEN, (first, last)) if answer is None else answer)
        if [row.position for row in rows] != list(range(first, last + 1)):
            raise Damaged(f"some of the records {first} to {last} are missing")
        return rows, [RECORDS.unpack(row) for row in rows]

    def _rows(self, found: Sequence[Any]) -> list[Row]:
        rows = rows_of(self.name, tuple[int, int, int, str], found)
        return [Row(position, format, crc, payload.encode()) for position, format, crc, payload in rows]

    def _intact_snapshot(self, position: int) -> Snapshot | None:
        rows = self._connection.ask(_SNAPSHOT_AT, (position,), patience=SNAPSHOT_ENOUGH)
        if not rows:
            return None  # a newer one has come, and this one has gone, since we looked
        try:
            return SNAPSHOTS.unpack(self._rows(rows)[0])
        except Damaged as error:
            _log.warning(error.message, action="snapshot-skipped", database=self.name)
            return None


def _pieces(after: int, end: int) -> Iterator[tuple[int, int]]:
    """First and last positions of what is read at once."""
    for first in range(after + 1, end + 1, RECORDS_AT_ONCE):
        yield first, min(end, first + RECORDS_AT_ONCE - 1)
