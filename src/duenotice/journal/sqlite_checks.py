"""Is this file the journal we left? Looks before anything is written, and changes nothing."""

from pathlib import Path

import apsw

from duenotice.errors import Damaged, Misconfigured
from duenotice.journal.codec import Row, is_sound
from duenotice.journal.sqlite_file import APPLICATION_ID, SCHEMA, SCHEMA_VERSION

HEADER_SIZE = 100
CHECK_ALL_BELOW = 64 * 2**20
"""A smaller file is checked page by page at every start, which then still takes well under a second."""

_ALL_RECORDS = "SELECT position, format, crc, CAST(payload AS BLOB) FROM records"
_MAGIC = b"SQLite format 3\0"
_WRITE_VERSION = 18
_NEWEST_WRITE_VERSION = 2


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
