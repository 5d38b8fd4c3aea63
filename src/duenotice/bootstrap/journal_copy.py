"""Copies a journal to another place, and compares the states of both; nobody may write to either meanwhile."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from duenotice.bootstrap.journals import POSTGRES, open_journal
from duenotice.domain.apply import fold
from duenotice.domain.snapshot import Snapshot, take
from duenotice.domain.state import State
from duenotice.domain.transitions import Record
from duenotice.engine.ports import Journal
from duenotice.errors import Conflict, Damaged, NotFound

AT_ONCE = 1000
"""Records in one transaction."""
WHO = "journal-copy"

Progress = Callable[[str, int, int], None]
"""What is being done, how far it is, and how far it goes."""


def copy(source: str, target: str, progress: Progress = lambda _what, _done, _all: None) -> int:
    """Copy all records to an empty journal; how many. Each place is a data directory or a postgresql:// URL."""
    _refuse_unless_there(source)
    with closing(_opened(source)) as old, closing(_opened(target)) as new:
        if new.last_position():
            raise Conflict(
                f"{_named(target)} is not empty: it has {new.last_position()} records.",
                hint="Name an empty directory or database. In PostgreSQL, DROP SCHEMA duenotice CASCADE empties it.",
            )
        before = _copied(old, new, progress)
        after = _folded(_told(new, "checking", new.last_position(), progress))
        if before != after:
            raise Damaged("The state of the copy is not the state of the original.", hint="Please report this.")
        _leave(old, new, after)
    if not target.startswith(POSTGRES):
        (Path(target) / "journal.lock").unlink()  # so that the next start takes it for what it is: a copy
    return after.position


def _leave(old: Journal, new: Journal, snapshot: Snapshot) -> None:
    """A snapshot, so that the first start is quick, and the notes; then it is marked as a copy (S3)."""
    new.save_snapshot(snapshot)
    new.note_seen(old.seen)
    if old.alive is not None:
        new.note_alive(old.alive)
    if hasattr(new, "mark_as_copy"):
        new.mark_as_copy()


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


def _opened(place: str) -> Journal:
    return open_journal(place, None, WHO) if place.startswith(POSTGRES) else open_journal("", Path(place), WHO)


def _refuse_unless_there(place: str) -> None:
    """Before anything is made: an empty journal must not be copied because of a name that is wrong."""
    if not place.startswith(POSTGRES) and not (Path(place) / "journal.db").exists():
        raise NotFound(f"There is no journal in {place}.", hint="Name a data directory, or a postgresql:// URL.")


def _named(place: str) -> str:
    return "The database" if place.startswith(POSTGRES) else place
