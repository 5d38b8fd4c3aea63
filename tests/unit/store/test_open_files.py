"""Nothing is written into files that are not where they were opened, whatever it is."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from duenotice.errors import Unavailable
from duenotice.store.open_files import OpenFiles
from duenotice.store.sqlite import SqliteJournal
from duenotice.testkit.journal_contract import records, snapshot


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    opened = SqliteJournal(tmp_path)
    opened.append(records(1, 3))
    yield opened
    opened.close()


WRITES: list[Callable[[SqliteJournal], object]] = [
    lambda journal: journal.append(records(4, 4)),
    lambda journal: journal.append(records(4, 9)),
    lambda journal: journal.save_snapshot(snapshot(3)),
    lambda journal: journal.index(),
]


@pytest.mark.parametrize("write", WRITES)
def test_it_is_refused_and_has_no_effect(journal: SqliteJournal, tmp_path: Path, write: Callable[..., object]) -> None:
    """Also not when the file is back (S6)."""
    database, elsewhere = tmp_path / "journal.db", tmp_path / "elsewhere"
    database.rename(elsewhere)
    with pytest.raises(Unavailable, match=f"{database} was renamed or deleted"):
        write(journal)
    elsewhere.rename(database)
    assert (journal.last_position(), journal.snapshot()) == (3, None)
    write(journal)


def test_a_close_leaves_the_records_in_the_database_that_was_renamed(journal: SqliteJournal, tmp_path: Path) -> None:
    (tmp_path / "journal.db").rename(tmp_path / "elsewhere")
    journal.close()
    (tmp_path / "elsewhere").rename(tmp_path / "journal.db")
    again = SqliteJournal(tmp_path)
    assert again.last_position() == 3
    again.close()


def test_a_commit_that_misses_the_log_has_moved_it_into_the_database(journal: SqliteJournal, tmp_path: Path) -> None:
    """Whoever notices it first: a kill -9 after that loses nothing (S5)."""
    (tmp_path / "journal.db-wal").unlink()
    with pytest.raises(Unavailable, match="was renamed or deleted"):
        journal.append(records(4, 4))
    shutil.copy(tmp_path / "journal.db", tmp_path / "copy")
    with closing(sqlite3.connect(f"file:{tmp_path}/copy?immutable=1", uri=True)) as copy:
        assert copy.execute("SELECT max(position) FROM records").fetchone() == (3,)


@pytest.mark.parametrize(("name", "size"), [("journal.db", 4096), ("journal.db-wal", 0), ("journal.db-wal", 2**21)])
def test_a_file_that_was_cut_short_is_noticed(journal: SqliteJournal, tmp_path: Path, name: str, size: int) -> None:
    """It has its name and its number still, and what is stored from then on would be lost with the process (S5)."""
    with (tmp_path / name).open("r+b") as file:
        whole = file.read()
        file.truncate(size)
    with pytest.raises(Unavailable, match=f"{tmp_path / name} was cut short"):
        journal.append(records(4, 4))
    (tmp_path / name).write_bytes(whole)
    journal.append(records(4, 4))


def test_the_log_may_get_as_short_as_it_is_kept(tmp_path: Path) -> None:
    """SQLite cuts it after a very large commit."""
    log = tmp_path / "log"
    log.write_bytes(b"x" * 100)
    files = OpenFiles([log], {log: 60})
    for size, is_fine in ((200, True), (60, True), (59, False)):
        log.write_bytes(b"x" * size)
        with nullcontext() if is_fine else pytest.raises(Unavailable):
            files.check()


def test_a_link_to_where_the_file_went_is_another_file(journal: SqliteJournal, tmp_path: Path) -> None:
    """After kill -9 SQLite would look for the log beside the file that the link leads to, and not find it (S5)."""
    database, elsewhere = tmp_path / "journal.db", tmp_path / "elsewhere"
    database.rename(elsewhere)
    database.symlink_to(elsewhere)
    with pytest.raises(Unavailable, match=f"{database} is another file"):
        journal.append(records(4, 4))
    elsewhere.replace(database)
    journal.append(records(4, 4))


@pytest.mark.parametrize("name", ["link", "file"])
def test_a_link_that_was_there_from_the_start_is_fine_until_it_or_its_file_changes(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("file")
    files = OpenFiles([tmp_path / "link"])
    files.check()
    (tmp_path / name).rename(tmp_path / "away")
    (tmp_path / name).symlink_to("away")
    with pytest.raises(Unavailable, match=f"{name} is another file"):
        files.check()
    assert files.is_ours(tmp_path / "link") == (name == "file")


def test_a_file_that_cannot_be_looked_at_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text("")
    files = OpenFiles([folder / "file"])
    files.check()
    assert files.is_ours(folder / "file")
    folder.rename(tmp_path / "away")
    folder.symlink_to("folder")
    with pytest.raises(Unavailable, match="cannot be looked at: Too many levels"):
        files.check()
    assert not files.is_ours(folder / "file")
