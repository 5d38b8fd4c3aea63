"""What stands around the rows of the journal: tables of SQLite and PostgreSQL, and the notes beside them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import apsw

from duenotice.clock import Alive
from duenotice.domain.records import EventApproved, EventRaised, Record, ScopeEnabled
from duenotice.domain.snapshot import Snapshot
from duenotice.store.data_dir import CHECKPOINT_FILE, CheckpointFile, DataDirectory, LocalCheckpoint
from duenotice.store.sqlite import SqliteJournal
from tests.golden.compare import FILES, assert_golden, golden
from tests.golden.examples import NOON, bare, full

SQLITE_FILE, LOCK_FILE, POSTGRES_FILE = "journal_sqlite.txt", "journal_notes.txt", "journal_postgres.txt"
SOURCES = FILES.parents[2] / "src"

EVENT = full(EventRaised).event
RECORDS = [
    Record(1, NOON, "operator", ScopeEnabled(EVENT.scope)),
    Record(2, NOON, "operator", EventRaised(EVENT)),
    Record(3, NOON, "operator", EventApproved(EVENT.id, EVENT.scope, "vm/x")),
]
SNAPSHOT = Snapshot(3, NOON, bare(Snapshot).digest)
ALIVE = Alive("boot-1", 12_345_678)
TABLES = ("records", "snapshots", "events", "indexed")
PRAGMAS = ("application_id", "user_version")


def dump(path: Path) -> Iterator[str]:
    """Schema and rows of a database, as text from which it can be made again."""
    db = apsw.Connection(str(path))
    try:
        yield from (f"PRAGMA {pragma} = {db.pragma(pragma)}" for pragma in PRAGMAS)
        for (sql,) in db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"):
            yield from ("", f"{sql};")
        yield ""
        for table in TABLES:
            for row in db.execute(f"SELECT * FROM {table}"):
                yield f"{table} {json.dumps(row, ensure_ascii=False)}"
    finally:
        db.close()


def make_again(path: Path, text: str) -> None:
    """The database that was written down."""
    *statements, rows = text.split("\n\n")
    db = apsw.Connection(str(path))
    try:
        for statement in statements:
            db.execute(statement.replace("\nPRAGMA", ";\nPRAGMA"))
        for line in filter(None, rows.split("\n")):
            table, _, values = line.partition(" ")
            names = [name for _, name, _, _, _, _, hidden in db.execute(f"PRAGMA table_xinfo({table})") if not hidden]
            stored = json.loads(values)[: len(names)]
            db.execute(f"INSERT INTO {table} ({','.join(names)}) VALUES ({','.join('?' * len(names))})", stored)
    finally:
        db.close()


def directory(path: Path) -> Path:
    """A data directory after some work."""
    journal = SqliteJournal(path)
    journal.append(RECORDS)
    journal.save_snapshot(SNAPSHOT)
    while journal.index():
        pass
    journal.note_seen(2)
    journal.note_alive(ALIVE)
    journal.close()
    return path


def test_a_journal_in_a_file_has_the_tables_and_columns_that_it_had(tmp_path: Path) -> None:
    """With rows of each table; the last columns of a record are computed from its payload."""
    assert_golden(SQLITE_FILE, "\n".join(dump(directory(tmp_path) / "journal.db")))


def test_a_journal_that_was_written_is_read_as_it_was(tmp_path: Path) -> None:
    """Its records, its index of events, its snapshot."""
    DataDirectory(tmp_path).release()
    make_again(tmp_path / "journal.db", golden(SQLITE_FILE))
    journal = SqliteJournal(tmp_path)
    assert list(journal.read(0)) == RECORDS
    assert journal.find(EVENT.id, 9) == RECORDS[1:]
    assert journal.snapshot() == SNAPSHOT
    journal.close()


def notes(path: Path) -> dict[str, bytes]:
    """Each form of the notes in a data directory; without the number of the process and the room behind them."""
    used = (directory(path / "used") / "journal.lock").read_bytes()
    lock = DataDirectory(path / "restored")
    lock.note_lift((7, 1234))
    lock.release()
    notes = CheckpointFile(path / "elsewhere")
    notes.note(**{field: getattr(KNOWN, field) for field in KNOWN.__struct_fields__})
    notes.close()
    lifted, known = ((path / name).read_bytes() for name in ("restored/journal.lock", f"elsewhere/{CHECKPOINT_FILE}"))
    return {
        "journal.lock": _plain(used),
        "journal.lock of a restored journal": _plain(lifted),
        CHECKPOINT_FILE: known.rstrip(),
    }


KNOWN: LocalCheckpoint = full(LocalCheckpoint)


def _plain(note: bytes) -> bytes:
    return re.sub(rb"process \d{10}", b"process 0000000000", note)


def test_the_notes_in_a_data_directory_are_those_that_were(tmp_path: Path) -> None:
    """How far the journal came, what was seen, until when VMs could be answered."""
    told = [f"== {name}\n{text.decode()}".rstrip("\n") for name, text in notes(tmp_path).items()]
    assert_golden(LOCK_FILE, "\n\n".join(["Notes in the data directory.", *told]))


def test_notes_that_were_written_are_read_as_they_were(tmp_path: Path) -> None:
    """All three kinds."""
    files = [part.partition("\n")[2] + "\n" for part in golden(LOCK_FILE).rstrip("\n").split("\n\n")[1:]]
    used, lifted = (_lock_with(tmp_path / str(place), text) for place, text in enumerate(files[:2]))
    assert (used.reached, used.seen, used.alive, used.lifted_with) == (3, 2, ALIVE, None)
    assert (lifted.reached, lifted.lifted_with) == (None, (7, 1234))
    (tmp_path / CHECKPOINT_FILE).write_text(files[2])
    elsewhere = CheckpointFile(tmp_path)
    assert elsewhere.latest == KNOWN
    elsewhere.close()


def _lock_with(path: Path, text: str) -> DataDirectory:
    path.mkdir()
    (path / "journal.lock").write_text(text)
    lock = DataDirectory(path)
    lock.release()
    return lock


def shapes(sql: str) -> Iterator[str]:
    """The tables, indexes and views that some SQL makes, and how its functions are called; without their bodies."""
    plain = re.sub(r"--[^\n]*", "", sql)
    plain = re.sub(r"(?P<tag>\$\w*\$).*?(?P=tag)", "…", plain, flags=re.DOTALL)
    for statement in plain.split(";"):
        if words := re.sub(r"[ \t]*\n\s*", "\n    ", statement.strip()):
            yield f"{words};"


def test_the_tables_in_postgresql_are_those_that_were() -> None:
    """Of each version. What functions do may change; how nodes of another version call them may not."""
    files = sorted(SOURCES.rglob("*.sql"), key=lambda path: path.name)
    assert files
    told = ("\n\n".join([f"-- {path.name}", *shapes(path.read_text())]) for path in files)
    assert_golden(POSTGRES_FILE, "\n\n".join(told))
