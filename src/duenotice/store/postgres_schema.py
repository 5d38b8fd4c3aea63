"""The tables in PostgreSQL: made, checked, and told about to people; they are all in the schema `duenotice` (N16).

From the first release on a new version only adds (expand), so that nodes of the version before go on with the same
tables. What is not used any more goes one version later (contract), which raises `readable_from`.
"""

from collections.abc import Callable
from contextlib import closing
from importlib.resources import files
from typing import Any, NamedTuple

import psycopg

from duenotice.clock import wall
from duenotice.engine.members import Head, Sight
from duenotice.errors import Misconfigured
from duenotice.store.postgres_connection import Connection
from duenotice.store.postgres_members import PostgresMembers

VERSION = 3
READABLE_FROM = 3

_TABLES = {
    "about": "one boolean, version integer, readable_from integer, cluster text",
    "head": "one boolean, position bigint, shown bigint, epoch bigint, leader text, steady bigint, turn bigint, "
    "hold bigint, origin text",
    "records": "position bigint, epoch bigint, format integer, crc bigint, payload text, event bytea",
    "snapshots": "position bigint, format integer, crc bigint, payload text",
    "nodes": "life text, number bigint, node text, url text, version text, beat bigint, applied bigint, hidden bigint, "
    "joined boolean, replaced boolean",
    "polls": "scope text, steady bigint",
    "signing_keys": "one boolean, keys text",
}
"""What we need of each table; a newer version may have more."""
_COLUMNS = """SELECT c.relname, a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE n.nspname = 'duenotice' AND c.relkind IN ('r', 'p', 'f') AND a.attnum > 0 AND NOT a.attisdropped"""
_ABOUT = "SELECT version, readable_from, cluster FROM duenotice.about"
_ENCODING = "SELECT current_setting('server_encoding')"
_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtext('duenotice.migrate'))"

_TIME = "SELECT extract(epoch FROM clock_timestamp())::float8"
_SYNCS = "SELECT current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on'"
_NOBODY = Sight(Head(), ())
_FOREIGN = "Name another database: this one has a schema of the same name that somebody else made."


class About(NamedTuple):
    """Which tables there are: version 0 means none."""

    version: int
    readable_from: int = 0
    cluster: str = ""


def about(connection: Connection) -> About:
    """The tables as they are; refuses what is not ours or too new (N16), and changes nothing."""
    return connection.run(_checked)


def migrate(connection: Connection) -> tuple[About, About]:
    """Make the tables if there are none; what was there before, and what is there now. All or nothing."""
    before = about(connection)
    if before.version >= VERSION:
        return before, before
    return connection.run(_migrated)


def prepared(url: str, refuse: Callable[[str, str], None] = lambda _cluster, _where: None) -> About:
    """The tables of a database, made before if there were none.

    Before that `refuse` gets to know which journal is there, or "", and where; it may raise.
    """
    connection = Connection(url)
    try:
        refuse(about(connection).cluster, connection.name)
        return migrate(connection)[1]
    finally:
        connection.close()


def _migrated(db: "psycopg.Connection[tuple[Any, ...]]") -> tuple[About, About]:
    db.execute(_ONE_AT_A_TIME)
    before = _checked(db)  # another node may have done it while we waited
    if not before.version:
        db.execute(files(__package__).joinpath("postgres_tables.sql").read_bytes())
    return before, _checked(db)


def _checked(db: "psycopg.Connection[tuple[Any, ...]]") -> About:
    ((encoding,),) = db.execute(_ENCODING).fetchall()
    if encoding != "UTF8":
        raise Misconfigured(
            f"The database has the encoding {encoding}.", hint="Create it with ENCODING 'UTF8' TEMPLATE template0."
        )
    columns: dict[str, set[str]] = {}
    for table, column in db.execute(_COLUMNS):
        columns.setdefault(table, set()).add(column)
    if not columns:
        return About(0)
    if not columns.get("about", set()) >= set(_TABLES["about"].split(", ")):
        raise Misconfigured("The schema duenotice has tables that duenotice did not make.", hint=_FOREIGN)
    rows = db.execute(_ABOUT).fetchall()
    if len(rows) != 1:
        raise Misconfigured(
            f"The table duenotice.about has {len(rows)} rows instead of one: the database was restored only in part.",
            hint="Restore all of it, then start again.",
        )
    found = About._make(rows[0])
    _refuse_other_version(found)
    _refuse_changed(columns)
    return found


def _refuse_other_version(found: About) -> None:
    if found.version < VERSION:
        raise Misconfigured(
            f"The tables were made before the first release (version {found.version}, this one knows {VERSION}).",
            hint="Name a new database, or go on with the duenotice that made them.",
        )
    if found.readable_from > VERSION:
        raise Misconfigured(
            f"The tables were made by a newer duenotice (version {found.version}, this one knows {VERSION}).",
            hint="Upgrade duenotice, or restore a backup made by this version.",
        )


def _refuse_changed(columns: dict[str, set[str]]) -> None:
    for table, wanted in _TABLES.items():
        if missing := set(wanted.split(", ")) - columns.get(table, set()):
            lacks = ", ".join(sorted(missing))
            raise Misconfigured(
                f"The table duenotice.{table} is not the one that duenotice made: it lacks {lacks}.",
                hint="Keep a copy of the database (pg_dump), and restore a backup.",
            )


def clock_ahead(url: str) -> float:
    """How many seconds the clock of this machine is ahead of the database's; less than 0 when it is behind."""
    with closing(Connection(url)) as connection:
        connection.ask(_SYNCS)  # to connect takes a while
        before = wall()
        ((there,),) = connection.ask(_TIME)
        return (before.timestamp() + wall().timestamp()) / 2 - float(there)


def status(url: str) -> dict[str, Any]:
    """As `duenotice db status` shows it; version 0 means that there are no tables yet."""
    with closing(Connection(url)) as connection, closing(PostgresMembers(url)) as members:
        found = about(connection)
        ((syncs,),) = connection.ask(_SYNCS)
        head, nodes = members.look() if found.version else _NOBODY
        return {
            "database": connection.name.removeprefix("the database "),
            "version": found.version,
            "cluster": found.cluster or None,
            "records": head.position,
            "shown": head.shown,
            "epoch": head.epoch,
            "leader": next((member.node for member in nodes if member.life == head.leader), None),
            "nodes": [member.node for member in nodes if not member.replaced],
            "durable": syncs,
        }
