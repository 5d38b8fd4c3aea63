"""A store that answers what cannot be read: nodes go on for a lease, wait, say why, and come back (N22)."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from tests.cluster.trio import DOCUMENT, FLEET, HEADER, LEASE, ask
from tests.crash.server import Server
from tests.support.postgres import Database
from tests.support.served import wait_until

pytestmark = pytest.mark.machine

NAMES = ("a", "b")
KEEP = "CREATE TABLE duenotice.kept AS SELECT * FROM duenotice.head;"
PUT_BACK = "INSERT INTO duenotice.head SELECT * FROM duenotice.kept; DROP TABLE duenotice.kept"


class Fault(NamedTuple):
    """What somebody does to the tables, what undoes it, and a part of what the node says."""

    broken: str
    mended: str
    said: str


CUT_OFF = {
    "an empty head": Fault(f"{KEEP} DELETE FROM duenotice.head", PUT_BACK, "the table head has no row"),
    "a head of another type": Fault(
        "ALTER TABLE duenotice.head ALTER shown DROP DEFAULT, ALTER shown TYPE text",
        "ALTER TABLE duenotice.head ALTER shown TYPE bigint USING shown::bigint, ALTER shown SET DEFAULT 0",
        "Expected `int`, got `str`",
    ),
    "a head without a position": Fault(
        f"{KEEP} ALTER TABLE duenotice.head ALTER position DROP NOT NULL; UPDATE duenotice.head SET position = NULL",
        "UPDATE duenotice.head SET position = (SELECT position FROM duenotice.kept); DROP TABLE duenotice.kept;"
        "ALTER TABLE duenotice.head ALTER position SET NOT NULL",
        "Expected `int`, got `null`",
    ),
    "no table of nodes": Fault(
        "ALTER TABLE duenotice.nodes RENAME TO gone",
        "ALTER TABLE duenotice.gone RENAME TO nodes",
        "its tables are not the ones that duenotice made",
    ),
    "no functions": Fault(
        "ALTER FUNCTION duenotice.beat RENAME TO gone",
        "ALTER FUNCTION duenotice.gone RENAME TO beat",
        "its tables are not the ones that duenotice made",
    ),
}
"""A dump that was restored in part, and what people do by hand."""

STILL_POLLED = {
    "no table of records": Fault(
        "ALTER TABLE duenotice.records RENAME TO gone",
        "ALTER TABLE duenotice.gone RENAME TO records",
        "its tables are not the ones that duenotice made",
    ),
    "records behind the end of the journal": Fault(
        "INSERT INTO duenotice.records SELECT position + 1, epoch, 1, 0, 'x' FROM duenotice.head",
        "DELETE FROM duenotice.records WHERE position > (SELECT position FROM duenotice.head)",
        "its tables are not the ones that duenotice made",
    ),
}
"""Nothing can be stored, but beats can: polls go on."""


class Nodes:
    """Two nodes on one database."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.servers: dict[str, Server] = {}
        self._url = database.url
        for name in NAMES:
            server = Server(folder / name, FLEET, journal=database.url, node=name, lease=LEASE)
            self.servers[name] = server
            server.wait_until_serving()
        self._token = self.servers["a"].token

    def polls(self) -> list[int]:
        """What a VM gets at each node."""
        return [ask(each.metadata, "GET", DOCUMENT, None, HEADER).status for each in self.servers.values()]

    def change(self, name: str) -> tuple[int, str]:
        """An operator's change at one node: what came of it, and why."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        body = {"type": "Freeze", "resources": ["me"]}
        answer = ask(self.servers[name].operator, "POST", "/v1/events", body, headers)
        return answer.status, answer.body.decode()

    def ready(self, name: str, query: str = "") -> tuple[int, str]:
        answer = ask(self.servers[name].operator, "GET", f"/readyz{query}")
        return answer.status, answer.body.decode()

    def sql(self, query: str) -> None:
        """Done in one transaction, although nodes ask all the time."""
        while True:
            with suppress(psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                with psycopg.connect(self._url) as connection:
                    connection.execute(query.encode())
                return

    def work(self) -> bool:
        """Whether all is well again at both."""
        return self.polls() == [200, 200] and all(self.ready(name)[0] == 200 for name in NAMES)

    def check_alive(self) -> None:
        assert all(server.alive() for server in self.servers.values())
        for server in self.servers.values():
            assert "Traceback" not in server.log()


@pytest.fixture
def nodes(tmp_path: Path, database: Database) -> Iterator[Nodes]:
    made = Nodes(tmp_path, database)
    yield made
    for server in made.servers.values():
        if server.alive():
            server.kill()


def test_nodes_wait_for_a_store_that_cannot_be_read_and_come_back(nodes: Nodes) -> None:
    """Polls go on for a lease, then 503; `/readyz` and the log say what was answered and what to do."""
    assert nodes.polls() == [200, 200]
    for what, (broken, mended, said) in CUT_OFF.items():
        nodes.sql(broken)
        began = time.monotonic()
        assert nodes.polls() == [200, 200], f"{what}: they may answer for a lease"
        assert time.monotonic() - began < LEASE / 2
        wait_until(lambda: nodes.polls() == [503, 503])
        for name in NAMES:
            wait_until(lambda name=name, said=said: said in nodes.ready(name)[1])  # type: ignore[misc]
            status, body = nodes.ready(name)
            assert (status, said in json.loads(body)["title"], bool(json.loads(body)["hint"])) == (503, True, True)
            status, verbose = nodes.ready(name, "?verbose")
            assert (status, said in verbose) == (503, True), verbose
            assert nodes.change(name)[0] == 503
        nodes.check_alive()
        nodes.sql(mended)
        wait_until(nodes.work)
        wait_until(lambda: [nodes.change(name)[0] for name in NAMES] == [201, 201])


def test_nodes_that_cannot_store_go_on_to_answer(nodes: Nodes) -> None:
    """A change is 503 with the reason; as soon as the tables are right, it works."""
    assert nodes.polls() == [200, 200], "the first poll of a scope is a change (F01)"
    for what, (broken, mended, said) in STILL_POLLED.items():
        nodes.sql(broken)
        for name in NAMES:
            status, body = nodes.change(name)
            assert (status, said in body) == (503, True), f"{what}: {body}"
        until = time.monotonic() + 2 * LEASE
        while time.monotonic() < until:
            assert nodes.polls() == [200, 200]
        nodes.check_alive()
        nodes.sql(mended)
        wait_until(lambda: [nodes.change(name)[0] for name in NAMES] == [201, 201])


def test_a_record_that_cannot_be_read_ends_no_node(nodes: Nodes, database: Database) -> None:
    """It is told to both; who reads it waits, and goes on when it is taken away."""
    nodes.sql(
        "UPDATE duenotice.head SET position = position + 1;"
        "INSERT INTO duenotice.records SELECT position, epoch, 1, 0, 'x' FROM duenotice.head;"
        "SELECT pg_notify('duenotice', 'appended ' || position) FROM duenotice.head"
    )
    wait_until(lambda: any("does not match its checksum" in nodes.ready(name, "?verbose")[1] for name in NAMES))
    nodes.check_alive()
    nodes.sql(
        "UPDATE duenotice.head SET position = position - 1;"
        "DELETE FROM duenotice.records WHERE position > (SELECT position FROM duenotice.head)"
    )
    wait_until(nodes.work)
    wait_until(lambda: [nodes.change(name)[0] for name in NAMES] == [201, 201])


def test_a_start_on_a_database_that_was_restored_in_part_says_so(database: Database, tmp_path: Path) -> None:
    """It ends with one line of what is wrong, and one of what to do."""
    begun = Server(tmp_path / "a", FLEET, journal=database.url, node="a", lease=LEASE)
    begun.wait_until_serving()
    begun.stop()
    for broken, said in (
        ("DELETE FROM duenotice.head", "the table head has no row"),
        ("DELETE FROM duenotice.about", "The table duenotice.about has 0 rows instead of one"),
    ):
        database.sql(broken)
        server = Server(tmp_path / "a", FLEET, journal=database.url, node="a", lease=LEASE)
        assert server.ended() != 0
        assert said in server.log()
        assert "Traceback" not in server.log()
