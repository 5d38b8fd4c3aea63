"""The keys of access tokens on PostgreSQL: the same for all nodes, and not in what is backed up (M02)."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from duenotice.azure_api.signing_keys import SigningKeys
from duenotice.errors import Misconfigured
from duenotice.store.postgres_members import PostgresSecrets
from duenotice.store.postgres_schema import prepared
from tests.handlers.databases import BINARIES
from tests.support.postgres import Database, database, postgres_folder

__all__ = ["database", "postgres_folder"]

pytestmark = pytest.mark.machine


def test_all_nodes_have_the_same_keys(database: Database) -> None:
    """Also those that start at the same time; and after a rotation, when they look again."""
    prepared(database.url)
    with ExitStack() as stack, ThreadPoolExecutor(5) as threads:
        nodes = [SigningKeys(stack.enter_context(closing(PostgresSecrets(database.url)))) for _ in range(5)]
        list(threads.map(SigningKeys.look, nodes))
        first = {node.ring for node in nodes}
        nodes[0].rotate(at_once=True)
        list(threads.map(SigningKeys.look, nodes))
        assert (len(first), {node.ring for node in nodes}) == (1, {nodes[0].ring})
        assert not first & {nodes[0].ring}


def test_changes_come_one_after_the_other(database: Database) -> None:
    """None is lost, and one that fails changes nothing."""
    prepared(database.url)

    def add(_: int) -> None:
        with closing(PostgresSecrets(database.url)) as store:
            store.change(lambda text: text + "x")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(12)))
    with closing(PostgresSecrets(database.url)) as store:
        with pytest.raises(ZeroDivisionError):
            store.change(lambda text: str(1 // 0))
        assert store.change(lambda text: text) == "x" * 12


def test_what_a_backup_should_have_lacks_the_keys(database: Database) -> None:
    """The command of docs/clustering.md; and the table is in no write-ahead log, so neither in a base backup."""
    prepared(database.url)
    with closing(PostgresSecrets(database.url)) as store:
        store.change(lambda _: "do-not-tell")
    dump = [f"{BINARIES}/pg_dump", "--no-unlogged-table-data", "-h", database.folder, "-U", "postgres", database.name]
    text = subprocess.run(dump, capture_output=True, check=True, text=True).stdout
    assert "CREATE UNLOGGED TABLE duenotice.signing_keys" in text
    assert "do-not-tell" not in text
    assert database.sql("SELECT relpersistence FROM pg_class WHERE relname = 'signing_keys'") == "u"


def test_tables_of_a_version_before_the_first_release_are_refused(database: Database) -> None:
    prepared(database.url)
    database.sql("UPDATE duenotice.about SET version = 2, readable_from = 1")
    with pytest.raises(Misconfigured, match=r"made before the first release \(version 2, this one knows 3\)"):
        prepared(database.url)
