"""The journal in PostgreSQL beyond the contract: who may write, what was lost on the way, copies put in place."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from duenotice.bootstrap.cluster import store_of
from duenotice.clock import Alive
from duenotice.domain.records import IncarnationsLifted, Record
from duenotice.engine.members import Deposed
from duenotice.errors import Conflict, Damaged, Misconfigured, Unavailable
from duenotice.settings import ServeSettings
from duenotice.store.codec import RECORDS, checksum
from duenotice.store.postgres import _FIND, _NEXT_RECORDS
from duenotice.store.postgres_members import PostgresMembers
from duenotice.store.postgres_schema import prepared
from duenotice.testkit.journal_contract import NOON, big_record, records, snapshot
from tests.handlers.databases import BINARIES
from tests.support.leading import LeadingJournal
from tests.support.postgres import Database, Server, Wire

pytestmark = pytest.mark.machine

ROUNDS = 4
APPEND_FOR_EVER = """
import pathlib, sys
from duenotice.testkit.journal_contract import records
from tests.support.leading import LeadingJournal
journal = LeadingJournal(sys.argv[2], pathlib.Path(sys.argv[1]))
while True:
    position = journal.last_position()
    journal.append(records(position + 1, position + 3))
    print(position + 3, flush=True)
"""


@pytest.fixture
def journal(database: Database, tmp_path: Path) -> Iterator[LeadingJournal]:
    journal = LeadingJournal(database.url, tmp_path)
    yield journal
    journal.close()


def lift(position: int) -> Record:
    return Record(position, NOON, "duenotice", IncarnationsLifted(7))


def reopened(database: Database, directory: Path | None) -> LeadingJournal:
    return LeadingJournal(database.url, directory)


def is_restored(database: Database, directory: Path | None) -> bool:
    journal = reopened(database, directory)
    try:
        return journal.restored
    finally:
        journal.close()


# --- what is stored ---


def test_a_person_can_read_the_rows(journal: LeadingJournal, database: Database) -> None:
    """Time, actor and kind of change are columns of a view."""
    journal.append(records(1, 2))
    rows = database.sql("SELECT position, epoch, at, actor, change FROM duenotice.history").splitlines()
    assert rows == [f"{n}|1|2026-03-01T12:00:00Z|operator|scope-enabled" for n in (1, 2)]


def test_only_the_newest_two_snapshots_are_kept(journal: LeadingJournal, database: Database) -> None:
    journal.append(records(1, 5))
    for position in (1, 2, 4, 5):
        journal.save_snapshot(snapshot(position))
    assert database.sql("SELECT position FROM duenotice.snapshots ORDER BY 1").split() == ["4", "5"]


def test_a_commit_waits_for_the_disk_whatever_the_server_says(server: Server, tmp_path: Path) -> None:
    """Also where the server would answer earlier (S5)."""
    database = server.start("synchronous_commit=off")
    journal = reopened(database, tmp_path)
    asked = journal._connection.ask("SELECT current_setting('synchronous_commit')")
    journal.close()
    assert asked == [("on",)]
    assert database.sql("SHOW synchronous_commit") == "off"


def test_each_append_is_one_transaction(journal: LeadingJournal, database: Database) -> None:
    """The head and its records have the same one (N01)."""
    journal.append(records(1, 3))
    rows = database.sql("SELECT xmin FROM duenotice.records UNION ALL SELECT xmin FROM duenotice.head").split()
    assert len(rows) == 4 and len(set(rows)) == 1


def test_a_closed_journal_is_unavailable(journal: LeadingJournal) -> None:
    journal.close()
    for late in (lambda: journal.append(records(1, 1)), journal.last_position, journal.snapshot):
        with pytest.raises(Unavailable):
            late()


def test_an_event_or_a_position_is_found_by_its_index_among_very_many_records(
    journal: LeadingJournal, database: Database
) -> None:
    """Whatever the planner thinks of it: no other record is looked at."""
    database.sql(
        "INSERT INTO duenotice.records SELECT n, 1, 3, 0, '{}', CASE WHEN n = 150000 THEN 'AA-1'::bytea END"
        " FROM generate_series(1, 150000) n; ANALYZE duenotice.records"
    )
    plan = database.sql("EXPLAIN " + _FIND.replace("%s", "'{}'").format("AA-1", "AA-2", 1))
    assert "records_of_events" in plan
    assert "Seq Scan on records" not in plan
    plan = database.sql("EXPLAIN " + _NEXT_RECORDS.replace("%s", "{}").format(149_000, 149_001, 149_256))
    assert "Seq Scan on records" not in plan


# --- damage ---


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE duenotice.records SET payload = replace(payload, 'vm/', 'VM/') WHERE position = 2", "checksum"),
        ("UPDATE duenotice.records SET crc = crc + 1 WHERE position = 2", "checksum"),
        ("DELETE FROM duenotice.records WHERE position = 2", "missing"),
        ("DELETE FROM duenotice.records WHERE position = 3", "missing"),
    ],
)
def test_damage_is_noticed(journal: LeadingJournal, database: Database, damage: str, told: str) -> None:
    journal.append(records(1, 3))
    database.sql(damage)
    with pytest.raises(Damaged, match=f"is not to be trusted: .*{told}") as caught:
        list(journal.read(0))
    assert "pg_dump" in caught.value.hint


def test_a_damaged_snapshot_is_skipped_if_the_records_are_whole(journal: LeadingJournal, database: Database) -> None:
    journal.append(records(1, 5))
    for position in (3, 5):
        journal.save_snapshot(snapshot(position))
    database.sql("UPDATE duenotice.snapshots SET payload = '{}' WHERE position = 5")
    assert journal.snapshot() == snapshot(3)
    database.sql("DELETE FROM duenotice.records WHERE position = 4")
    with pytest.raises(Damaged, match="missing"):
        journal.snapshot()


def test_a_record_of_a_newer_duenotice_is_refused(journal: LeadingJournal, database: Database) -> None:
    """It is not read as something else (N16)."""
    journal.append(records(1, 1))
    row = RECORDS.pack(records(1, 1)[0])
    newer = RECORDS.format + 1
    crc = checksum(1, newer, row.payload)
    database.sql(f"UPDATE duenotice.records SET format = {newer}, crc = {crc}")
    with pytest.raises(Misconfigured, match="written by a newer duenotice"):
        list(journal.read(0))


def test_records_that_are_gone_while_it_runs_are_missed(journal: LeadingJournal, database: Database) -> None:
    """A standby that lacked the last commits has become the server (N14)."""
    journal.append(records(1, 5))
    database.sql("DELETE FROM duenotice.records WHERE position > 3; UPDATE duenotice.head SET position = 3")
    for use in (lambda: list(journal.read(5)), lambda: journal.append(records(6, 6)), journal.last_position):
        with pytest.raises(Damaged, match="ends at record 3 although record 5 was stored") as caught:
            use()
        assert "lifts the incarnations" in caught.value.hint


# --- who writes, and where (N01, S21) ---


def test_a_life_that_another_one_leads_instead_of_writes_nothing(database: Database, tmp_path: Path) -> None:
    """It stood still, and wakes up: nothing that it writes is stored, also no snapshot."""
    first = reopened(database, tmp_path / "a")
    first.append(records(1, 2))
    second = reopened(database, tmp_path / "b")
    with pytest.raises(Deposed, match="Another node leads by now"):
        first.append(records(3, 3))
    with pytest.raises(Deposed, match="Another node leads by now"):
        first.save_snapshot(snapshot(1))
    assert (list(second.read(0)), second.snapshot()) == (records(1, 2), None)
    second.append(records(3, 3))
    first.close()
    second.append(records(4, 4))
    second.close()


def test_a_node_whose_clock_is_manual_is_told_that_it_has_to_be_alone(
    journal: LeadingJournal, database: Database
) -> None:
    """Before it is known to the others: the one that was there goes on as if nobody had come."""
    settings, ended = ServeSettings(journal=database.url, clock="manual"), threading.Event()
    members = PostgresMembers(database.url)

    def beat_on() -> None:
        while not ended.wait(0.05):
            members.beat(journal.life, 0, {})

    beating = threading.Thread(target=beat_on)
    beating.start()
    told = r"in use by the node 'node-a' .*\. With clock = manual a node is alone\."
    for name in ("node-b", "node-a"):
        with pytest.raises(Conflict, match=told) as caught:
            store_of(settings, None, name)
        assert "database of its own" in caught.value.hint
    ended.set()
    beating.join()
    assert [member.life for member in members.look().members] == [journal.life]
    members.close()


def test_a_restart_in_the_same_directory_does_not_wait_for_the_lease(database: Database, tmp_path: Path) -> None:
    """Whoever holds the directory knows that the last process of it is gone (N03)."""
    with run(APPEND_FOR_EVER, tmp_path, database) as child:
        assert child.stdout and child.stdout.readline()
        child.kill()
    settings = ServeSettings(journal=database.url, clock="manual", lease=3600)
    store = store_of(settings, tmp_path, "node-a")
    assert store is not None and store.silent == {}
    assert store.journal.last_position() >= 3
    store.journal.close()
    store.members.close()


def test_a_directory_belongs_to_one_journal(postgres_folder: str, database: Database, tmp_path: Path) -> None:
    """The URL of another cluster's database in the settings: refused before anything is written."""
    reopened(database, tmp_path).close()
    database.sql("CREATE DATABASE other")
    other = Database(postgres_folder, "other")
    try:
        prepared(other.url)
        with pytest.raises(Misconfigured, match="another journal than the one that this data directory") as caught:
            reopened(other, tmp_path)
        assert "database.notes" in caught.value.hint
        assert other.sql("SELECT count(*) FROM duenotice.nodes") == "0"
    finally:
        database.sql("DROP DATABASE other WITH (FORCE)")


def test_a_second_process_on_the_directory_is_refused(
    journal: LeadingJournal, database: Database, tmp_path: Path
) -> None:
    with pytest.raises(Conflict, match=f"the data directory {tmp_path} is in use"):
        reopened(database, tmp_path)


# --- copies put in place (S3) ---


def test_a_journal_that_was_never_elsewhere_is_not_restored(database: Database, tmp_path: Path) -> None:
    """Neither a new one nor one that is opened again, also by another node."""
    assert not is_restored(database, tmp_path)
    journal = reopened(database, tmp_path)
    journal.append(records(1, 3))
    journal.close()
    assert not is_restored(database, tmp_path)
    assert not is_restored(database, None)


def test_a_dump_put_in_place_says_so_until_incarnations_are_lifted(database: Database, tmp_path: Path) -> None:
    """At every start, however far a start got otherwise; also where no node has any notes."""
    journal = reopened(database, tmp_path)
    journal.append(records(1, 3))
    journal.close()
    dump = [f"{BINARIES}/pg_dump", "-h", database.folder, "-U", "postgres", database.name]
    text = subprocess.run(dump, capture_output=True, check=True, text=True).stdout
    database.sql("CREATE DATABASE copied TEMPLATE template0 ENCODING 'UTF8'")
    copy = Database(database.folder, "copied")
    try:
        restore = ["psql", "-XqAt", "-h", copy.folder, "-U", "postgres", copy.name]
        subprocess.run(restore, input=text, check=True, text=True, stdout=subprocess.DEVNULL)
        journal = reopened(copy, None)
        assert journal.restored
        journal.append(records(4, 4))
        journal.note_alive(Alive("boot", 7))
        journal.close()
        journal = reopened(copy, None)
        before = journal.restored
        journal.append([lift(5)])
        assert (before, journal.restored) == (True, False)
        journal.close()
        assert not is_restored(copy, None)
    finally:
        database.sql("DROP DATABASE copied WITH (FORCE)")


def test_a_node_notices_that_the_database_knows_less_than_it_has_shown(database: Database, tmp_path: Path) -> None:
    """A disk that was set back to a snapshot: the server cannot know, the node's notes do."""
    journal = reopened(database, tmp_path)
    journal.append(records(1, 5))
    journal.close()
    database.sql("DELETE FROM duenotice.records WHERE position > 3; UPDATE duenotice.head SET position = 3, shown = 3")
    assert is_restored(database, tmp_path)
    journal = reopened(database, tmp_path)
    journal.append([lift(4)])
    journal.close()
    assert not is_restored(database, tmp_path)


def test_a_failover_that_has_lost_nothing_is_not_a_restore(database: Database, tmp_path: Path) -> None:
    """The journal goes on at another server, which has all of it; then that is where it is."""
    journal = reopened(database, tmp_path)
    journal.append(records(1, 3))
    database.sql("UPDATE duenotice.head SET origin = 'the old server'")
    cut_off(database)
    journal.append(records(4, 4))
    journal.append(records(5, 5))
    journal.close()
    assert not is_restored(database, None)


def test_a_restored_journal_stays_so_over_a_lost_connection(database: Database, tmp_path: Path) -> None:
    journal = reopened(database, tmp_path)
    journal.append(records(1, 3))
    journal.close()
    database.sql("UPDATE duenotice.head SET origin = 'the old server'")
    journal = reopened(database, tmp_path)
    for position in (4, 5):
        cut_off(database)
        journal.append(records(position, position))
    journal.close()
    assert is_restored(database, None)


def cut_off(database: Database) -> None:
    """The server ends all connections."""
    ours = "pid <> pg_backend_pid() AND datname = current_database()"
    database.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}")


# --- answers lost on the way (N02, S6) ---


def test_a_connection_that_was_lost_meanwhile_is_made_again(journal: LeadingJournal, database: Database) -> None:
    """Nobody has to ask twice because the server was restarted an hour ago."""
    for position in range(1, 5):
        cut_off(database)
        journal.append(records(position, position))
        cut_off(database)
        assert journal.last_position() == position


@pytest.fixture
def wire(database: Database, tmp_path: Path) -> Iterator[Wire]:
    (tmp_path / "wire").mkdir()
    wire = Wire(tmp_path / "wire", database.folder)
    yield wire
    wire.close()


def test_an_append_whose_answer_was_lost_is_read_back(wire: Wire, database: Database, tmp_path: Path) -> None:
    """It was done, so it is answered as done, and it is there once."""
    journal = reopened(Database(str(tmp_path / "wire"), database.name), None)
    journal.append(records(1, 3))
    for first in (4, 7, 10):
        wire.loses_next_answer = True
        turn = database.sql("SELECT turn FROM duenotice.head")
        journal.append(records(first, first + 2))
        assert int(database.sql("SELECT turn FROM duenotice.head")) == int(turn) + 1  # what was sent before is too late
    assert wire.lost == 3
    assert list(journal.read(0)) == records(1, 12)
    journal.close()


def test_an_append_that_was_stored_just_before_another_node_led_is_done(
    wire: Wire, database: Database, tmp_path: Path
) -> None:
    """Its answer was lost, and then it cannot be tried again; it is read back all the same."""
    journal = reopened(Database(str(tmp_path / "wire"), database.name), None)
    journal.append(records(1, 3))
    wire.meanwhile = lambda: database.sql("UPDATE duenotice.head SET leader = 'another', epoch = epoch + 1")
    wire.loses_next_answer = True
    journal.append(records(4, 6))
    assert wire.lost == 1
    assert database.sql("SELECT leader FROM duenotice.head") == "another"
    assert list(journal.read(0)) == records(1, 6)
    journal.close()


def test_a_lift_whose_answer_was_lost_is_one(wire: Wire, database: Database, tmp_path: Path) -> None:
    """The journal is not taken for a copy any more, now and at the next start (S3)."""
    journal = reopened(Database(str(tmp_path / "wire"), database.name), None)
    journal.append(records(1, 1))
    journal.close()
    database.sql("UPDATE duenotice.head SET origin = 'the old server'")
    journal = reopened(Database(str(tmp_path / "wire"), database.name), None)
    before, wire.loses_next_answer = journal.restored, True
    journal.append([lift(2)])
    assert (before, wire.lost, journal.restored) == (True, 1, False)
    journal.close()
    assert not is_restored(database, None)


def test_what_an_older_connection_has_sent_comes_too_late(journal: LeadingJournal, database: Database) -> None:
    """It was under way when the journal looked whether it was done: from then on it changes nothing."""
    journal.append(records(1, 1))
    late = PostgresMembers(database.url)
    old = late._append_session(journal.life, journal.epoch)
    journal._members._session = None
    journal.append(records(2, 2))
    late._session = old._replace(connected=late._connection.connected)
    with pytest.raises(Unavailable, match="Another connection"):
        late._append(late._session, records(3, 3), [RECORDS.pack(records(3, 3)[0])], 0)
    late.close()
    assert journal.last_position() == 2


CALLS = {
    "apply('a', 0)": "off",
    "hold('a', 1, 0)": "off",
    "hide('a', 0)": "off",
    "show('a', 1, 0)": "on",
    "beat('a', 0, '{}', '{}')": "on",
    "join('a', 0)": "on",
    "put_out('a', 1, 'b', 0)": "on",
    "take_over('a', 0, 0)": "on",
    "append('a', 1, 1, 0, '{}', '{}', '{}', '{}', 0, NULL)": "on",
}


def test_only_what_members_say_again_if_it_is_lost_does_not_wait_for_the_disk(database: Database) -> None:
    """Whether a commit waits for the disk, and for a standby, is a setting of its transaction."""
    prepared(database.url)
    found = {}
    with psycopg.connect(database.url) as connection:
        for call in CALLS:
            connection.execute(f"SELECT duenotice.{call}")
            (found[call],) = connection.execute("SHOW synchronous_commit").fetchone() or ("nothing",)
            connection.rollback()
    assert found == CALLS


# --- kill -9 (S5) ---


def run(program: str, directory: Path, database: Database) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", program, str(directory), database.url]
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": os.environ["PATH"]}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def test_kill_9_of_the_node_loses_nothing_that_was_answered(database: Database, tmp_path: Path) -> None:
    """In the midst of appends, again and again: every acknowledged record is there, and no half batch."""
    for acknowledgements in range(20, 20 + 37 * ROUNDS, 37):
        with run(APPEND_FOR_EVER, tmp_path, database) as child:
            assert child.stdout
            answered = [int(child.stdout.readline()) for _ in range(acknowledgements)]
            child.send_signal(signal.SIGKILL)
            answered += [int(line) for line in child.stdout if line.endswith("\n")]
        journal = reopened(database, tmp_path)
        kept = [record.position for record in journal.read(0)]
        journal.close()
        assert kept == list(range(1, len(kept) + 1))
        assert len(kept) in (answered[-1], answered[-1] + 3)


def test_kill_9_of_the_server_loses_nothing_that_was_answered(server: Server, tmp_path: Path) -> None:
    """The journal is unavailable meanwhile, and goes on by itself; what it could not answer is there once or not."""
    journal = reopened(server.start(), tmp_path)
    stop, answered = threading.Event(), [0]

    def append_on() -> None:
        while not stop.is_set():
            position = answered[-1]
            try:
                journal.append(records(position + 1, position + 3))
                answered.append(position + 3)
            except Unavailable:
                stop.wait(0.01)
            except Conflict:  # it was stored after all; nobody could be asked at that time
                answered.append(position + 3)

    appending = threading.Thread(target=append_on)
    appending.start()
    try:
        for _ in range(ROUNDS):
            count = len(answered)
            while len(answered) < count + 30:
                stop.wait(0.01)
            server.kill()
            server.start()
    finally:
        stop.set()
        appending.join()
    kept = list(journal.read(0))
    assert kept == records(1, len(kept))
    assert len(kept) in (answered[-1], answered[-1] + 3)
    journal.close()


def test_big_appends_and_snapshots_come_back(journal: LeadingJournal) -> None:
    """More than a message of the protocol, or a page of the server."""
    journal.append([big_record(position) for position in range(1, 501)])
    journal.save_snapshot(snapshot(500, vms=200_000))
    assert [record.position for record in journal.read(0)] == list(range(1, 501))
    found = journal.snapshot()
    assert found is not None and len(found.vms) == 200_000


def test_the_driver_raises_nothing_of_its_own(journal: LeadingJournal, database: Database) -> None:
    """Whatever is wrong with the tables, the error is one of ours."""
    database.sql("DROP TABLE duenotice.records CASCADE")
    with pytest.raises(Damaged, match="not the ones that duenotice made") as caught:
        journal.append(records(1, 1))
    assert isinstance(caught.value.__cause__, psycopg.Error)
