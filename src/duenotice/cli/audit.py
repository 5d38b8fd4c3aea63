"""`duenotice audit`: who did what, and when."""

from datetime import datetime
from typing import TypedDict, Unpack

import click

from duenotice.cli.arguments import FROM_ONE, MOMENT, NAME
from duenotice.cli.session import Session, talks
from duenotice.cli.views import AUDIT

FUTURE = 2**53
"""A position that no journal reaches. All records are before it; they come newest first."""


class AuditOptions(TypedDict):
    """Which records are asked for."""

    actor: str | None
    action: str | None
    from_: datetime | None
    to: datetime | None
    after: int | None


@click.command(epilog="Example: duenotice audit --actor token/admin --last 10")
@click.option("--actor", type=NAME, default=None, help="Only changes by this actor, such as token/admin.")
@click.option("--action", type=NAME, default=None, help="Only this action, such as event-raised.")
@click.option("--from", "from_", type=MOMENT, default=None, help="Only records from this time on, in RFC 3339.")
@click.option("--to", type=MOMENT, default=None, help="Only records up to this time.")
@click.option("--after", type=int, default=None, metavar="POSITION", help="Only records after this position.")
@click.option("--first", type=FROM_ONE, default=None, help="Only this many records, the oldest.")
@click.option("--last", type=FROM_ONE, default=None, help="Only this many records, the newest.")
@talks
def audit(session: Session, first: int | None, last: int | None, **asked: Unpack[AuditOptions]) -> None:
    """Show all changes, oldest first."""
    if last is not None and (first is not None or asked["after"] is not None):
        raise click.UsageError("Give --last, or --first and --after.")
    before = None if last is None else FUTURE
    found = session.client.audit(
        actor=asked["actor"] or "",
        action=asked["action"] or "",
        from_=asked["from_"],
        to=asked["to"],
        after=asked["after"],
        before=before,
    )
    if last is not None:
        session.show(reversed(found.first(last)), AUDIT)
    else:
        session.show(found if first is None else found.first(first), AUDIT)
