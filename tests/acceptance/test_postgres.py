"""One node on PostgreSQL is a whole service: it goes on after a restart, a crash, and a database that was away."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.acceptance.conftest import DEMO
from tests.handlers.databases import BINARIES
from tests.support.cli import duenotice
from tests.support.node import Node
from tests.support.postgres import Database, Server, database, postgres_folder, server
from tests.support.served import Served, wait_until

__all__ = ["database", "postgres_folder", "server"]

pytestmark = pytest.mark.machine


def on(database: Database, data_dir: Path | str = ":memory:") -> Node:
    """A node in this process."""
    return Node(DEMO, data_dir=str(data_dir), journal=database.url)


def test_what_was_answered_is_there_after_a_restart_and_kill_9(database: Database, tmp_path: Path) -> None:
    """As with a file: the event, its history, the incarnation, the token (S3, S5)."""
    with Served(tmp_path, DEMO, journal=database.url) as node:
        node.enable("web-0")
        event = node.schedule("Reboot", "web-0")
        before = node.document("web-0")
        token = node.token
        node.server.kill()
    with Served(tmp_path, DEMO, journal=database.url) as node:
        assert (node.document("web-0"), node.token) == (before, token)
        node.approve("web-0", event)
        assert node.statuses("web-0") == ["Started"]
    with Served(tmp_path, DEMO, journal=database.url) as node:
        assert node.statuses("web-0") == ["Started"]
        assert [record.action for record in node.history(event)] == [
            "event-raised",
            "event-approved",
            "event-started",
        ]


def answers(node: Served) -> bool:
    with suppress(OSError):
        return node.operator("GET", "/readyz").status == 200
    return False


def test_a_database_that_has_lost_commits_is_gone_on_from_without_anybodys_help(
    database: Database, tmp_path: Path
) -> None:
    """The same process, on the same ports; no VM takes its new document for an old one (S3)."""
    with Served(tmp_path, DEMO, journal=database.url) as node:
        node.enable("web-0")
        kept = node.schedule("Reboot", "web-0")
        position = database.sql("SELECT position FROM duenotice.head")
        node.schedule("Reboot", "web-0")
        before = node.document("web-0")["DocumentIncarnation"]
        database.sql(
            f"DELETE FROM duenotice.records WHERE position > {position};"
            f"UPDATE duenotice.head SET position = {position}, shown = {position}"
        )
        assert node.operator("POST", "/v1/vms/web-1/restart").status == 503
        wait_until(lambda: "incarnations-lifted" in database.sql("SELECT change FROM duenotice.history"))
        wait_until(lambda: answers(node))
        assert node.document("web-0")["DocumentIncarnation"] > before
        assert [event["EventId"] for event in node.events("web-0")] == [kept]


def test_another_machine_goes_on_where_the_first_one_was(database: Database, tmp_path: Path) -> None:
    """With a data directory of its own: all that counts is in the database."""
    with on(database, tmp_path / "a") as node:
        node.enable("web-0")
        event = node.schedule("Reboot", "web-0")
        before = node.document("web-0")
    with on(database, tmp_path / "b") as node:
        assert node.document("web-0") == before
        node.advance("15m")
        assert [(seen["EventId"], seen["EventStatus"]) for seen in node.events("web-0")] == [(event, "Started")]


def test_two_machines_in_turn_keep_their_tokens(database: Database, tmp_path: Path) -> None:
    """Each has one in its own directory, and neither takes the other's away."""
    tokens = []
    for name in ("a", "b", "a", "b"):
        with Node(DEMO, data_dir=str(tmp_path / name), journal=database.url, node=f"node-{name}") as node:
            tokens.append(node.token)
            assert node.operator("GET", "/v1/vms").status == 200
    assert tokens[:2] == tokens[2:] and tokens[0] != tokens[1]


def test_a_second_node_ends_at_once_with_a_clear_line(database: Database, tmp_path: Path) -> None:
    """And the first one goes on as if nobody had come (S21)."""
    with on(database, tmp_path / "a") as node:
        node.enable("web-0")
        ended = duenotice(
            None,
            "serve",
            "--data-dir",
            str(tmp_path / "b"),
            "--metadata-listen=127.0.0.1:0",
            "--operator-listen=127.0.0.1:0",
            DUENOTICE_JOURNAL=database.url,
            DUENOTICE_NODE="second",
        )
        assert ended.code == 4
        assert "error: The database is in use by the node" in ended.err
        assert " hint: Stop that node, or give this one a database of its own." in ended.err
        assert node.schedule("Reboot", "web-0")


def test_a_node_that_was_deposed_ends(database: Database, tmp_path: Path) -> None:
    """A zombie answers nobody with what it last knew."""
    with Served(tmp_path, DEMO, journal=database.url) as node:
        database.sql("UPDATE duenotice.head SET leader = 'somebody else', epoch = epoch + 1")
        assert node.server.ended() == 2
        assert "does not lead any more" in node.server.log()


@pytest.mark.parametrize(
    ("url", "code", "told"),
    [
        ("mysql://db/x", 2, "is not the URL of a database"),
        ("postgresql:///x?host=/nowhere", 6, "cannot be used: it does not answer"),
        ("postgresql://u:secret@/x?nonsense=1", 2, "is not valid"),
    ],
)
def test_a_start_without_a_database_is_told_in_one_line(url: str, code: int, told: str, tmp_path: Path) -> None:
    """With what to do, and without the password."""
    ended = duenotice(None, "serve", f"--journal={url}", f"--data-dir={tmp_path}", "--metadata-listen=127.0.0.1:0")
    assert (ended.code, told in ended.err, "hint: " in ended.err) == (code, True, True)
    assert "secret" not in ended.err


def test_the_log_does_not_have_the_password(database: Database, tmp_path: Path) -> None:
    """It has the rest of the URL."""
    with Served(tmp_path, DEMO, journal=database.url_of("postgres", "hush hush")) as node:
        assert "postgres:***@" in node.server.log()
        assert "hush" not in node.server.log()


@pytest.fixture
def own(server: Server) -> Iterator[Server]:
    """A database server that can be killed."""
    server.start()
    yield server


def test_a_database_that_is_away_for_a_while(own: Server, tmp_path: Path) -> None:
    """Polls go on from memory, commands are 503 and have no effect, and all comes back by itself (N15)."""
    url = Database(str(own.folder), "postgres").url
    with Served(tmp_path, DEMO, journal=url, clock="real") as node:
        node.enable("web-0", "db-0")
        event = node.schedule("Reboot", "web-0")
        before = node.document("web-0")
        own.kill()
        status, why = node.refusal("/v1/events", {"type": "Reboot", "resources": ["db-0"]})
        assert (status, "could not be stored" in why) == (503, True)
        assert node.approve("web-0", event).status == 503
        assert node.document("web-0") == before
        own.start()
        wait_until(lambda: node.approve("web-0", event).status == 200, 10)
        wait_until(lambda: node.statuses("web-0") == ["Started"])
        assert node.events("db-0") == []
        assert node.schedule("Reboot", "db-0")


def test_a_node_whose_database_is_away_can_be_stopped(own: Server, tmp_path: Path) -> None:
    """It ends cleanly, and the next start finds what was answered (S5)."""
    url = Database(str(own.folder), "postgres").url
    with Served(tmp_path, DEMO, journal=url) as node:
        node.enable("web-0")
        event = node.schedule("Reboot", "web-0")
        own.kill()
        node.server.stop()
    own.start()
    with Served(tmp_path, DEMO, journal=url) as node:
        assert [seen["EventId"] for seen in node.events("web-0")] == [event]


def test_a_dump_put_in_place_lifts_the_incarnations(database: Database, tmp_path: Path) -> None:
    """VMs have seen more than the copy knows, so it goes far ahead (S3, N14)."""
    with on(database, tmp_path / "a") as node:
        node.enable("web-0")
        node.schedule("Reboot", "web-0")
    dump = [f"{BINARIES}/pg_dump", "-h", database.folder, "-U", "postgres", database.name]
    text = subprocess.run(dump, capture_output=True, check=True, text=True).stdout
    with on(database, tmp_path / "a") as node:
        node.schedule("Redeploy", "web-0")
        seen = node.incarnation("web-0")
    database.sql("CREATE DATABASE put_in_place TEMPLATE template0 ENCODING 'UTF8'")
    copy = database._replace(name="put_in_place")
    try:
        restore = ["psql", "-XqAt", "-h", copy.folder, "-U", "postgres", copy.name]
        subprocess.run(restore, input=text, check=True, text=True, stdout=subprocess.DEVNULL)
        with on(copy) as node:
            lifted = node.incarnation("web-0")
            assert lifted > seen + 1000
        with on(copy) as node:
            assert node.incarnation("web-0") == lifted
    finally:
        database.sql("DROP DATABASE put_in_place WITH (FORCE)")
