"""Nothing is written into files that are not where they were opened, whatever it is."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from duenotice.errors import Unavailable
from duenotice.journal.open_files import OpenFiles
from duenotice.journal.sqlite import SqliteJournal
from duenotice.testkit.journal_examples import records, snapshot


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


def test_a_file_that_cannot_be_looked_at_says_why(tmp_path: Path) -> None:
    """A link that leads to itself, say."""
    (tmp_path / "file").write_text("")
    files = OpenFiles([tmp_path / "file"])
    files.check()
    assert files.is_ours(tmp_path / "file")
    (tmp_path / "file").unlink()
    (tmp_path / "file").symlink_to("file")
    with pytest.raises(Unavailable, match="cannot be looked at: Too many levels"):
        files.check()
    assert not files.is_ours(tmp_path / "file")
