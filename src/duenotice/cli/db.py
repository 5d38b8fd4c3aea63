"""`duenotice db`: the tables of a journal in PostgreSQL, and who works with them."""

from contextlib import closing

import click

from duenotice.cli.arguments import Noun
from duenotice.cli.output import NEVER, TableColumn, TableView, tell, write_one
from duenotice.cli.session import OUTPUT

DATABASE = TableView(
    "database",
    (
        TableColumn("DATABASE", "database"),
        TableColumn("VERSION", "version"),
        TableColumn("CLUSTER", "cluster"),
        TableColumn("RECORDS", "records"),
        TableColumn("SHOWN", "shown"),
        TableColumn("EPOCH", "epoch"),
        TableColumn("LEADER", "leader"),
        TableColumn("NODES", "nodes", "list"),
        TableColumn("SYNCED", "durable"),
    ),
)
_URL = click.option(
    "--journal",
    "url",
    required=True,
    metavar="URL",
    envvar="DUENOTICE_JOURNAL",
    help="postgresql:// URL of the journal; also DUENOTICE_JOURNAL.",
)


@click.group(cls=Noun)
def db() -> None:
    """Make the tables of a journal in PostgreSQL, and look at them."""


@db.command("migrate", epilog="Example: duenotice db migrate --journal postgresql://owner@db/duenotice")
@_URL
def migrate(url: str) -> None:
    """Make the tables, if there are none. A node does the same at its start, if its role may."""
    _require(url)
    from duenotice.store import postgres_connection, postgres_schema

    with closing(postgres_connection.Connection(url)) as connection:
        before, after = postgres_schema.migrate(connection)
    if before == after:
        tell(f"Nothing to do: the tables have version {after.version}.")
    else:
        tell(f"The tables are made; they have version {after.version}.")


@db.command("status", epilog="Example: duenotice db status --journal postgresql://duenotice@db/duenotice -o json")
@_URL
@OUTPUT
def status(url: str, output: str) -> None:
    """Show the version of the tables, how far the journal is, who leads, and which nodes there are."""
    _require(url)
    from duenotice.store import postgres_schema

    write_one(output, postgres_schema.status(url), DATABASE, lambda: NEVER)


def _require(url: str) -> None:
    from duenotice.bootstrap import journals

    journals.is_postgres(url)
    journals.require_driver()
