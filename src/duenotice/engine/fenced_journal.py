"""The shared journal as one life of a node writes it: under its epoch, or not at all (N01)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from duenotice.clock import Alive, seconds_since_2020
from duenotice.domain.records import Record
from duenotice.domain.snapshot import Snapshot
from duenotice.engine.members import Deposed, Members
from duenotice.engine.ports import Journal
from duenotice.engine.shared_time import SharedClock
from duenotice.errors import Damaged, Rewound, Unavailable


class FoundCopy(NamedTuple):
    """Where a journal ended when it was found to be a copy, and the highest least incarnation known by then (N14)."""

    position: int
    floor: int


class Losses(Protocol):
    """What a node knows of its store beside what is stored there: it may have lost something (N14)."""

    @property
    def found(self) -> FoundCopy:
        """What there was when that was looked at last."""

    def seconds_since_2020(self) -> int:
        """By the store's clock: a node whose clock is wrong must not lift further than all others will (S3)."""

    def look_again(self) -> None:
        """We lead from now on: is this still the store where all records were stored?"""

    def note_lifted(self, position: int, floor: int) -> None:
        """Incarnations were last lifted at this position, to at least this number; called before VMs see it."""


class NothingLost:
    """A store that loses nothing."""

    found = FoundCopy(0, 0)

    def seconds_since_2020(self) -> int:
        """The store is here."""
        return seconds_since_2020()

    def look_again(self) -> None:
        """There is only one."""

    def note_lifted(self, position: int, floor: int) -> None:
        """The journal knows it."""


@contextmanager
def _waits_if_damaged() -> Iterator[None]:
    """A node that has all in memory answers on: perhaps somebody is about to restore the store (N22)."""
    try:
        yield
    except Rewound:
        raise
    except Damaged as error:
        raise Unavailable(error.message, hint=error.hint) from error


class FencedJournal:
    """A journal whose appends go through the members; all else is the journal's own. `seen` is what is shown."""

    def __init__(
        self,
        journal: Journal,
        members: Members,
        life: str,
        clock: SharedClock,
        seen: int,
        losses: Losses | None = None,
    ) -> None:
        self.epoch = 0
        self.blocking = journal.blocking or members.blocking
        self.seen = seen
        self.alive: Alive | None = None
        self.on_deposed: Callable[[], None] = lambda: None
        self._journal, self._members, self._life, self._clock = journal, members, life, clock
        self.losses: Losses = NothingLost() if losses is None else losses

    @property
    def restored(self) -> bool:
        """Whether VMs may have seen more than the journal knows; until incarnations are lifted (S3)."""
        return self._journal.restored

    def lead(self, epoch: int) -> None:
        """Write from now on, under this epoch."""
        self.losses.look_again()
        self.epoch = epoch

    def append(self, records: Sequence[Record]) -> None:
        """Store all records or none, if we lead."""
        try:
            with _waits_if_damaged():
                self._members.append(self._life, self.epoch, records, steady=self._clock.now().steady)
        except Deposed:
            self.on_deposed()
            raise

    def note_seen(self, position: int) -> None:
        """The store knows what is shown. So does this node: the store may lose it (N14)."""
        self.seen = position
        self._journal.note_seen(position)

    def note_alive(self, alive: Alive) -> None:
        """The store knows the time of the leader's last beat."""

    def read(self, after: int, limit: int | None = None) -> Iterator[Record]:
        """The records behind a position, in order."""
        with _waits_if_damaged():
            yield from self._journal.read(after, limit)

    def index(self) -> bool:
        """Index some more records."""
        return self._journal.index()

    def find(self, prefix: str, limit: int) -> list[Record]:
        """The first records about events whose id begins like this."""
        with _waits_if_damaged():
            return self._journal.find(prefix, limit)

    def first_position(self) -> int:
        """The position of the oldest record."""
        return self._journal.first_position()

    def last_position(self) -> int:
        """The position of the newest record."""
        with _waits_if_damaged():
            return self._journal.last_position()

    def snapshot(self) -> Snapshot | None:
        """The newest snapshot."""
        return self._journal.snapshot()

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Store a snapshot."""
        self._journal.save_snapshot(snapshot)

    def needs_upkeep(self) -> bool:
        """Whether there is something to tidy up."""
        return self._journal.needs_upkeep()

    def maintain(self) -> None:
        """Tidy up."""
        self._journal.maintain()

    def close(self) -> None:
        """Close it."""
        self._journal.close()
