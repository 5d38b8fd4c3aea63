"""The embedded journal beyond the contract: its files, its upkeep, trouble with the disk, and being killed."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from duenotice.errors import Conflict, Damaged, Misconfigured, Unavailable
from duenotice.store import sqlite
from duenotice.store.sqlite import SqliteJournal
from duenotice.store.sqlite_file import make_writable
from duenotice.testkit.journal_contract import big_record, record, records, snapshot

ROUNDS = 6
APPEND_FOR_EVER = """
import pathlib, sys
from duenotice.store.sqlite import SqliteJournal
from duenotice.testkit.journal_contract import records
journal = SqliteJournal(pathlib.Path(sys.argv[1]))
while True:
    position = journal.last_position()
    journal.append(records(position + 1, position + 3))
    print(position + 3, flush=True)
    journal.maintain()
"""
FILL_THE_DISK = """
import pathlib, resource, sys
from duenotice.errors import Unavailable
from duenotice.store.sqlite import SqliteJournal
from duenotice.testkit.journal_contract import big_record, records
journal = SqliteJournal(pathlib.Path(sys.argv[1]))
journal.append(records(1, 3))
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (5_000_000, hard))
try:
    for position in range(4, 10_000):
        journal.append([big_record(position)])
except Unavailable as error:
    kept = [r.position for r in journal.read(0)]
    assert kept == list(range(1, position)), kept
    print(error.message)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
journal.append([big_record(position)])
journal.close()
print(position)
"""
LITTLE_ROOM = """
import pathlib, resource, sys
from duenotice.errors import Unavailable
from duenotice.store.sqlite import SqliteJournal
from duenotice.testkit.journal_contract import records
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
journal = SqliteJournal(pathlib.Path(sys.argv[1]))
try:
    journal.append(records(journal.last_position() + 1, journal.last_position() + 3))
except Unavailable:
    print("unavailable")
print(f"{len(list(journal.read(0)))} records")
journal.close()
"""
APPEND_AND_DIE = """
import os, pathlib, signal, sys
from duenotice.store.sqlite import SqliteJournal
from duenotice.testkit.journal_contract import big_record
SqliteJournal(pathlib.Path(sys.argv[1])).append([big_record(position) for position in range(1, 151)])
os.kill(os.getpid(), signal.SIGKILL)
"""


def run(program: str, directory: Path) -> subprocess.Popen[str]:
    """A child process with a program of ours."""
    command = [sys.executable, "-c", program, str(directory)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": ":".join(sys.path)})


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    journal = SqliteJournal(tmp_path)
    yield journal
    journal.close()


def shell(directory: Path) -> apsw.Connection:
    """What a person with a sqlite3 shell has."""
    return apsw.Connection(str(directory / "journal.db"))


def test_a_person_can_read_the_rows(journal: SqliteJournal, tmp_path: Path) -> None:
    """Time, actor and kind of change are columns, while the service runs."""
    journal.append(records(1, 2))
    rows = shell(tmp_path).execute("SELECT position, at, actor, change FROM records").fetchall()
    assert rows == [(n, "2026-03-01T12:00:00Z", "operator", "scope-enabled") for n in (1, 2)]


def test_files_are_for_their_owner_alone(journal: SqliteJournal, tmp_path: Path) -> None:
    """Every file of the journal has mode 0600."""
    journal.append(records(1, 2))
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert modes == dict.fromkeys(["journal.db", "journal.db-wal", "journal.db-shm", "journal.lock"], 0o600)


def test_one_tidy_file_is_left(journal: SqliteJournal, tmp_path: Path) -> None:
    """After closing, everything is in journal.db."""
    journal.append(records(1, 2))
    journal.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["journal.db", "journal.lock"]


def test_an_unfinished_creation_is_begun_anew(tmp_path: Path) -> None:
    """A process killed while it made the file leaves nothing that disturbs the next one."""
    (tmp_path / "journal.db.new").write_bytes(b"half a")
    (tmp_path / "journal.db.new-journal").write_bytes(b"half a")
    SqliteJournal(tmp_path).close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["journal.db", "journal.lock"]


def test_a_second_journal_on_the_directory_is_refused(journal: SqliteJournal, tmp_path: Path) -> None:
    """Two journals never write to one directory (S21)."""
    with pytest.raises(Conflict, match=f"the data directory {tmp_path} is in use by process"):
        SqliteJournal(tmp_path)


def test_a_commit_is_synced(journal: SqliteJournal) -> None:
    """Both connections sync at every commit and at every move of the log (S5)."""
    store = journal._database
    assert [c.pragma("synchronous") for c in (store._writer, store._reader)] == [2, 2]
    assert store._writer.pragma("journal_mode") == "wal"


def test_only_the_newest_two_snapshots_are_kept(journal: SqliteJournal, tmp_path: Path) -> None:
    """The file does not fill up with old snapshots; one older than the newest is kept for the worst case."""
    journal.append(records(1, 5))
    for position in (1, 2, 4, 5):
        journal.save_snapshot(snapshot(position))
    assert shell(tmp_path).execute("SELECT position FROM snapshots").fetchall() == [(4,), (5,)]


def test_upkeep_moves_a_grown_log_and_reuses_it(journal: SqliteJournal, tmp_path: Path) -> None:
    """The write-ahead log goes into the database when idle and is used again, so it does not grow for ever."""
    for position in range(1, 800):
        journal.append([big_record(position)])
        journal.maintain()
    log, database = ((tmp_path / name).stat().st_size for name in ("journal.db-wal", "journal.db"))
    assert log < 5_000_000 < database
    assert [r.position for r in journal.read(0)] == list(range(1, 800))


def test_upkeep_that_was_never_done_is_done_by_an_append(
    journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a load that leaves no idle moment the log stays bounded too."""
    monkeypatch.setattr(sqlite, "OVERDUE_PAGES", 1200)
    for position in range(1, 600):
        journal.append([big_record(position)])
    assert (tmp_path / "journal.db-wal").stat().st_size < 6_000_000


def test_a_person_who_reads_holds_upkeep_up_only_for_a_while(journal: SqliteJournal, tmp_path: Path) -> None:
    """While somebody reads an old state the log cannot be moved; afterwards it is, and commits never waited."""
    journal.append(records(1, 3))
    person = shell(tmp_path)
    person.execute("BEGIN; SELECT count(*) FROM records").fetchall()
    for position in range(4, 400):
        journal.append([big_record(position)])
    journal.maintain()
    assert (tmp_path / "journal.db").stat().st_size < 1_000_000
    person.close()
    journal.maintain()
    assert (tmp_path / "journal.db").stat().st_size > 3_000_000


def test_a_small_log_is_left_alone(journal: SqliteJournal, tmp_path: Path) -> None:
    """Upkeep that is not worth it costs nothing: the database file is not touched."""
    journal.append(records(1, 3))
    before = (tmp_path / "journal.db").read_bytes()
    journal.maintain()
    assert (tmp_path / "journal.db").read_bytes() == before


@pytest.mark.parametrize("last", [1, 2])
def test_somebody_holding_the_file_is_a_passing_trouble(journal: SqliteJournal, tmp_path: Path, last: int) -> None:
    """While a person writes with a shell an append is unavailable; afterwards it works (S6)."""
    journal._database._writer.set_busy_timeout(0)
    person = shell(tmp_path)
    person.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match=r"cannot be used right now: .*locked") as caught:
        journal.append(records(1, last))
    assert "nothing was lost" in caught.value.hint
    person.execute("ROLLBACK")
    journal.append(records(1, last))
    assert list(journal.read(0)) == records(1, last)


def test_nothing_counts_as_stored_inside_a_transaction_that_an_error_has_left_open(journal: SqliteJournal) -> None:
    """It would be lost with that transaction (S5)."""
    journal._database._writer.execute("BEGIN")
    with pytest.raises(Damaged, match="transaction"):
        journal.append(records(1, 1))
    journal._database._writer.execute("ROLLBACK")
    assert list(journal.read(0)) == []


def test_a_full_database_is_a_passing_trouble(journal: SqliteJournal) -> None:
    """When there is no room nothing of the append is kept, and with room again the journal goes on (S6)."""
    journal.append(records(1, 3))
    writer = journal._database._writer
    writer.pragma("max_page_count", writer.pragma("page_count") + 2)
    with pytest.raises(Unavailable, match="the disk is full") as caught:
        journal.append([record(4), big_record(5)])
    assert "Free some space" in caught.value.hint
    assert list(journal.read(0)) == records(1, 3)
    writer.pragma("max_page_count", 1_000_000)
    journal.append([record(4), big_record(5)])
    assert list(journal.read(0)) == [*records(1, 4), big_record(5)]


def test_a_disk_that_takes_no_more_is_a_passing_trouble(tmp_path: Path) -> None:
    """When the system refuses to write, the journal says so, keeps what it had, and goes on when it may (S6)."""
    with run(FILL_THE_DISK, tmp_path) as child:
        assert child.stdout
        trouble, last = child.stdout.read().splitlines()
    assert "cannot be used right now" in trouble
    journal = SqliteJournal(tmp_path)
    assert [r.position for r in journal.read(0)] == list(range(1, int(last) + 1))
    journal.close()


def test_a_full_disk_does_not_hinder_a_start(tmp_path: Path) -> None:
    """What a killed process left is read even if there is no room to tidy it up (S5)."""
    with run(APPEND_AND_DIE, tmp_path) as child:
        assert child.wait() == -signal.SIGKILL
    with run(LITTLE_ROOM, tmp_path) as child:
        assert child.stdout
        assert child.stdout.read() == "unavailable\n150 records\n"
    journal = SqliteJournal(tmp_path)
    assert list(journal.read(0)) == [big_record(position) for position in range(1, 151)]
    journal.close()


def test_little_room_is_left_to_the_records(tmp_path: Path) -> None:
    """Where the log cannot be given its size at once, it begins small and the journal works."""
    with run(LITTLE_ROOM, tmp_path) as child:
        assert child.stdout
        assert child.stdout.read() == "3 records\n"


def test_a_place_without_a_write_ahead_log_is_refused() -> None:
    """Where SQLite cannot keep a write-ahead log nothing would be durable, so we do not begin."""
    with pytest.raises(Misconfigured, match="does not support a write-ahead log") as caught:
        make_writable(apsw.Connection(":memory:"))
    assert "local disk" in caught.value.hint


def test_a_closed_journal_is_unavailable(journal: SqliteJournal) -> None:
    """Whoever comes after closing time is told so, and the directory is free."""
    journal.close()
    for late in (lambda: journal.append(records(1, 1)), journal.last_position, journal.snapshot):
        with pytest.raises(Unavailable):
            late()


def test_kill_9_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    """Killed in the midst of appends, again and again: every acknowledged record is there, and no half batch (S5)."""
    for acknowledgements in range(20, 20 + 37 * ROUNDS, 37):
        with run(APPEND_FOR_EVER, tmp_path) as child:
            assert child.stdout
            answered = [int(child.stdout.readline()) for _ in range(acknowledgements)]
            child.send_signal(signal.SIGKILL)
            answered += [int(line) for line in child.stdout if line.endswith("\n")]
        journal = SqliteJournal(tmp_path)
        kept = [r.position for r in journal.read(0)]
        journal.close()
        assert kept == list(range(1, len(kept) + 1))
        assert len(kept) in (answered[-1], answered[-1] + 3)
