"""`duenotice audit`: who did what, and when."""

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
def audit(
    session: Session, actor: str | None, action: str | None, after: int | None, first: int | None, last: int | None
) -> None:
    """Show all changes, oldest first."""
    if last is not None and (first is not None or after is not None):
        raise click.UsageError("Give --last, or --first and --after.")
    before = None if last is None else FUTURE
    found = session.client.audit(actor=actor or "", action=action or "", after=after, before=before)
    if last is not None:
        session.show(reversed(found.first(last)), AUDIT)
    else:
        session.show(found if first is None else found.first(first), AUDIT)
