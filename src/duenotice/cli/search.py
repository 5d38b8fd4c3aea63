"""`duenotice search`: where a name belongs."""

import click

from duenotice.cli.arguments import FROM_ONE, NAME
from duenotice.cli.session import Session, talks
from duenotice.cli.views import HITS


@click.command(epilog="Example: duenotice search web-1")
@click.argument("text", type=NAME)
@click.option("--first", type=FROM_ONE, default=20, help="Only this many, the best.  [default: 20]")
@talks
def search(session: Session, text: str, first: int) -> None:
    """Find VMs, groups, hosts, maintenances and events by a part of their name or id, the best first."""
    session.show(session.client.search(text, limit=first).items, HITS)
