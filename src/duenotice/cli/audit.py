"""`duenotice audit`: who did what, and when."""

from itertools import islice
from typing import Any

import click

from duenotice.cli.arguments import FROM_ONE, NAME
from duenotice.cli.session import Session, talks
from duenotice.cli.views import AUDIT

FUTURE = 2**53
"""A position that no journal reaches. All records are before it; they come newest first."""


@click.command(epilog="Example: duenotice audit --actor token/admin --last 10")
@click.option("--actor", type=NAME, default=None, help="Only changes by this actor, such as token/admin.")
@click.option("--action", type=NAME, default=None, help="Only this action, such as event-raised.")
@click.option("--after", type=int, default=None, metavar="POSITION", help="Only records after this position.")
@click.option("--first", type=FROM_ONE, default=None, help="Only this many records, the oldest.")
@click.option("--last", type=FROM_ONE, default=None, help="Only this many records, the newest.")
@talks
def audit(session: Session, first: int | None, last: int | None, **filters: Any) -> None:
    """Show all changes, oldest first."""
    if last is None:
        session.show(islice(session.api.pages("audit", **filters), first), AUDIT)
        return
    if first is not None or filters["after"] is not None:
        raise click.UsageError("Give --last, or --first and --after.")
    newest = session.api.pages("audit", **filters | {"before": FUTURE})
    session.show(reversed(list(islice(newest, last))), AUDIT)
