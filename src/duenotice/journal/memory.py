"""A journal that lives as long as its object: for tests, demos and simulations; keeps nothing on disk."""

from collections.abc import Iterator, Sequence

from duenotice.clock import Alive
from duenotice.domain.records import Record
from duenotice.domain.snapshot import Snapshot
from duenotice.journal.codec import RECORDS, SNAPSHOTS, Row
from duenotice.journal.positions import refuse_unless_next, refuse_unless_reached
from duenotice.wire.operator.from_domain import event_id_of

KEPT_RECORDS = 100_000
"""So that memory stays bounded (S24); what is not in a snapshot yet is kept anyway."""


class MemoryJournal:
    """Keeps rows, not objects: a new engine reads from it what a new process would read from a disk."""

    blocking = False
    restored = False

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._forgotten = 0
        self._events: dict[str, list[int]] = {}
        self._snapshot: Row | None = None
        self.seen = 0
        self.alive: Alive | None = None

    def note_seen(self, position: int) -> None:
        """Remember how far readers have seen."""
        self.seen = position

    def note_alive(self, alive: Alive) -> None:
        """Remember that VMs can be answered now."""
        self.alive = alive

    def append(self, records: Sequence[Record]) -> None:
        """Store all records or none."""
        if not records:
            return
        refuse_unless_next(self.last_position(), records)
        self._rows += [RECORDS.pack(record) for record in records]
        for record in records:
            if event_id := event_id_of(record):
                self._events.setdefault(event_id, []).append(record.position)

    def read(self, after: int, limit: int | None = None) -> Iterator[Record]:
        """The records behind a position, in order; the oldest may be forgotten."""
        start = max(0, after - self._forgotten)
        return map(RECORDS.unpack, self._rows[start : None if limit is None else start + limit])

    def index(self) -> bool:
        """There is nothing to do: events are indexed at once."""
        return False

    def find(self, prefix: str, limit: int) -> list[Record]:
        """The first records about events whose id begins like this."""
        found = sorted(at for key, places in self._events.items() if key.startswith(prefix) for at in places)
        return [RECORDS.unpack(self._rows[position - self._forgotten - 1]) for position in found[:limit]]

    def first_position(self) -> int:
        """The position of the oldest record that is kept."""
        return self._forgotten + 1

    def last_position(self) -> int:
        """The position of the newest record; 0 when there is none."""
        return self._forgotten + len(self._rows)

    def snapshot(self) -> Snapshot | None:
        """The newest snapshot, if any."""
        return None if self._snapshot is None else SNAPSHOTS.unpack(self._snapshot)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep the newest snapshot, and behind it not too many of the records that it stands for."""
        refuse_unless_reached(self.last_position(), snapshot.position)
        if self._snapshot is None or snapshot.position >= self._snapshot.position:
            self._snapshot = SNAPSHOTS.pack(snapshot)
            self._forget(min(snapshot.position, self.seen, self.last_position() - KEPT_RECORDS))

    def _forget(self, position: int) -> None:
        if position > self._forgotten:
            del self._rows[: position - self._forgotten]
            self._forgotten = position
            kept = {key: [at for at in places if at > position] for key, places in self._events.items()}
            self._events = {key: places for key, places in kept.items() if places}

    def needs_upkeep(self) -> bool:
        """Never."""
        return False

    def maintain(self) -> None:
        """There is nothing to tidy up."""

    def close(self) -> None:
        """Nothing is held, and nothing is forgotten: the same object may be opened by another engine."""
