"""The disk of a node, and the journal on it: the codec's bytes, written and synced as SQLite does it, or not quite.

A commit is rows that are written and then synced. What is synced survives anything but damage. What was written and
not synced is there after a kill, and may be gone after a power loss, wholly or in part; of a commit that is there only
in part nothing counts. A commit whose sync failed is undone, but may be found again after the next start.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from random import Random
from typing import Any, NamedTuple

from duenotice.clock import Alive, Instant
from duenotice.domain.records import IncarnationsLifted, Record
from duenotice.domain.snapshot import Snapshot
from duenotice.errors import Damaged, Unavailable
from duenotice.store.codec import RECORDS, Mark, Row, mark_of
from duenotice.store.data_dir import restore_check
from duenotice.store.memory import MemoryJournal
from duenotice.wire.operator.from_domain import event_id_of
from simulator.loop import Killed
from simulator.machine import Machine


class Trouble(Enum):
    """What happens to the next commit."""

    KILL_BEFORE = "crash-before-commit"
    KILL_IN = "crash-in-commit"
    KILL_AFTER = "crash-after-commit"
    SYNC_FAILS = "fsync-error"
    SYNC_LIES = "stored-but-unanswered"


class Notes(NamedTuple):
    """What a node notes beside its journal; it survives a kill."""

    reached: int | None = None
    lifted_with: Mark | None = None
    seen: int | None = None
    alive: Alive | None = None


class Committed(NamedTuple):
    """A record, the world's time when it was decided, and when it could first be read; None: not yet."""

    record: Record
    decided: float
    visible: float | None = None


class Disk:
    """What is left of a node when no process is left; `on_kill` kills the process that writes to it."""

    def __init__(self, machine: Machine, dice: Random) -> None:
        self.machine, self.dice = machine, dice
        self.rows: list[Row] = []
        self.snapshot: Row | None = None
        self.notes = Notes()
        self.unsynced: list[Row] = []
        """Rows of a commit that was not synced: gone while the process runs, perhaps found after the next start."""
        self.trouble: Trouble | None = None
        self.is_full = False
        self.slowness = 0.0
        self.backup: list[Row] | None = None
        self.on_kill: Callable[[], None] = lambda: None
        self.came_true: Callable[[str], None] = lambda _: None
        self.on_commit: Callable[[Sequence[Record], Sequence[Row], float], None] = lambda *_: None
        self.on_snapshot: Callable[[Row], None] = lambda _: None
        self.log: dict[int, Committed] = {}
        """Each record that is stored now, with when it was decided."""

    @property
    def works(self) -> bool:
        """Whether nothing goes wrong with it now."""
        return not self.is_full and not self.slowness and self.trouble is None

    def write(self, records: Sequence[Record]) -> None:
        """One commit."""
        begun = self.machine.world_time
        trouble, self.trouble = self.trouble, None
        if self.slowness:
            self.machine.wait(self.slowness * self.dice.uniform(0.3, 1.0))
        if self.is_full:
            self.came_true("disk-full")
            raise Unavailable("The disk is full.", hint="Make room.")
        if trouble is not None:
            self.came_true(trouble.value)
        if trouble is Trouble.KILL_BEFORE:
            self._kill()
        rows = [RECORDS.pack(record) for record in records]
        if trouble in (Trouble.KILL_IN, Trouble.SYNC_FAILS):
            # Of a commit that is there only in part nothing counts: its checksums do not match.
            self.unsynced = rows if trouble is Trouble.SYNC_FAILS or self.dice.random() < 0.5 else []
            if trouble is Trouble.KILL_IN:
                self._kill()
            raise Unavailable("The disk could not sync.", hint="Look at it.")
        self.unsynced = []
        self.rows += rows
        self.log.update((record.position, Committed(record, begun)) for record in records)
        self.on_commit(records, rows, begun)
        if trouble is Trouble.KILL_AFTER:
            self._kill()
        if trouble is Trouble.SYNC_LIES:
            raise Unavailable("The disk did not answer in time.", hint="Look at it.")

    def _kill(self) -> None:
        self.on_kill()
        raise Killed

    def recover(self) -> None:
        """A new process opens it: a commit that was written and not synced counts, if all of it is there."""
        rows, self.unsynced = self.unsynced, []
        if rows and rows[0].position == len(self.rows) + 1:
            records = [RECORDS.unpack(row) for row in rows]
            self.rows += rows
            self.log.update((record.position, Committed(record, self.machine.world_time)) for record in records)
            self.on_commit(records, rows, self.machine.world_time)

    def lose_power(self) -> None:
        """Nothing that was not synced is safe, and notes may be older than they were."""
        if self.dice.random() < 0.7:
            self.unsynced = []
        self.notes = self.notes._replace(
            seen=self.notes.seen if self.dice.random() < 0.5 else min(self.notes.seen or 0, len(self.rows) // 2)
        )

    def back_up(self) -> None:
        """Copy what is stored, in place of an older copy."""
        self.backup = list(self.rows)

    def restore(self) -> int:
        """Put the copy in place, as people do it: a new directory without notes. Returns where it ends."""
        assert self.backup is not None
        self.rows, self.unsynced, self.snapshot, self.notes = list(self.backup), [], None, Notes()
        self.log = {position: kept for position, kept in self.log.items() if position <= len(self.rows)}
        return len(self.rows)

    def damage(self, position: int) -> None:
        """A bit flips in a stored record."""
        row = self.rows[position - 1]
        at = self.dice.randrange(len(row.payload))
        flipped = bytes([row.payload[at] ^ (1 << self.dice.randrange(8))])
        self.rows[position - 1] = row._replace(payload=row.payload[:at] + flipped + row.payload[at + 1 :])

    @property
    def is_damaged(self) -> bool:
        """Whether a record does not match its checksum any more."""
        try:
            for row in self.rows:
                RECORDS.unpack(row)
        except Damaged:
            return True
        return False


class DiskJournal(MemoryJournal):
    """The journal of a lone node: it keeps rows in memory and writes each commit to its disk."""

    blocking = True

    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self._disk = disk
        disk.recover()
        self._rows = disk.rows
        for record in map(RECORDS.unpack, self._rows):  # every record is checked, as at every start
            if event_id := event_id_of(record):
                self._events.setdefault(event_id, []).append(record.position)
        self._snapshot = disk.snapshot
        newest, notes = len(self._rows), disk.notes
        if notes.reached is not None and notes.reached > newest:
            raise Damaged(f"it ends at record {newest} although record {notes.reached} was stored")
        self.restored, self.seen = restore_check(newest, notes.reached, notes.seen, notes.lifted_with, self._holds)
        self.alive = notes.alive
        self._note(reached=newest, seen=self.seen)

    def _holds(self, mark: Mark) -> bool:
        return mark in map(mark_of, self._rows)

    def _note(self, **news: Any) -> None:
        """Not in a restored journal: a start after a kill must still see that it is, until incarnations are lifted."""
        if not self.restored:
            self._disk.notes = self._disk.notes._replace(**news)

    def note_seen(self, position: int) -> None:
        """Remember how far readers have seen."""
        self.seen = position
        self._note(seen=position)

    def note_alive(self, alive: Alive) -> None:
        """Remember that VMs can be answered now."""
        self.alive = alive
        self._note(alive=alive)

    def append(self, records: Sequence[Record]) -> None:
        """Store all records or none."""
        if not records:
            return
        if self.restored and (lift := _lift_in(records)):
            self._disk.notes = self._disk.notes._replace(lifted_with=mark_of(RECORDS.pack(lift)))
        self._disk.write(records)
        for record in records:
            if event_id := event_id_of(record):
                self._events.setdefault(event_id, []).append(record.position)
        if _lift_in(records):
            self.restored = False
        self._note(reached=records[-1].position)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep the newest snapshot; no record is ever removed."""
        if self._disk.is_full:
            raise Unavailable("The disk is full.", hint="Make room.")
        super().save_snapshot(snapshot)
        if (row := self._snapshot) is not None and row is not self._disk.snapshot:
            self._disk.snapshot = row
            self._disk.on_snapshot(row)


def _lift_in(records: Iterable[Record]) -> Record | None:
    return next((record for record in records if isinstance(record.transition, IncarnationsLifted)), None)


def truth(record: Record, decided: float, fastest: float) -> Instant:
    """The moment of a record as checkers see it: the time of day it says, and the world's own time.

    Clocks may drift by a little, so the world's time counts as if it were the fastest of them.
    """
    return Instant(record.at, round(decided * (1 + fastest) * 1_000_000))
