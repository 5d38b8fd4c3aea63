"""A journal that is copied from and to a database, where nodes may begin meanwhile."""

from pathlib import Path

import pytest

from duenotice.bootstrap.cluster import store_of
from duenotice.bootstrap.journal_copy import copy
from duenotice.clock import Alive, boot_id
from duenotice.errors import Conflict
from duenotice.settings import ServeSettings
from duenotice.store.postgres_members import PostgresMembers
from duenotice.store.sqlite import SqliteJournal
from duenotice.testkit.journal_contract import records
from tests.support.leading import LeadingJournal
from tests.support.postgres import Database, database, postgres_folder

__all__ = ["database", "postgres_folder"]

pytestmark = pytest.mark.machine

STEADY = 12_345_678


def on_disk(data_dir: Path) -> Path:
    journal = SqliteJournal(data_dir)
    journal.append(records(1, 5))
    journal.note_seen(3)
    journal.note_alive(Alive(boot_id(), STEADY))
    journal.close()
    return data_dir


def test_what_readers_have_seen_and_how_much_time_has_passed_is_copied_too(database: Database, tmp_path: Path) -> None:
    """Notice that VMs were given before goes on where it was; nobody is left behind in the database."""
    assert copy(str(on_disk(tmp_path / "old")), database.url) == 5
    members = PostgresMembers(database.url)
    head, there = members.look()
    members.close()
    assert (head.position, head.shown, head.steady, head.leader, there) == (5, 3, STEADY, "", ())
    assert copy(database.url, str(tmp_path / "new")) == 5
    back = SqliteJournal(tmp_path / "new")
    assert (back.restored, list(back.read(0))) == (True, records(1, 5))
    back.close()


def test_no_node_begins_on_a_database_that_is_being_copied(database: Database, tmp_path: Path) -> None:
    """Whatever its clock; and it is copied as if nobody had come."""
    told = []

    def begin(what: str, _done: int, _all: int) -> None:
        for clock in ("real", "manual"):
            with pytest.raises(Conflict, match="in use by the node 'journal-copy'") as caught:
                store_of(ServeSettings(journal=database.url, clock=clock), None, "node-a")
            told.append((what, "Stop that node" in caught.value.hint))

    assert copy(str(on_disk(tmp_path / "old")), database.url, begin) == 5
    assert told == [("copying", True)] * 2 + [("checking", True)] * 2


def test_a_node_that_led_meanwhile_is_told(database: Database, tmp_path: Path) -> None:
    """What it has written is missing in the copy, or the copy is not whole."""
    journal = LeadingJournal(database.url, None)
    journal.append(records(1, 3))
    journal.close()

    def take_over(what: str, _done: int, _all: int) -> None:
        if what == "checking":
            node = LeadingJournal(database.url, None)
            node.append(records(4, 4))
            node.close()

    with pytest.raises(Conflict, match="taken over the database meanwhile: its records are missing") as caught:
        copy(database.url, str(tmp_path / "new"), take_over)
    assert "copy again" in caught.value.hint


def test_a_node_that_was_killed_is_waited_for(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a lease: then its journal is copied, and it can do no harm if it wakes."""
    monkeypatch.setattr("duenotice.bootstrap.journal_copy.LEASE", 0.5)
    stuck = LeadingJournal(database.url, None)
    stuck.append(records(1, 3))
    assert copy(database.url, str(tmp_path / "new")) == 3
    with pytest.raises(Exception, match="Another node leads by now"):
        stuck.append(records(4, 4))
    stuck.close()
