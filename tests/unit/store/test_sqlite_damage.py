"""A file that is not what we left is reported with what to do, left as it was, and never silently emptied."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from structlog.testing import capture_logs

from duenotice.domain.records import Record
from duenotice.domain.snapshot import Snapshot
from duenotice.errors import Damaged, Misconfigured
from duenotice.store import codec, sqlite_file
from duenotice.store.sqlite import SqliteJournal
from duenotice.testkit.journal_contract import big_record, record, records, snapshot

RECORDS = [*records(1, 30), big_record(31), *records(32, 40)]
SNAPSHOTS = [snapshot(20, "older", vms=40), snapshot(35, "newer", vms=40)]


@pytest.fixture(scope="module", autouse=True)
def small_log() -> Iterator[None]:
    """Many journals are opened here, and how fast they would write does not matter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_file, "LOG_SIZE_AT_FIRST", 0)
        yield


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as a server that was stopped leaves it."""
    directory = tmp_path_factory.mktemp("closed")
    _filled(directory).close()
    return directory


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as a server that was killed leaves it: half of the records are in the write-ahead log only."""
    running, directory = (tmp_path_factory.mktemp(name) for name in ("running", "killed"))
    journal = _filled(running)
    shutil.copytree(running, directory, dirs_exist_ok=True)
    journal.close()
    return directory


def _filled(directory: Path) -> SqliteJournal:
    journal = SqliteJournal(directory)
    journal.append(RECORDS[:20])
    journal.save_snapshot(SNAPSHOTS[0])
    journal._database.move_log()
    journal.append(RECORDS[20:])
    journal.save_snapshot(SNAPSHOTS[1])
    journal.note_seen(40)
    return journal


@pytest.fixture
def directory(closed: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return copy_of(closed, tmp_path / "data")


def copy_of(directory: Path, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    return shutil.copytree(directory, place)


def everything(directory: Path) -> tuple[list[Record], Snapshot | None]:
    """All that a start reads."""
    journal = SqliteJournal(directory)
    try:
        return list(journal.read(0)), journal.snapshot()
    finally:
        journal.close()


def edit(directory: Path, statements: str) -> None:
    """What a careless person does with a sqlite3 shell."""
    connection = apsw.Connection(str(directory / "journal.db"))
    connection.execute(statements)
    connection.close()


def files(directory: Path) -> dict[str, bytes]:
    """What must not change; SQLite may leave an empty log beside a file that it only looked at."""
    contents = {file.name: file.read_bytes() for file in directory.glob("journal.db*") if file.suffix != ".db-shm"}
    return {name: content for name, content in contents.items() if content}


def refused(directory: Path) -> Misconfigured:
    """The error that everything ends in; the files are as they were."""
    before = files(directory)
    with pytest.raises(Misconfigured) as caught:
        everything(directory)
    assert files(directory) == before
    assert caught.value.hint
    return caught.value


def damaged(directory: Path) -> str:
    """The message of the damage that is reported, which names the file and what to do."""
    error = refused(directory)
    assert isinstance(error, Damaged)
    assert str(directory) in error.message
    assert "estore" in error.hint
    return error.message


def test_an_undamaged_file_is_read_whole(directory: Path, killed: Path, tmp_path: Path) -> None:
    """Stopped or killed, everything is read."""
    assert everything(directory) == (RECORDS, SNAPSHOTS[1])
    assert everything(copy_of(killed, tmp_path / "killed")) == (RECORDS, SNAPSHOTS[1])


def test_a_missing_file_is_not_replaced_by_an_empty_one(directory: Path) -> None:
    """A directory that had a journal does not start over by itself."""
    (directory / "journal.db").unlink()
    assert f"journal.db is missing from {directory} although it was there before" in damaged(directory)
    assert not (directory / "journal.db").exists()


def test_a_log_without_its_database_is_not_thrown_away(killed: Path, tmp_path: Path) -> None:
    """A write-ahead log alone says that there was a journal, even if the lock file is gone."""
    directory = copy_of(killed, tmp_path / "data")
    (directory / "journal.db").unlink()
    (directory / "journal.lock").unlink()
    assert "is missing" in damaged(directory)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "it is empty"), (b"SQLite", "cut off after 6 bytes"), (b"x" * 9000, "not a SQLite database")],
)
def test_a_file_that_is_no_database(directory: Path, content: bytes, message: str) -> None:
    """Zero bytes, a few bytes and other bytes are all damage, never a new journal."""
    (directory / "journal.db").write_bytes(content)
    assert message in damaged(directory)


def test_a_database_without_our_tables(directory: Path) -> None:
    """A file of ours always has its tables, so one without them has lost them."""
    edit(directory, "DROP TABLE snapshots")
    assert "its tables are not the ones" in damaged(directory)


@pytest.mark.parametrize("pages", [1, 2, 5, -1])
def test_a_truncated_file(directory: Path, pages: int) -> None:
    """A file that was cut at any page is damage."""
    content = (directory / "journal.db").read_bytes()
    (directory / "journal.db").write_bytes(content[: 4096 * pages])
    damaged(directory)


@pytest.mark.parametrize(
    "statements",
    [
        "DELETE FROM records WHERE position = 17",
        "DELETE FROM records WHERE position = 1",
        "DELETE FROM records WHERE position > 38",
        "DELETE FROM records",
        "UPDATE records SET position = 41 WHERE position = 40",
        "UPDATE records SET payload = replace(payload, 'db-0', 'db-1') WHERE position = 3",
        "UPDATE records SET payload = '{}' WHERE position = 3",
        "UPDATE records SET crc = 0 WHERE position = 40",
        "UPDATE records SET format = 14 WHERE position = 40",
    ],
)
@pytest.mark.parametrize("size", ["small", "big"])
def test_records_changed_by_hand(directory: Path, statements: str, size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No record can be removed or changed unseen, also in a file too big to be checked page by page."""
    monkeypatch.setattr(sqlite_file, "CHECK_ALL_BELOW", 0 if size == "big" else 2**30)
    edit(directory, statements)
    damaged(directory)


def test_records_missing_at_the_end_are_noticed_without_the_lock_file(directory: Path) -> None:
    """A backup comes without one; its snapshots tell up to where there were records, and a stop leaves one."""
    (directory / "journal.lock").unlink()
    edit(directory, "DELETE FROM records WHERE position > 34")
    assert "it holds records 1 to 34 where 1 to 35 were written" in damaged(directory)


def test_a_lost_log_is_seen(killed: Path, tmp_path: Path) -> None:
    """Without its write-ahead log the database is whole but old; the note in the lock file tells."""
    directory = copy_of(killed, tmp_path / "data")
    (directory / "journal.db-wal").unlink()
    assert "it ends at record 20 although record 40 was written" in damaged(directory)


def test_an_older_backup_can_be_restored_on_purpose(killed: Path, tmp_path: Path) -> None:
    """Whoever takes the loss deletes the lock file, as the hint says."""
    directory = copy_of(killed, tmp_path / "data")
    (directory / "journal.db-wal").unlink()
    assert "delete journal.lock" in refused(directory).hint
    (directory / "journal.lock").unlink()
    assert everything(directory) == (RECORDS[:20], SNAPSHOTS[0])


def test_a_torn_write_that_was_never_answered_is_no_damage(killed: Path, tmp_path: Path) -> None:
    """Half a transaction at the end of the log was never acknowledged, and goes."""
    directory = copy_of(killed, tmp_path / "data")
    log = (directory / "journal.db-wal").read_bytes()
    end = len(log.rstrip(b"\0"))
    (directory / "journal.db-wal").write_bytes(log[:end] + log[4000:9000])
    assert everything(directory) == (RECORDS, SNAPSHOTS[1])


def test_a_copy_made_by_sqlite_can_be_restored(directory: Path, tmp_path: Path) -> None:
    """A backup by VACUUM INTO is a journal like any other, though it comes without a write-ahead log."""
    backup = tmp_path / "backup"
    backup.mkdir()
    edit(directory, f"VACUUM INTO '{backup / 'journal.db'}'")
    assert everything(backup) == (RECORDS, SNAPSHOTS[1])
    assert SqliteJournal(backup)._database._writer.pragma("journal_mode") == "wal"


def test_a_newer_schema_is_refused(directory: Path) -> None:
    """A file of a newer duenotice is left alone, and the message says what to do."""
    edit(directory, "PRAGMA user_version = 4; ALTER TABLE records ADD COLUMN more TEXT")
    error = refused(directory)
    assert not isinstance(error, Damaged)
    assert "journal.db: written by a newer duenotice (schema 4, this one knows 3)" in error.message
    assert "Upgrade duenotice, or restore a backup" in error.hint


def test_a_database_of_another_program_is_refused(directory: Path) -> None:
    """We do not write into somebody else's file."""
    edit(directory, "PRAGMA application_id = 7")
    assert "not a duenotice journal" in refused(directory).message


def test_a_newer_record_is_refused(directory: Path) -> None:
    """A record of a newer format names the file and both versions."""
    crc = codec.checksum(3, 14, codec.RECORDS.pack(record(3)).payload)
    edit(directory, f"UPDATE records SET format = 14, crc = {crc} WHERE position = 3")
    error = refused(directory)
    assert "journal.db: record 3 was written by a newer duenotice (format 14" in error.message


@pytest.mark.parametrize(
    ("broken", "expected"), [("position = 35", SNAPSHOTS[0]), ("position = 20", SNAPSHOTS[1]), ("TRUE", None)]
)
def test_records_stand_in_for_a_damaged_snapshot(directory: Path, broken: str, expected: Snapshot | None) -> None:
    """The older snapshot, or no snapshot, with all records intact is as good; a warning says so."""
    edit(directory, f"UPDATE snapshots SET payload = payload || ' ' WHERE {broken}")
    with capture_logs() as logs:
        assert everything(directory) == (RECORDS, expected)
    if expected != SNAPSHOTS[1]:
        assert logs[0]["log_level"] == "warning"
        assert logs[0]["event"] == "snapshot 35 does not match its checksum"


def test_a_damaged_snapshot_with_damaged_records_behind_it(directory: Path) -> None:
    """When the records cannot stand in for a damaged snapshot, nothing is made up."""
    edit(directory, "UPDATE snapshots SET crc = 0 WHERE position = 35")
    edit(directory, "UPDATE records SET crc = 0 WHERE position = 25")
    journal = SqliteJournal(directory)
    with pytest.raises(Damaged, match="record 25 does not match its checksum"):
        journal.snapshot()
    journal.close()


def flip(file: Path, at: int, bits: int) -> None:
    """Change some bits of one byte, as a bad disk does."""
    content = bytearray(file.read_bytes())
    content[at] ^= bits
    file.write_bytes(content)


def test_a_tree_that_lists_what_it_cannot_find(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A big file is not checked page by page at the start, so reading must be prepared for anything."""
    monkeypatch.setattr(sqlite_file, "CHECK_ALL_BELOW", 0)
    flip(directory / "journal.db", at=2 * 4096 + 8, bits=0x02)
    assert "is listed but cannot be found" in damaged(directory)


@pytest.mark.parametrize("check_all_below", [0, 2**30], ids=["big", "small"])
@pytest.mark.parametrize(
    ("state", "name"), [("closed", "journal.db"), ("killed", "journal.db"), ("killed", "journal.db-wal")]
)
def test_a_flipped_byte_never_makes_records_disappear(
    request: pytest.FixtureRequest, tmp_path: Path, state: str, name: str, check_all_below: int
) -> None:
    """Wherever a byte changes: either all records are read as they were, or the damage is reported."""
    source = request.getfixturevalue(state)
    places = [*range(100), *range(100, (source / name).stat().st_size, 251)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_file, "CHECK_ALL_BELOW", check_all_below)
        outcomes = {at: _outcome_of_a_flip(copy_of(source, tmp_path / "data"), name, at) for at in places}
    assert set(outcomes.values()) == {"whole", "reported"}, outcomes


def _outcome_of_a_flip(directory: Path, name: str, at: int) -> str:
    flip(directory / name, at, bits=1 << at % 8)
    before = files(directory)
    try:
        with capture_logs():
            found, newest = everything(directory)
    except Misconfigured:
        return "reported" if files(directory) == before else "reported, but changed"
    return "whole" if found == RECORDS and newest in (*SNAPSHOTS, None) else f"{len(found)} records"
