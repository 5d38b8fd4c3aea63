"""What a person wants to know of a database before and while nodes work with it; changes nothing."""

from contextlib import closing
from typing import Any

from duenotice.clock import wall
from duenotice.engine.members import Head, Sight
from duenotice.journal.postgres_line import Line
from duenotice.journal.postgres_members import PostgresMembers
from duenotice.journal.postgres_schema import about

_TIME = "SELECT extract(epoch FROM clock_timestamp())::float8"
_SYNCS = "SELECT current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on'"
_NOBODY = Sight(Head(), ())


def clock_ahead(url: str) -> float:
    """How many seconds the clock of this machine is ahead of the database's; less than 0 when it is behind."""
    with closing(Line(url)) as line:
        line.ask(_SYNCS)  # to connect takes a while
        before = wall()
        ((there,),) = line.ask(_TIME)
        return (before.timestamp() + wall().timestamp()) / 2 - float(there)


def status(url: str) -> dict[str, Any]:
    """As `duenotice db status` shows it; version 0 means that there are no tables yet."""
    with closing(Line(url)) as line, closing(PostgresMembers(url)) as members:
        found = about(line)
        ((syncs,),) = line.ask(_SYNCS)
        head, nodes = members.look() if found.version else _NOBODY
        return {
            "database": line.name.removeprefix("the database "),
            "version": found.version,
            "cluster": found.cluster or None,
            "records": head.position,
            "shown": head.shown,
            "epoch": head.epoch,
            "leader": next((member.node for member in nodes if member.life == head.leader), None),
            "nodes": [member.node for member in nodes if not member.replaced],
            "durable": syncs,
        }
