"""The world around an engine under test: a clock anybody can set, disks that can be cut off, commits that can fail.

Everything here is a plain implementation of a port of the engine's; nothing reaches into the engine itself.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Protocol

from duenotice.clock import LONGEST_PAUSE, Alive, Instant, ManualClock, micros
from duenotice.domain.records import Record
from duenotice.domain.snapshot import Snapshot
from duenotice.engine.engine import Engine
from duenotice.engine.ports import Journal
from duenotice.errors import Damaged, Unavailable
from duenotice.store.memory import MemoryJournal
from duenotice.store.sqlite import SqliteJournal
from simulator.history import Absence, Committed

BEGIN = datetime(2030, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC)
"""Not a whole second: documents show whole ones, and rounding must never cut a notice short."""


class WorldClock(ManualClock):
    """Passes when told. `advance` is what a ticker does, `slip` is time that passes behind everybody's back.

    Both are time in which VMs are answered; `be_away` is not.
    """

    def __init__(self, on_advance: Callable[[Instant], None]) -> None:
        super().__init__()
        self._now = Instant(BEGIN, 0)
        self._on_advance = on_advance
        self._absences: list[Absence] = []

    def advance(self, micros: int) -> None:
        """Let time pass and tell of it."""
        super().advance(micros)
        self._on_advance(self._now)

    def slip(self, seconds: float) -> None:
        """Let time pass while nobody looks: a slow commit, a ticker that comes late."""
        super().advance(micros(seconds))

    def suspend(self, seconds: float) -> None:
        """The process is stopped or the machine sleeps; a moment of that is nothing out of the ordinary."""
        if micros(seconds) <= LONGEST_PAUSE:
            self.slip(seconds)
        else:
            self.be_away(seconds)

    def be_away(self, seconds: float) -> None:
        """Nobody can be answered, so it is no notice: the time of day goes on and steady time does not (S25)."""
        begun = self._now
        self.set_wall(seconds)
        self._absences.append(Absence(begun, self._now))

    def take_absences(self) -> tuple[Absence, ...]:
        """Those that nobody has been told of yet."""
        taken, self._absences = tuple(self._absences), []
        return taken

    def set_wall(self, seconds: float) -> None:
        """Somebody sets the time of day forward or back; steady time takes no notice."""
        self._now = self._now._replace(at=self._now.at + timedelta(seconds=seconds))


class Fault(Enum):
    """How the next commit fails. The caller cannot tell whether the records were stored; LOST loses the engine too."""

    NOT_STORED = "not stored"
    STORED = "stored"
    LOST = "not stored, and the journal cannot be read"
    STORED_AND_LOST = "stored, and the journal cannot be read"

    @property
    def stores(self) -> bool:
        return self in (Fault.STORED, Fault.STORED_AND_LOST)

    @property
    def loses_engine(self) -> bool:
        return self in (Fault.LOST, Fault.STORED_AND_LOST)


def nothing() -> None:
    """What there is to do most of the time."""


class WatchedJournal:
    """A journal that notes what was committed when, takes its time, and fails once when told to."""

    def __init__(self, inner: Journal, clock: WorldClock) -> None:
        self.blocking = inner.blocking
        self.commit_takes = 0.0
        self.stall = 0.0
        self.fault: Fault | None = None
        self.away = 0.0
        self.failed: tuple[Record, ...] = ()
        self.committed: list[Committed] = []
        self.shown_at: list[tuple[int, Instant]] = []
        self.while_committing: Callable[[], None] = nothing
        self.on_shown: Callable[[], None] = nothing
        self._inner = inner
        self._clock = clock
        self._unreadable = False

    def append(self, records: Sequence[Record]) -> None:
        decided = self._clock.now()
        fault, self.fault = self.fault, None
        self.while_committing()
        self._take_time()
        if fault is None or fault.stores:
            self._inner.append(records)
            self.committed += [Committed(record, decided, self._clock.now()) for record in records]
        if fault is not None:
            self.failed = tuple(records)
            self._unreadable = fault.loses_engine
            raise Unavailable("The disk went away.")

    def _take_time(self) -> None:
        """`commit_takes` each time; once `stall` instead, and then the disk is quick again."""
        self._clock.slip(self.stall or self.commit_takes)
        if self.stall:
            self.stall = self.commit_takes = 0.0

    def read(self, after: int, limit: int | None = None) -> Iterator[Record]:
        if self._unreadable:
            raise Damaged("The disk cannot be read any more.")
        return self._inner.read(after, limit)

    @property
    def seen(self) -> int:
        return self._inner.seen

    def note_seen(self, position: int) -> None:
        self.shown_at.append((position, self._clock.now()))
        self._inner.note_seen(position)
        self.on_shown()

    @property
    def alive(self) -> Alive | None:
        return self._inner.alive

    def note_alive(self, alive: Alive) -> None:
        self._inner.note_alive(alive)

    def index(self) -> bool:
        return self._inner.index()

    def find(self, prefix: str, limit: int) -> list[Record]:
        return self._inner.find(prefix, limit)

    def first_position(self) -> int:
        return self._inner.first_position()

    def last_position(self) -> int:
        return self._inner.last_position()

    def snapshot(self) -> Snapshot | None:
        return self._inner.snapshot()

    def save_snapshot(self, snapshot: Snapshot) -> None:
        self._inner.save_snapshot(snapshot)

    @property
    def restored(self) -> bool:
        return self._inner.restored

    def needs_upkeep(self) -> bool:
        return self._inner.needs_upkeep()

    def maintain(self) -> None:
        self._inner.maintain()

    def close(self) -> None:
        self._inner.close()


def end_process(runner: asyncio.Runner, engine: Engine | None) -> None:
    """End the threads of an engine and its loop, as the kernel does when a process is gone.

    Nothing more is stored, but its journal is closed: cut that off before, to keep the files as they were. A search
    for the smallest failing case has thousands of processes, and would otherwise run out of files; then cases fail
    that did not fail before.
    """
    if engine is not None:
        engine.give_up(Unavailable("The process is gone."))
        with suppress(RuntimeError):  # it was stopped before, and no other engine could be opened since
            runner.run(engine.stop())
    runner.close()


class Storage(Protocol):
    """Where a journal lives on when the process that used it does not."""

    def open(self) -> Journal:
        """Open the journal as a new process would."""

    def cut(self) -> None:
        """The process that had it open is gone, from one moment to the next."""

    def back_up(self) -> None:
        """Copy what is stored, in place of an older copy."""

    def restore(self) -> None:
        """The process is gone, and the copy is put in the place of what was stored."""

    def discard(self) -> None:
        """Throw everything away."""


class InMemory:
    """A journal that is kept by its object."""

    def __init__(self) -> None:
        self._journal = self._copy = MemoryJournal()

    def open(self) -> Journal:
        return self._journal

    def cut(self) -> None:
        """What is stored is stored at once."""

    def back_up(self) -> None:
        self._copy = deepcopy(self._journal)

    def restore(self) -> None:
        self._journal = deepcopy(self._copy)

    def discard(self) -> None:
        """It goes with its object."""


class OnDisk:
    """A SQLite journal in a directory; a cut leaves the files as they were, unclosed, as kill -9 does."""

    def __init__(self) -> None:
        # In memory where there is such a place: what is proved is the order of things, not the disk.
        memory = Path("/dev/shm")
        self._root = Path(tempfile.mkdtemp(prefix="duenotice-", dir=memory if memory.is_dir() else None))
        self._life = 0
        self._journal: SqliteJournal | None = None

    @property
    def _directory(self) -> Path:
        return self._root / str(self._life)

    def open(self) -> Journal:
        self._journal = SqliteJournal(self._directory)
        return self._journal

    def cut(self) -> None:
        self._go_on_with(self._directory)

    def back_up(self) -> None:
        shutil.rmtree(self._backup, ignore_errors=True)
        shutil.copytree(self._directory, self._backup, ignore=shutil.ignore_patterns("*-shm", "journal.lock"))

    def restore(self) -> None:
        self._go_on_with(self._backup)

    @property
    def _backup(self) -> Path:
        return self._root / "backup"

    def _go_on_with(self, source: Path) -> None:
        left_behind = self._directory
        self._life += 1
        shutil.copytree(source, self._directory, ignore=shutil.ignore_patterns("*-shm"))
        self._close()
        shutil.rmtree(left_behind)

    def discard(self) -> None:
        self._close()
        shutil.rmtree(self._root)

    def _close(self) -> None:
        if self._journal is not None:
            self._journal.close()
