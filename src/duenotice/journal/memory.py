"""A journal that lives as long as its object: for tests, demos and simulations; keeps nothing on disk."""

from collections.abc import Iterator, Sequence

from duenotice.domain.snapshot import Snapshot
from duenotice.domain.transitions import Record
from duenotice.journal.codec import RECORDS, SNAPSHOTS, Row
from duenotice.journal.positions import refuse_unless_next, refuse_unless_reached


class MemoryJournal:
    """Keeps rows, not objects: a new engine on it reads what a new process would read from a disk."""

    blocking = False
    restored = False

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._snapshot: Row | None = None
        self.seen = 0

    def note_seen(self, position: int) -> None:
        """Remember that readers have seen so much."""
        self.seen = position

    def append(self, records: Sequence[Record]) -> None:
        """Store all records or none."""
        if not records:
            return
        refuse_unless_next(self.last_position(), records)
        self._rows += [RECORDS.pack(record) for record in records]

    def read(self, after: int, limit: int | None = None) -> Iterator[Record]:
        """The records behind a position, in order."""
        end = None if limit is None else after + limit
        return map(RECORDS.unpack, self._rows[after:end])

    def last_position(self) -> int:
        """The position of the newest record; 0 when there is none."""
        return len(self._rows)

    def snapshot(self) -> Snapshot | None:
        """The newest snapshot, if any."""
        return None if self._snapshot is None else SNAPSHOTS.unpack(self._snapshot)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep the newest snapshot; no record is ever removed."""
        refuse_unless_reached(self.last_position(), snapshot.position)
        if self._snapshot is None or snapshot.position >= self._snapshot.position:
            self._snapshot = SNAPSHOTS.pack(snapshot)

    def needs_upkeep(self) -> bool:
        """Never."""
        return False

    def maintain(self) -> None:
        """There is nothing to tidy up."""

    def close(self) -> None:
        """Nothing is held, and nothing is forgotten: the same object may be opened by another engine."""
