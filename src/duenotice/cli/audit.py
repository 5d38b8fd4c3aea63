"""`duenotice audit`: who did what, and when."""

from itertools import islice
from typing import Any

import click

from duenotice.cli.params import NAME
from duenotice.cli.session import Session, talks
from duenotice.cli.views import AUDIT


@click.command(epilog="Example: duenotice audit --actor token/admin --first 10")
@click.option("--actor", type=NAME, default=None, help="Only of this actor, as in token/admin.")
@click.option("--action", type=NAME, default=None, help="Only this, as in event-raised.")
@click.option("--after", type=int, default=None, metavar="POSITION", help="Only what came after.")
@click.option("--first", type=click.IntRange(min=1), default=None, metavar="N", help="No more than so many.")
@talks
def audit(session: Session, first: int | None, **filters: Any) -> None:
    """Show all changes, oldest first."""
    session.show(islice(session.api.pages("audit", **filters), first), AUDIT)
