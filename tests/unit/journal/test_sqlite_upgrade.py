"""A journal of a version before is opened, brought up to date and read (S5)."""

from pathlib import Path

import apsw
import pytest

from duenotice.errors import Damaged
from duenotice.journal.codec import checksum
from duenotice.journal.sqlite import SqliteJournal
from duenotice.journal.sqlite_file import APPLICATION_ID, EVENTS_SCHEMA, SCHEMAS
from duenotice.testkit.journal_examples import record

OLD = """{"position":1,"at":"2026-03-01T12:00:00Z","actor":"alice","transition":{"change":"event-raised",
"event":{"id":"E-1","type":"reboot","cause":"maintenance","scope":"set/web","resources":["web-0"],
"not_before":"2026-03-01T12:15:00Z","notice_ends":900.0}}}"""


def made(tmp_path: Path, version: int) -> Path:
    """One record of format 1 in tables of this version."""
    connection = apsw.Connection(str(tmp_path / "journal.db"))
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", version)
    connection.execute(";".join(SCHEMAS[version]))
    connection.execute("INSERT INTO head VALUES (1, 1)")
    if version > 1:
        connection.execute("INSERT INTO indexed VALUES (1, 0)")
    connection.execute("INSERT INTO records VALUES (1, 1, ?, ?)", (checksum(1, 1, OLD.encode()), OLD))
    connection.close()
    return tmp_path


def version(directory: Path) -> object:
    connection = apsw.Connection(str(directory / "journal.db"))
    try:
        return connection.pragma("user_version")
    finally:
        connection.close()


def edit(directory: Path, statement: str) -> None:
    """What was not done by us."""
    connection = apsw.Connection(str(directory / "journal.db"))
    connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("old", [1, 2])
def test_its_records_are_there_and_found_by_event(tmp_path: Path, old: int) -> None:
    """At the first start, and at the next; and it takes more."""
    directory = made(tmp_path, old)
    for position in (2, 3):
        journal = SqliteJournal(directory)
        assert [record.actor for record in journal.read(0)][:1] == ["alice"]
        journal.index()
        assert journal.find("E-", 9) == list(journal.read(0, 1))
        journal.append([record(position)])
        journal.close()
        assert version(directory) == 3


@pytest.mark.parametrize("old", [1, 2])
def test_records_missing_at_its_end_are_noticed_before_it_is_changed(tmp_path: Path, old: int) -> None:
    """Its head says how many there were."""
    directory = made(tmp_path, old)
    edit(directory, "UPDATE head SET position = 2")
    with pytest.raises(Damaged, match="it holds records 1 to 1 where 1 to 2 were written"):
        SqliteJournal(directory)
    assert version(directory) == old


def test_tables_that_should_not_be_there_are_damage(tmp_path: Path) -> None:
    """An upgrade is all or nothing, so half of the new tables was not made by us; the file is left as it is."""
    directory = made(tmp_path, 1)
    edit(directory, EVENTS_SCHEMA[0])
    with pytest.raises(Damaged, match="already exists"):
        SqliteJournal(directory)
    assert version(directory) == 1
