"""How `journal.db` is made and opened: complete or not at all, and never over an existing file (S5)."""

import os
from contextlib import suppress
from pathlib import Path

import apsw

from duenotice.errors import Damaged, Misconfigured
from duenotice.journal.sqlite_errors import told_plainly
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
    # Which records are about which event, and up to which position that is known; see `sqlite_events`.
    "CREATE TABLE events (id TEXT, position INTEGER, PRIMARY KEY (id, position)) STRICT, WITHOUT ROWID",
    "CREATE TABLE indexed (id INTEGER PRIMARY KEY CHECK (id = 1), position INTEGER NOT NULL) STRICT",
)


def find_or_create(directory: Path, existed: bool) -> Path:
    """The path of `journal.db`, made if this directory never had one; `existed` says that it did."""
    path = directory / "journal.db"
    log = directory / "journal.db-wal"
    if not path.exists():
        if existed or log.exists():
            raise _missing(path)
        with told_plainly(path):
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
