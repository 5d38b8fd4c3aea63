"""A journal of the version before is opened, brought up to date and read (S5)."""

from pathlib import Path

import apsw
import pytest

from duenotice.errors import Damaged
from duenotice.journal.codec import checksum
from duenotice.journal.sqlite import SqliteJournal
from duenotice.journal.sqlite_file import APPLICATION_ID, EVENTS_SCHEMA, FIRST_SCHEMA

OLD = """{"position":1,"at":"2026-03-01T12:00:00Z","actor":"alice","transition":{"change":"event-raised",
"event":{"id":"E-1","type":"reboot","cause":"maintenance","scope":"set/web","resources":["web-0"],
"not_before":"2026-03-01T12:15:00Z","notice_ends":900.0}}}"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """One record of format 1 in tables of version 1."""
    connection = apsw.Connection(str(tmp_path / "journal.db"))
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", 1)
    connection.execute(";".join(FIRST_SCHEMA))
    connection.execute("INSERT INTO head VALUES (1, 1)")
    connection.execute("INSERT INTO records VALUES (1, 1, ?, ?)", (checksum(1, 1, OLD.encode()), OLD))
    connection.close()
    return tmp_path


def version(directory: Path) -> object:
    connection = apsw.Connection(str(directory / "journal.db"))
    try:
        return connection.pragma("user_version")
    finally:
        connection.close()


def test_its_records_are_there_and_found_by_event(directory: Path) -> None:
    """At the first start, and at the next."""
    for _ in range(2):
        journal = SqliteJournal(directory)
        assert [record.actor for record in journal.read(0)] == ["alice"]
        journal.index()
        assert journal.find("E-", 9) == list(journal.read(0))
        journal.close()
        assert version(directory) == 2


def test_tables_that_should_not_be_there_are_damage(directory: Path) -> None:
    """An upgrade is all or nothing, so half of the new tables was not made by us; the file is left as it is."""
    connection = apsw.Connection(str(directory / "journal.db"))
    connection.execute(EVENTS_SCHEMA[0])
    connection.close()
    with pytest.raises(Damaged, match="already exists"):
        SqliteJournal(directory)
    assert version(directory) == 1
