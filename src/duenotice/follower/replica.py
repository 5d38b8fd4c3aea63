"""A follower's copy of the state, folded from what its node tells; not for the loop, and it shows nothing itself.

There are two states, as in a node's writer: the one that readers see, and the one that goes ahead of it. When all of it
may be shown they change places, and the other catches up by the same `fold`.
"""

from collections.abc import Sequence

from duenotice.domain.apply import Touched, fold, touched
from duenotice.domain.records import Record
from duenotice.domain.snapshot import Snapshot, difference, restore
from duenotice.domain.state import State
from duenotice.errors import Conflict
from duenotice.store.codec import RECORDS, SNAPSHOTS, Row
from duenotice.wire import replication as f

Data = f.LogRecord | f.PartialSnapshot | f.Skipped


class Replica:
    """Of one journal, `node` says which; of some chosen VMs each new state comes as a whole."""

    def __init__(self, node: str, snapshot: Snapshot, chosen: bool = False) -> None:
        self.node, self._chosen = node, chosen
        self.position = snapshot.position
        self._ahead = restore(snapshot)
        self._shown: State | None = None
        self._unseen: list[Record] = []

    def take(self, lines: Sequence[Data]) -> Touched:
        """Fold what was told; tells all that differs from what readers see."""
        for line in lines:
            match line:
                case f.LogRecord():
                    self._fold(RECORDS.unpack(Row(line.position, line.format, line.crc, bytes(line.record))))
                case f.PartialSnapshot():
                    row = Row(line.position, line.format, line.crc, bytes(line.snapshot))
                    self._ahead = restore(SNAPSHOTS.unpack(row))
            self.position = max(self.position, line.position)
        if self._shown is None:
            return Touched(set(), set(), set())
        return self._touched(self._shown)

    def newest(self, before: State) -> tuple[State, Touched]:
        """The state that goes ahead, and what differs from what readers see: ours, or `before` when it is the first."""
        return self._ahead, difference(before, self._ahead) if self._shown is None else self._touched(self._shown)

    def showed(self) -> None:
        """Readers have it."""
        before, self._shown = self._shown, self._ahead
        if self._chosen:
            return
        if before is None:
            self._ahead = self._shown.copy()
        else:
            self._ahead = before
            for record in self._unseen:
                fold(before, record)
        self._unseen = []

    def _touched(self, before: State) -> Touched:
        return difference(before, self._ahead) if self._chosen else touched(before, self._ahead, self._unseen)

    def _fold(self, record: Record) -> None:
        if record.position <= self._ahead.position:
            return
        if record.position != self._ahead.position + 1:
            raise Conflict("A record is missing.", hint="Begin with the snapshot again.")
        fold(self._ahead, record)
        self._unseen.append(record)
