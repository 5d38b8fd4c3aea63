"""A journal put in place from a backup says so at every start, until incarnations are durably lifted (S3)."""

from pathlib import Path

import pytest

from duenotice.clock import Alive
from duenotice.domain.records import IncarnationsLifted, Record
from duenotice.store.codec import RECORDS, mark_of
from duenotice.store.data_dir import DataDirectory
from duenotice.store.sqlite import SqliteJournal
from duenotice.testkit.journal_contract import NOON, record, records, snapshot


def lift(position: int, by: int = 7) -> Record:
    return Record(position, NOON, "duenotice", IncarnationsLifted(by))


def note_lift(directory: Path, lift: Record) -> None:
    """Leave the notes as a process does that is killed when it is about to lift, or has just done it."""
    (directory / "journal.lock").unlink()
    lock = DataDirectory(directory)
    lock.note_lift(mark_of(RECORDS.pack(lift)))
    lock.release()


@pytest.fixture
def restored(tmp_path: Path) -> Path:
    """A directory with a journal of three records and nothing else, as the handbook says."""
    journal = SqliteJournal(tmp_path)
    journal.append(records(1, 3))
    journal.close()
    (tmp_path / "journal.lock").unlink()
    return tmp_path


def is_restored(directory: Path) -> bool:
    journal = SqliteJournal(directory)
    try:
        return journal.restored
    finally:
        journal.close()


def test_a_journal_that_was_never_elsewhere_is_not_restored(tmp_path: Path) -> None:
    """Neither a new one nor one that is opened again."""
    assert not is_restored(tmp_path)
    assert not is_restored(tmp_path)


@pytest.mark.parametrize("get_to", ["opened", "marked", "snapshot", "answering"])
def test_a_process_that_ends_before_the_lift_leaves_it_restored(restored: Path, get_to: str) -> None:
    """However far it got otherwise."""
    journal = SqliteJournal(restored)
    assert journal.restored
    if get_to != "opened":
        journal.append([record(4)])
    if get_to == "snapshot":
        journal.save_snapshot(snapshot(4))
    if get_to == "answering":
        journal.note_alive(Alive("boot", 7))
    journal.close()
    assert is_restored(restored)


def test_from_the_lift_on_it_is_like_any_other(restored: Path) -> None:
    """Also for a process that is killed right after it: the note is there."""
    journal = SqliteJournal(restored)
    journal.append([lift(4)])
    assert not journal.restored
    assert "position 00000000000000000004" in (restored / "journal.lock").read_text()
    journal.close()
    assert not is_restored(restored)


def test_a_process_that_is_killed_between_the_lift_and_its_note_has_lifted(restored: Path) -> None:
    """A second lift in the same second would go far ahead of the time of day (S3). Found by the soak."""
    journal = SqliteJournal(restored)
    journal.append([lift(4), record(5)])
    journal.close()
    note_lift(restored, lift(4))
    assert not is_restored(restored)
    assert b"reached position 00000000000000000005" in (restored / "journal.lock").read_bytes()


def test_nobody_has_seen_what_was_lifted_by_a_process_that_was_killed_then(restored: Path) -> None:
    """Followers of the life before may still answer with what is older: they are waited for (N05, S3)."""
    journal = SqliteJournal(restored)
    journal.append([lift(4), record(5)])
    journal.close()
    note_lift(restored, lift(4))
    for _ in range(2):
        journal = SqliteJournal(restored)
        assert journal.seen == 3
        journal.close()


@pytest.mark.parametrize("at", [3, 4, 99])
def test_a_noted_lift_that_the_journal_does_not_have_was_not_done(restored: Path, at: int) -> None:
    """The process was killed before the commit, or another copy was put in place since."""
    journal = SqliteJournal(restored)
    journal.append([record(4)])
    journal.close()
    note_lift(restored, lift(at))
    assert is_restored(restored)
    assert is_restored(restored)


def test_a_lift_at_the_same_place_in_another_copy_is_not_the_noted_one(restored: Path) -> None:
    """A start could not lift, as the disk was full; then a copy is put in place of a life that began at the same place.

    VMs may have seen more of that life than the copy knows (S3).
    """
    journal = SqliteJournal(restored)
    journal.append([lift(4, by=7), record(5)])
    journal.close()
    note_lift(restored, lift(4, by=8))
    assert is_restored(restored)


def test_a_note_that_names_only_the_place_of_a_lift_is_not_enough(restored: Path) -> None:
    """As versions before the first release wrote it."""
    journal = SqliteJournal(restored)
    journal.append([lift(4)])
    journal.close()
    (restored / "journal.lock").write_text("process 0000000001\njournal.db lifted with position 00000000000000000004\n")
    assert is_restored(restored)


def test_a_lift_that_is_not_stored_is_none(restored: Path) -> None:
    """A refused append changes nothing."""
    journal = SqliteJournal(restored)
    with pytest.raises(Exception, match="do not follow"):
        journal.append([lift(9)])
    journal.close()
    assert is_restored(restored)
