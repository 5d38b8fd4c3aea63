"""The journal on two real PostgreSQL servers under Patroni: a failover with a synchronous standby loses nothing, one
without it loses commits, and then the journal says so (N14)."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from duenotice.domain.records import IncarnationsLifted, Record
from duenotice.errors import Conflict, Damaged, Unavailable
from duenotice.testkit.journal_contract import NOON, records
from tests.cluster.trio import DOCUMENT, FLEET, HEADER, ask
from tests.crash.server import Server
from tests.handlers.contexts import wait_until
from tests.handlers.databases import Cluster, patroni, psql
from tests.support.leading import LeadingJournal

pytestmark = [pytest.mark.machine, pytest.mark.soak]  # a minute and a half of waiting for Patroni

FAILOVER = 90.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with patroni() as cluster:
        yield cluster


def url_of(cluster: Cluster) -> str:
    ports = [cluster.connection(name).split("port=")[1].split()[0] for name in ("db-0", "db-1")]
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    return f"postgresql://postgres@{hosts}/postgres?connect_timeout=2"


def other_than(name: str) -> str:
    return "db-1" if name == "db-0" else "db-0"


def say(cluster: Cluster, method: str, path: str, body: dict[str, Any]) -> None:
    """Tell Patroni something."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{cluster.url(cluster.leader())}{path}", data, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status in (200, 202)


def is_synchronous(cluster: Cluster) -> bool:
    """Whether Patroni knows that the standby has all that the primary has."""
    members = cluster.members().values()
    return sorted((each["role"], each["state"]) for each in members) == [
        ("leader", "running"),
        ("sync_standby", "running"),
    ]


class Appender(threading.Thread):
    """Appends one record after another, and remembers what was acknowledged; nothing else appends."""

    def __init__(self, journal: LeadingJournal) -> None:
        super().__init__()
        self.journal = journal
        self.acknowledged = journal.last_position()
        self.failure: Exception | None = None
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                self.journal.append(records(self.acknowledged + 1, self.acknowledged + 1))
                self.acknowledged += 1
            except Unavailable:
                self.ended.wait(0.05)
            except Conflict:  # stored, but nobody could be asked at that time
                self.acknowledged += 1
            except Exception as error:
                self.failure = error
                return

    def goes_on(self, by: int = 20) -> None:
        """Wait until some more are acknowledged."""
        goal = self.acknowledged + by
        wait_until(lambda: self.acknowledged >= goal or self.failure, FAILOVER)
        assert self.failure is None


def test_with_a_synchronous_standby_nothing_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    """Neither in a switchover nor when the primary loses its power; the journal goes on by itself, and is no copy."""
    say(cluster, "PATCH", "/config", {"synchronous_mode": True})
    wait_until(lambda: is_synchronous(cluster), FAILOVER)
    journal = LeadingJournal(url_of(cluster), tmp_path)
    appender = Appender(journal)
    appender.start()
    try:
        appender.goes_on()
        leader = cluster.leader()
        say(cluster, "POST", "/switchover", {"leader": leader, "candidate": other_than(leader)})
        wait_until(lambda: cluster.leader() == other_than(leader), FAILOVER)
        appender.goes_on()
        wait_until(lambda: is_synchronous(cluster), FAILOVER)
        leader = cluster.leader()
        cluster.power_off(leader)
        wait_until(lambda: cluster.leader() == other_than(leader), FAILOVER)
        appender.goes_on()
    finally:
        appender.ended.set()
        appender.join()
    kept = list(journal.read(0))
    assert kept == records(1, len(kept))
    assert len(kept) in (appender.acknowledged, appender.acknowledged + 1)
    journal.close()
    again = LeadingJournal(url_of(cluster), tmp_path)
    assert not again.restored
    again.close()


def test_without_one_lost_commits_are_noticed(cluster: Cluster, tmp_path: Path) -> None:
    """Nothing is written over them; at the next start it is a copy put in place, until incarnations are lifted (S3)."""
    journal = LeadingJournal(url_of(cluster), tmp_path)
    journal.append(records(1, 3))
    leader = cluster.leader()
    behind = cluster.connection(other_than(leader))
    wait_until(lambda: position_at(behind) == "3", FAILOVER)
    cut_replication(cluster, leader)
    journal.append(records(4, 6))
    cluster.power_off(leader)
    wait_until(lambda: cluster.leader() == other_than(leader), FAILOVER)
    wait_until(lambda: position_at(cluster.writable) == "3", FAILOVER)
    with pytest.raises(Damaged, match="ends at record 3 although record 6 was stored"):
        append_once(journal)
    journal.close()
    again = LeadingJournal(url_of(cluster), tmp_path)
    assert (again.restored, list(again.read(0))) == (True, records(1, 3))
    again.append([Record(4, NOON, "duenotice", IncarnationsLifted(7))])
    assert again.last_position() == 4
    again.close()


def position_at(connection: str) -> str:
    """How far the journal is there; empty when it cannot be asked."""
    with suppress(RuntimeError):
        return psql(connection, "SELECT position FROM duenotice.head")
    return ""


def cut_replication(cluster: Cluster, leader: str) -> None:
    """The standby hears nothing more from the primary."""
    connection = cluster.connection(leader)
    file = Path(psql(connection, "SHOW hba_file"))
    file.write_text("host replication all all reject\n" + file.read_text())
    psql(connection, "SELECT pg_reload_conf()")
    wait_until(lambda: _is_cut(connection), FAILOVER)


def _is_cut(connection: str) -> bool:
    psql(connection, "SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
    return psql(connection, "SELECT count(*) FROM pg_stat_replication") == "0"


def append_once(journal: LeadingJournal) -> None:
    """The answer of a journal that can be reached."""
    for _ in range(200):
        try:
            journal.append(records(7, 7))
        except Unavailable:
            threading.Event().wait(0.1)


def incarnation_of(node: Server) -> int:
    """Of the document that a VM reads there; -1 when there is none."""
    answer = ask(node.metadata, "GET", DOCUMENT, None, HEADER)
    return int(answer.json()["DocumentIncarnation"]) if answer.status == 200 else -1


def scheduled(node: Server) -> str:
    headers = {"Authorization": f"Bearer {node.token}", "Content-Type": "application/json"}
    answer = ask(node.operator, "POST", "/v1/events", {"type": "Reboot", "resources": ["me"]}, headers)
    assert answer.status == 201, answer
    return str(answer.json()["events"][0]["id"])


def test_nodes_go_on_by_themselves_after_commits_were_lost(cluster: Cluster, tmp_path: Path) -> None:
    """Both see it, fold again and lift: no VM takes a new document for an old one (N14, S3)."""
    url = url_of(cluster)
    nodes = [Server(tmp_path / name, FLEET, journal=url, node=name, lease=3) for name in ("a", "b")]
    for node in nodes:
        node.wait_until_serving()
    wait_until(lambda: all(incarnation_of(node) >= 0 for node in nodes), FAILOVER)
    kept = scheduled(nodes[0])
    leader = cluster.leader()
    behind = cluster.connection(other_than(leader))
    wait_until(lambda: position_at(behind) == position_at(cluster.writable), FAILOVER)
    cut_replication(cluster, leader)
    lost, before = scheduled(nodes[1]), max(map(incarnation_of, nodes))
    cluster.power_off(leader)
    wait_until(lambda: all(incarnation_of(node) > before for node in nodes), FAILOVER)
    for node in nodes:
        body = ask(node.metadata, "GET", DOCUMENT, None, HEADER).body.decode()
        assert (kept in body, lost in body) == (True, False)
    assert scheduled(nodes[0])
    for node in nodes:
        node.stop()
