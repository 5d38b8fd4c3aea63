"""What the engine needs from outside: a journal that is ordered, durable and never guesses."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from duenotice.clock import Alive
from duenotice.domain.records import Record
from duenotice.domain.snapshot import Snapshot


class Journal(Protocol):
    """An ordered log of records plus the newest snapshot; every implementation passes one contract suite.

    The methods are plain and may block on a disk; `blocking` tells the engine to call them off the loop.
    Positions begin at 1 and have no gaps; a journal in memory may forget old records that a snapshot stands for.
    A method that cannot do its work raises `Unavailable` (try again later) or `Damaged` (what is stored cannot be
    trusted), and then nothing of that call is kept.
    """

    blocking: bool

    @property
    def restored(self) -> bool:
        """Whether this is an older copy put in place: VMs may have seen more than it knows.

        It stays so, over any number of starts, until an `IncarnationsLifted` is stored (S3).
        """

    @property
    def seen(self) -> int:
        """Up to which position readers have seen the journal, as noted last; what follows they may not have seen."""

    def note_seen(self, position: int) -> None:
        """Remember that readers have seen all up to here. It may get lost, but it is never too high (S2).

        Called on the loop, so it waits for no disk.
        """

    @property
    def alive(self) -> Alive | None:
        """The last moment in which VMs could be answered, as noted last."""

    def note_alive(self, alive: Alive) -> None:
        """Remember that VMs can be answered now (S25). It survives kill -9; a power loss may leave anything.

        Called on the loop, so it waits for no disk.
        """

    def append(self, records: Sequence[Record]) -> None:
        """Store all records or none; when this returns they survive kill -9 and power loss (S5)."""

    def read(self, after: int, limit: int | None = None) -> Iterator[Record]:
        """The records behind a position, in order, each checked as it is read."""

    def index(self) -> bool:
        """Index some more records by their event; returns whether there is more to do."""

    def find(self, prefix: str, limit: int) -> list[Record]:
        """The first records of events whose id begins like this, in order; all, once nothing is left to `index`."""

    def first_position(self) -> int:
        """The position of the oldest record that is kept."""

    def last_position(self) -> int:
        """The position of the newest record; 0 when there is none."""

    def snapshot(self) -> Snapshot | None:
        """The newest snapshot, if any."""

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Store a snapshot durably, in place of older ones; no record is ever removed."""

    def needs_upkeep(self) -> bool:
        """Whether `maintain` has something to do; cheap, and safe to ask on the loop."""

    def maintain(self) -> None:
        """Upkeep of the journal that would delay a commit; called when nothing else waits."""

    def close(self) -> None:
        """Close everything."""
