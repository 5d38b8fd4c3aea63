"""Section N: what goes on when the lead changes; three real processes on a real PostgreSQL, and a fast clock."""

import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from duenotice.store.codec import checksum
from tests.acceptance.test_N_nodes import ME, ids, scheduled
from tests.cluster.trio import DOCUMENT, FLEET, HEADER, LEASE, NAMES, Trio, ask, trio
from tests.crash.server import Server
from tests.handlers.databases import postgresql
from tests.support.postgres import Database
from tests.support.served import wait_until

pytestmark = pytest.mark.machine

SPEED = 600
NOTICE = 15 * 60
"""Seconds on the service's clock before a reboot."""
COMMAND = """#!{python} -IS
import os, time
with open({log!r}, "a") as log:
    log.write(os.environ["DUENOTICE_EVENT_ID"] + "\\n")
while os.path.exists({hold!r}):
    time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """One server for all tests of this file."""
    with postgresql("fsync=off") as connection:
        yield Database(connection.split()[0].removeprefix("host="), "postgres")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a command that notes what it is run for, and goes on as long as there is a file `hold`."""
    folder = tmp_path_factory.mktemp("leading")
    script = folder / "command"
    script.write_text(COMMAND.format(python=sys.executable, log=str(folder / "log"), hold=str(folder / "hold")))
    script.chmod(0o755)
    (folder / "log").touch()
    return folder


@pytest.fixture(scope="module")
def nodes(database: Database, folder: Path) -> Iterator[Trio]:
    """Three nodes for all tests of this file; each test leaves them whole."""
    with trio(folder, database, clock=f"{SPEED}x", impact="command", impact_command=folder / "command") as running:
        for name in NAMES:
            running.poll(name, ME)
        running.want_every_notice()
        yield running


@pytest.fixture(autouse=True)
def whole(nodes: Trio) -> None:
    nodes.wait_until_whole()


def changes(database: Database, event: str) -> dict[str, datetime]:
    """What happened to an event, and when on the service's clock."""
    rows = database.sql(f"SELECT change, at FROM duenotice.history WHERE event = '{event}' ORDER BY position")
    return {change: datetime.fromisoformat(at) for change, at in (row.split("|") for row in rows.splitlines())}


def test_N08_without_any_notification_a_beat_brings_the_news(nodes: Trio) -> None:
    """Changes are hidden and shown all the same, and no node shows anything older (S27)."""
    for line in nodes.lines.values():
        line.is_deaf = True
    for name in NAMES:
        event = scheduled(nodes, name)
        assert all(event in ids(nodes, other) for other in NAMES)
    for line in nodes.lines.values():
        line.mend()


def test_N10_a_new_leader_starts_nothing_earlier_than_the_old_one_would_have(nodes: Trio, database: Database) -> None:
    """The whole notice passes, on the clocks of the nodes and on ours; the time in which others answered counts."""
    old = nodes.leader()
    begin = time.monotonic()
    event = scheduled(nodes, old)
    nodes.servers[old].kill()
    wait_until(lambda: "event-started" in changes(database, event))
    assert (time.monotonic() - begin) * SPEED >= NOTICE
    when = changes(database, event)
    assert (when["event-started"] - when["event-raised"]).total_seconds() >= NOTICE
    nodes.start(old)


def test_N11_polls_are_told_with_beats_and_write_no_records(nodes: Trio, database: Database) -> None:
    """The first poll of a scope is a command, at any node; later ones are gathered per node, and the leader knows."""
    name, vm = nodes.others()[0], "127.0.1.10"
    assert nodes.poll(name, vm).status == 200
    enabled = "SELECT count(*) FROM duenotice.history WHERE change = 'scope-enabled'"
    before = database.sql(enabled)
    told = "SELECT steady FROM duenotice.polls WHERE scope = 'vm/db-0'"

    def is_told_later_than(steady: int) -> bool:
        assert nodes.poll(name, vm).status == 200
        return int(database.sql(told) or 0) > steady

    wait_until(lambda: is_told_later_than(0))
    first = int(database.sql(told))
    wait_until(lambda: is_told_later_than(first))
    assert database.sql(enabled) == before


def test_N12_a_command_that_the_old_leader_has_begun_is_not_begun_again(
    nodes: Trio, database: Database, folder: Path
) -> None:
    """It goes on without its node; a new process of that node reports how it ended, although another one leads."""
    (folder / "hold").touch()
    old = nodes.leader()
    event = scheduled(nodes, old)
    assert nodes.approve(old, ME, event).status == 200
    wait_until(lambda: event in (folder / "log").read_text())
    nodes.servers[old].kill()
    new = nodes.leader(but=old)
    other = scheduled(nodes, new)
    assert nodes.approve(new, ME, other).status == 200
    wait_until(lambda: other in (folder / "log").read_text())
    nodes.start(old)
    (folder / "hold").unlink()
    wait_until(lambda: {"event-completed"} <= set(changes(database, event)) & set(changes(database, other)))
    assert [(folder / "log").read_text().count(each) for each in (event, other)] == [1, 1]


def test_N16_a_node_neither_leads_nor_shows_what_it_cannot_read(database: Database, tmp_path: Path) -> None:
    """A newer duenotice has written: 503 instead of an old document, and a start is refused with what to do."""
    database.sql("CREATE DATABASE newer TEMPLATE template0 ENCODING 'UTF8'")
    newer = Database(database.folder, "newer")
    server = Server(tmp_path / "node", FLEET, journal=newer.url, node="old", lease=LEASE)
    server.wait_until_serving()
    position = int(newer.sql("SELECT position FROM duenotice.head")) + 1
    newer.sql(
        "INSERT INTO duenotice.records (position, epoch, format, crc, payload)"
        f" VALUES ({position}, 1, 99, {checksum(position, 99, b'{}')}, '{{}}');"
        f"UPDATE duenotice.head SET position = {position}, leader = '', epoch = epoch + 1;"
        f"NOTIFY duenotice, 'appended {position}'"
    )
    wait_until(lambda: ask(server.metadata, "GET", DOCUMENT, None, HEADER).status == 503)
    assert newer.sql("SELECT leader FROM duenotice.head") == ""
    assert f"record {position} was written by a newer duenotice (format 99" in server.log()
    second = Server(tmp_path / "second", FLEET, journal=newer.url, node="second", lease=LEASE)
    assert second.ended() != 0
    assert "Upgrade duenotice" in second.log()
    server.kill()
