"""`duenotice db` and `duenotice journal`: as an operator types them, on a real PostgreSQL."""

import re
from pathlib import Path

import pytest

from duenotice.store.sqlite import SqliteJournal
from duenotice.testkit.journal_contract import records
from tests.acceptance.conftest import DEMO
from tests.support.cli import duenotice
from tests.support.node import Node
from tests.support.postgres import Database, database, postgres_folder

__all__ = ["database", "postgres_folder"]

pytestmark = pytest.mark.machine

DOCUMENT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def test_migrate_makes_the_tables_once(database: Database) -> None:
    """The second time there is nothing to do."""
    first = duenotice(None, "db", "migrate", "--journal", database.url)
    again = duenotice(None, "db", "migrate", DUENOTICE_JOURNAL=database.url)
    assert (first.code, again.code) == (0, 0)
    assert "The tables are made; they have version 3." in first.err
    assert "Nothing to do: the tables have version 3." in again.err


def test_status_says_what_is_there_and_changes_nothing(database: Database) -> None:
    """Also before there are tables."""
    empty = duenotice(None, "db", "status", "--journal", database.url, "-o", "json").json()
    assert (empty["version"], empty["cluster"], empty["nodes"]) == (0, None, [])
    assert database.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'duenotice'") == "0"
    with Node(DEMO, journal=database.url, node="node-a") as node:
        node.enable("web-0")
        found = duenotice(None, "db", "status", "--journal", database.url, "-o", "json").json()
        table = duenotice(None, "db", "status", "--journal", database.url)
    assert (found["version"], found["leader"], found["nodes"], found["epoch"]) == (3, "node-a", ["node-a"], 1)
    assert found["records"] > 0
    assert found["durable"] is False  # the tests' server does not sync
    assert "node-a" in table.out
    (row,) = re.findall(r"^\| database \| (.*?) \|", DOCUMENT, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == set(found)


@pytest.mark.parametrize(
    ("verb", "url", "code"), [("status", "oracle://x", 2), ("migrate", "postgresql:///x?host=/nowhere", 6)]
)
def test_a_database_that_cannot_be_had_is_told(verb: str, url: str, code: int) -> None:
    """One line of what happened, and one of what to do."""
    ended = duenotice(None, "db", verb, "--journal", url)
    assert (ended.code, "hint: " in ended.err) == (code, True)


def served(where: dict[str, str]) -> tuple[list[object], int]:
    """What a node shows of a journal: its events, and the incarnation of a VM."""
    with Node(DEMO, **where) as node:
        events = node.operate("/v1/events", method="GET")
        return [(event["id"], event["phase"], event["not_before"]) for event in events], node.incarnation("web-0")


def test_a_journal_goes_to_postgresql_and_back(database: Database, tmp_path: Path) -> None:
    """It serves the same from each place, and incarnations only go ahead (S3)."""
    with Node(DEMO, data_dir=str(tmp_path / "old")) as node:
        node.enable("web-0", "db-0")
        node.schedule("Reboot", "web-0")
        node.approve("db-0", node.schedule("Freeze", "db-0"))
        node.advance("1m")
    there = duenotice(None, "journal", "copy", str(tmp_path / "old"), database.url)
    assert re.search(r"Copied \d+ records. Both journals give the same state.", there.err), there
    before, first = served({"data_dir": str(tmp_path / "old")})
    on_database, second = served({"journal": database.url})
    back = duenotice(None, "journal", "copy", database.url, str(tmp_path / "new"))
    assert back.code == 0, back
    in_a_file, third = served({"data_dir": str(tmp_path / "new")})
    assert before == on_database == in_a_file != []
    assert first < second < third


def test_a_target_that_is_not_empty_is_refused(database: Database, tmp_path: Path) -> None:
    """Neither a file nor a database is written over."""
    for name in ("a", "b"):
        journal = SqliteJournal(tmp_path / name)
        journal.append(records(1, 3))
        journal.close()
    refused = duenotice(None, "journal", "copy", str(tmp_path / "a"), str(tmp_path / "b"))
    assert (refused.code, "is not empty: it has 3 records" in refused.err) == (4, True)
    assert duenotice(None, "journal", "copy", str(tmp_path / "a"), database.url).code == 0
    refused = duenotice(None, "journal", "copy", str(tmp_path / "b"), database.url)
    assert (refused.code, "The database is not empty" in refused.err) == (4, True)


def test_a_source_that_is_not_there_makes_nothing(tmp_path: Path) -> None:
    """A name that is wrong leaves no empty journal behind."""
    refused = duenotice(None, "journal", "copy", str(tmp_path / "no"), str(tmp_path / "new"))
    assert (refused.code, f"There is no journal in {tmp_path}/no" in refused.err) == (3, True)
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_is_in_use_is_not_copied(database: Database, tmp_path: Path) -> None:
    """Neither from a file nor from a database: what is written meanwhile would be missing."""
    with Node(DEMO, data_dir=str(tmp_path / "old")):
        refused = duenotice(None, "journal", "copy", str(tmp_path / "old"), database.url)
        assert (refused.code, "is in use by process" in refused.err) == (4, True)
    with Node(DEMO, journal=database.url):
        refused = duenotice(None, "journal", "copy", database.url, str(tmp_path / "new"))
        assert (refused.code, "in use by the node" in refused.err) == (4, True)
