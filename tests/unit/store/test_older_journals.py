"""What a duenotice before the first release has written is refused with one line, and left as it is (S5)."""

from pathlib import Path

import apsw
import pytest

from duenotice.errors import Damaged, Misconfigured
from duenotice.store.sqlite import SqliteJournal
from duenotice.store.sqlite_file import SCHEMA_VERSION
from duenotice.testkit.journal_contract import record


def edited(directory: Path, statement: str) -> bytes:
    """A journal with one record that somebody has changed afterwards; what is in its file."""
    journal = SqliteJournal(directory)
    journal.append([record(1)])
    journal.close()
    connection = apsw.Connection(str(directory / "journal.db"))
    connection.execute(statement)
    connection.pragma("wal_checkpoint(truncate)")
    connection.close()
    return (directory / "journal.db").read_bytes()


@pytest.mark.parametrize(
    ("version", "told"),
    [(SCHEMA_VERSION - 1, "written before the first release"), (SCHEMA_VERSION + 1, "written by a newer duenotice")],
)
def test_a_file_of_another_version_is_refused_and_left_as_it_is(tmp_path: Path, version: int, told: str) -> None:
    before = edited(tmp_path, f"PRAGMA user_version = {version}")
    with pytest.raises(Misconfigured, match=rf"{told} \(schema {version}, this one knows {SCHEMA_VERSION}\)"):
        SqliteJournal(tmp_path)
    assert (tmp_path / "journal.db").read_bytes() == before


def test_tables_that_are_not_ours_are_damage(tmp_path: Path) -> None:
    edited(tmp_path, "DROP TABLE indexed")
    with pytest.raises(Damaged, match="its tables are not the ones that duenotice made"):
        SqliteJournal(tmp_path)
