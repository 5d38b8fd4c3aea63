"""The file `journal.db`: made complete or not at all, and never over an existing one (S5).

Is it the journal that we left? That is checked before anything is written. And what SQLite's errors mean: stored data
that cannot be trusted, or a disk that fails for now.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from duenotice.errors import Damaged, Misconfigured, Unavailable
from duenotice.store.codec import Row, is_sound
from duenotice.system import sync_directory

APPLICATION_ID = 0x44554E4F  # «DUNO», so that `file` and SQLite can tell our files from others
SCHEMA_VERSION = 3
BUSY_MILLISECONDS = 1000  # how long a person with a sqlite3 shell may block us

LOG_SIZE_AT_FIRST = 4 * 2**20
LOG_SIZE_KEPT = 16 * 2**20
"""The write-ahead log gets its full size at first and is reused: a sync is twice as fast if the file does not grow."""

# What people and queries ask for is computed from the payload: the truth is stored once, under its checksum.
SCHEMA = (
    """CREATE TABLE records (
    position INTEGER PRIMARY KEY,
    format INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    payload TEXT NOT NULL,
    at TEXT AS (json_extract(payload, '$.at')),
    actor TEXT AS (json_extract(payload, '$.actor')),
    change TEXT AS (json_extract(payload, '$.transition.change'))
) STRICT""",
    """CREATE TABLE snapshots (
    position INTEGER PRIMARY KEY,
    format INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    payload TEXT NOT NULL
) STRICT""",
    # Which records are about which event, and up to which position that is known; see `sqlite.py`.
    "CREATE TABLE events (id TEXT, position INTEGER, PRIMARY KEY (id, position)) STRICT, WITHOUT ROWID",
    "CREATE TABLE indexed (id INTEGER PRIMARY KEY CHECK (id = 1), position INTEGER NOT NULL) STRICT",
)

HEADER_SIZE = 100
CHECK_ALL_BELOW = 64 * 2**20
"""A smaller file is checked page by page at every start, which then still takes well under a second."""

_ALL_RECORDS = "SELECT position, format, crc, CAST(payload AS BLOB) FROM records"
_MAGIC = b"SQLite format 3\0"
_WRITE_VERSION = 18
_NEWEST_WRITE_VERSION = 2

# SQLError and after: if our statements fail on the file, it is not what we wrote.
_NOT_TO_BE_TRUSTED = (
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.FormatError,
    apsw.SQLError,
    apsw.ConstraintError,
    apsw.MismatchError,
    UnicodeDecodeError,
)


def find_or_create(directory: Path, existed: bool) -> Path:
    """The path of `journal.db`, made if this directory never had one; `existed` says that it did."""
    path = directory / "journal.db"
    log = directory / "journal.db-wal"
    if not path.exists():
        if existed or log.exists():
            raise _missing(path)
        with translated_errors(path):
            _create(path)
    return path


def _missing(path: Path) -> Damaged:
    return Damaged(
        f"{path.name} is missing from {path.parent} although it was there before",
        hint="Restore it from a backup, or use an empty directory to start over.",
    )


def _create(path: Path) -> None:
    """Build under another name and rename, so that a `journal.db` without its tables always means damage."""
    unfinished = path.with_name("journal.db.new")
    for leftover in path.parent.glob("journal.db.new*"):
        leftover.unlink()
    # Made by us first: SQLite gives its own files, the write-ahead log too, the mode of this one.
    file = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _write_schema(unfinished)
        os.fsync(file)
    finally:
        os.close(file)
    unfinished.rename(path)
    sync_directory(path.parent)


def _write_schema(path: Path) -> None:
    connection = apsw.Connection(os.fspath(path))
    try:
        connection.pragma("application_id", APPLICATION_ID)
        connection.execute(";".join(SCHEMA))
        connection.execute("INSERT INTO indexed VALUES (1, 0)")
        connection.pragma("user_version", SCHEMA_VERSION)
        connection.pragma("journal_mode", "wal")
    finally:
        connection.close()


def connect(path: Path) -> apsw.Connection:
    """A connection that changes nothing by itself: not when it is opened, and not when it is closed."""
    connection = apsw.Connection(os.fspath(path), flags=apsw.SQLITE_OPEN_READWRITE)
    # A damaged file must be left as it was found; without this, closing would write the log into it.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.wal_autocheckpoint(0)
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    connection.pragma("synchronous", "full")
    connection.pragma("fullfsync", True)  # macOS only: there a plain fsync stops short of the disk
    connection.pragma("cell_size_check", True)
    connection.pragma("journal_size_limit", LOG_SIZE_KEPT)
    return connection


def make_writable(connection: apsw.Connection) -> None:
    """Switch to a write-ahead log (a restored copy may not use one) and prove now that writing is allowed."""
    if connection.pragma("journal_mode", "wal") != "wal":
        raise Misconfigured("this disk does not support a write-ahead log", hint="Use a directory on a local disk.")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("ROLLBACK")


def grow_log(path: Path) -> None:
    """Give the write-ahead log its size; SQLite ignores everything after the last valid frame."""
    file = os.open(f"{path}-wal", os.O_RDWR)
    try:
        size = os.fstat(file).st_size
        missing, written = LOG_SIZE_AT_FIRST - size, 0
        with suppress(OSError):
            written = os.pwrite(file, bytes(max(0, missing)), size)
        if written < missing:
            os.ftruncate(file, size)  # the disk is nearly full: what is left is needed for records
        elif written:
            os.fsync(file)
    finally:
        os.close(file)


def check_header(path: Path) -> None:
    """Before SQLite touches the file: it would take an empty one for a new database and delete its log."""
    with path.open("rb") as file:
        header = file.read(HEADER_SIZE)
    if len(header) < HEADER_SIZE:
        raise Damaged(f"it is cut off after {len(header)} bytes" if header else "it is empty")
    if not header.startswith(_MAGIC):
        raise Damaged("it is not a SQLite database")
    if header[_WRITE_VERSION] > _NEWEST_WRITE_VERSION:
        raise Damaged("its header cannot be right")


def check_identity(connection: apsw.Connection) -> None:
    """Ours, and of a version that we know."""
    if connection.pragma("application_id") != APPLICATION_ID:
        raise Misconfigured("not a duenotice journal", hint="Name another data directory, or restore a backup.")
    version = connection.pragma("user_version")
    if version > SCHEMA_VERSION:
        raise Misconfigured(
            f"written by a newer duenotice (schema {version}, this one knows {SCHEMA_VERSION})",
            hint="Upgrade duenotice, or restore a backup made by this version.",
        )
    if 0 < version < SCHEMA_VERSION:
        raise Misconfigured(
            f"written before the first release (schema {version}, this one knows {SCHEMA_VERSION})",
            hint="Begin with an empty data directory, or go on with the duenotice that wrote it.",
        )
    stored = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_schema")}
    if not stored.issuperset(SCHEMA):
        raise Damaged("its tables are not the ones that duenotice made")


def check_contents(connection: apsw.Connection, reached: int, size: int) -> None:
    """No record is missing, as far as can be told without reading all of them."""
    if size < CHECK_ALL_BELOW:
        _check_every_page(connection)
    first, last = row_of(connection, "SELECT min(position), max(position) FROM records")
    stood_for = _stood_for(connection)
    if (first or 1) != 1 or (last or 0) < stood_for:
        raise Damaged(f"it holds records {first} to {last} where 1 to {max(stood_for, reached)} were written")
    if (last or 0) < reached:
        raise _cut_short(last or 0, reached)


def check_all(connection: apsw.Connection, reached: int) -> None:
    """All that is stored: each page, and each record by its checksum."""
    check_contents(connection, reached, 0)
    for row in map(Row._make, connection.execute(_ALL_RECORDS)):
        if not is_sound(row):
            raise Damaged(f"record {row.position} does not match its checksum")


def newest_position(connection: apsw.Connection) -> int:
    """The position of the newest record; 0 when there is none."""
    newest: int = connection.execute("SELECT coalesce(max(position), 0) FROM records").get
    return newest


def _stood_for(connection: apsw.Connection) -> int:
    """Up to which position a snapshot says that there are records."""
    return row_of(connection, "SELECT coalesce(max(position), 0) FROM snapshots")[0]


def _check_every_page(connection: apsw.Connection) -> None:
    for (finding,) in connection.execute("PRAGMA quick_check(1)"):
        if finding != "ok":
            raise Damaged(finding)
    count, last = row_of(connection, "SELECT count(*), max(position) FROM records")
    if count != (last or 0):
        raise Damaged(f"it holds {count} records where 1 to {last} were written")


def _cut_short(head: int, reached: int) -> Damaged:
    return Damaged(
        f"it ends at record {head} although record {reached} was written; is journal.db-wal damaged or lost?",
        hint="Restore a newer backup, with its journal.db-wal if it has one. If an older one was restored on "
        "purpose and the later records may be lost, delete journal.lock and start again.",
    )


def row_of(connection: apsw.Connection, query: str) -> tuple[int, ...]:
    """The first row of an answer that always has one."""
    for row in connection.execute(query):
        return tuple(row)
    raise Damaged("a row that is always there is missing")


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Turns every SQLite error into one of ours that names the file and what to do. Must not be nested."""
    try:
        yield
    except Damaged as error:
        raise _damaged(path, error.message, error.hint) from error
    except Misconfigured as error:
        raise Misconfigured(f"{path}: {error.message}", hint=error.hint) from error
    except _NOT_TO_BE_TRUSTED as error:
        raise _damaged(path, str(error)) from error
    except (apsw.Error, OSError) as error:
        raise _unavailable(path, error) from error


def _damaged(path: Path, what: str, hint: str = "") -> Damaged:
    rescue = f"Keep a copy of {path.parent}, then restore a backup; `sqlite3 {path} .recover` may save the rest."
    return Damaged(f"{path} is damaged: {what}", hint=hint or rescue)


def _unavailable(path: Path, error: Exception) -> Unavailable:
    if isinstance(error, apsw.FullError):
        hint = f"Free some space on the disk that holds {path.parent}; nothing was lost."
        return Unavailable(f"{path} cannot be written: the disk is full", hint=hint)
    hint = f"Look at the disk that holds {path.parent}, its mount and its limits; nothing was lost."
    return Unavailable(f"{path} cannot be used right now: {error}", hint=hint)
