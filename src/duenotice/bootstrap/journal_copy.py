"""Copying one journal into another. Who copies leads on a database, as a node does, so nobody else writes (S21)."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from duenotice import __version__
from duenotice.bootstrap.cluster import ClusterStore
from duenotice.bootstrap.journals import POSTGRES
from duenotice.clock import boot_id
from duenotice.domain.apply import fold
from duenotice.domain.records import Record
from duenotice.domain.snapshot import Snapshot, take
from duenotice.domain.state import State
from duenotice.engine.ports import Journal
from duenotice.errors import Conflict, Damaged, DuenoticeError, NotFound
from duenotice.operator_api.way_to_leader import WayToLeader
from duenotice.store.sqlite import SqliteJournal

AT_ONCE = 1000
"""Records in one transaction."""
WHO = "journal-copy"
LEASE = 6.0
"""Real seconds without a beat after which a node is taken for gone."""
_EVERY = LEASE / 12
_BESIDE = "A journal is copied while no node serves it."

Progress = Callable[[str, int, int], None]
"""What is being done, how far it is, and how far it goes."""


def copy(source: str, target: str, progress: Progress = lambda _what, _done, _all: None) -> int:
    """Copy all records to an empty journal; how many. Each place is a data directory or a postgresql:// URL."""
    _refuse_unless_there(source)
    with closing(_opened(source)) as old, closing(_opened(target)) as new:
        if new.journal.last_position():
            raise Conflict(
                f"{_named(target)} is not empty: it has {new.journal.last_position()} records.",
                hint="Name an empty directory or database. In PostgreSQL, DROP SCHEMA duenotice CASCADE empties it.",
            )
        before = _copied(old.journal, new.journal, progress)
        after = _folded(_told(new.journal, "checking", new.journal.last_position(), progress))
        if before != after:
            raise Damaged("The state of the copy is not the state of the original.", hint="Please report this.")
        old.refuse_if_deposed()
        new.journal.save_snapshot(after)  # so that the first start is quick
        new.finish(old.journal.seen, old.steady)
    if not target.startswith(POSTGRES):
        (Path(target) / "journal.lock").unlink()  # so that the next start takes it for what it is: a copy
    return after.position


class _File:
    """A journal in a data directory, which no other process uses meanwhile."""

    def __init__(self, data_dir: Path) -> None:
        self.journal = SqliteJournal(data_dir)
        alive = self.journal.alive
        self.steady = alive.steady if alive is not None and alive.boot_id == boot_id() else 0
        """Until when VMs could be answered; of another boot it says nothing."""

    def refuse_if_deposed(self) -> None:
        """Nobody can take it away."""

    def finish(self, seen: int, steady: int) -> None:
        """Nothing: a copy in a file has no notes. That is how its first start knows that it is one (S3)."""

    def close(self) -> None:
        """Let the directory go."""
        self.journal.close()


class _Database:
    """A journal in PostgreSQL. It beats, so that no node begins meanwhile; refused while one is there."""

    def __init__(self, url: str) -> None:
        store = ClusterStore(url, None, WHO, WayToLeader(), LEASE, _BESIDE)
        self.journal, self._members, self._life = store.journal, store.members, store.life
        self._ended = threading.Event()
        self._beats = threading.Thread(target=self._beat, name="beats", daemon=True)
        with ExitStack() as undo:
            undo.callback(self.close)
            self._lead(store)
            self.steady = self._members.look().head.steady
            self._beats.start()
            undo.pop_all()

    def _lead(self, store: ClusterStore) -> None:
        """In place of those that were silent for a whole lease."""
        members, life = self._members, self._life
        members.register(life, WHO, "", __version__)
        members.join(life, self.journal.last_position())
        sight = members.look()
        leader = store.silent.get(sight.head.leader)
        head = members.take_over(life, sight.head.epoch, 0 if leader is None else leader.beat)
        if head is None:
            raise Conflict("Another node has just taken over.", hint="Stop all nodes first.")
        self.journal.epoch = head.epoch
        for other, seen in store.silent.items():
            members.put_out(life, head.epoch, other, seen.beat)

    def _beat(self) -> None:
        while not self._ended.wait(_EVERY):
            with suppress(DuenoticeError):  # the next one may get there; at the end it is seen who leads
                self._members.beat(self._life, 0, {})

    def refuse_if_deposed(self) -> None:
        """Raise if a node may have written meanwhile: its records would be missing."""
        head = self._members.look().head
        if (head.leader, head.epoch) != (self._life, self.journal.epoch):
            raise Conflict(
                "A node has taken over the database meanwhile: its records are missing in the copy.",
                hint="Stop all nodes, empty the target and copy again.",
            )

    def finish(self, seen: int, steady: int) -> None:
        """All is copied: note what the original knew. The first start lifts the incarnations (S3)."""
        self._members.show(self._life, self.journal.epoch, seen)
        self._members.beat(self._life, steady, {})
        self.journal.mark_as_copy()
        self.refuse_if_deposed()

    def close(self) -> None:
        """Say that we are gone, so that the first node need not wait."""
        self._ended.set()
        if self._beats.is_alive():
            self._beats.join()
        with suppress(DuenoticeError):
            self._members.leave(self._life)
        self._members.close()
        self.journal.close()


def _copied(old: Journal, new: Journal, progress: Progress) -> Snapshot:
    state, batch = State(), list[Record]()
    for record in _told(old, "copying", old.last_position(), progress):
        fold(state, record)
        batch.append(record)
        if len(batch) == AT_ONCE:
            new.append(batch)
            batch.clear()
    new.append(batch)
    return take(state)


def _folded(records: Iterator[Record]) -> Snapshot:
    state = State()
    for record in records:
        fold(state, record)
    return take(state)


def _told(journal: Journal, what: str, newest: int, progress: Progress) -> Iterator[Record]:
    """All records, with how far we are."""
    for record in journal.read(0):
        if record.position % AT_ONCE == 0 or record.position == newest:
            progress(what, record.position, newest)
        yield record


def _opened(place: str) -> _File | _Database:
    return _Database(place) if place.startswith(POSTGRES) else _File(Path(place))


def _refuse_unless_there(place: str) -> None:
    """Before anything is made: an empty journal must not be copied because of a name that is wrong."""
    if not place.startswith(POSTGRES) and not (Path(place) / "journal.db").exists():
        raise NotFound(f"There is no journal in {place}.", hint="Name a data directory, or a postgresql:// URL.")


def _named(place: str) -> str:
    return "The database" if place.startswith(POSTGRES) else place
