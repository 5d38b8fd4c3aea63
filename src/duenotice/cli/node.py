"""`duenotice node`: the nodes of the service: which one leads, how far each is, and which one is away."""

import click

from duenotice.cli.arguments import Noun
from duenotice.cli.output import tell
from duenotice.cli.session import Session, talks
from duenotice.cli.views import NODES


@click.group(cls=Noun)
def node() -> None:
    """List the nodes of the service, and see which one leads."""


@node.command("list", epilog="Example: duenotice node list")
@talks
def list_nodes(session: Session) -> None:
    """List nodes, as the one that is asked sees them.

    A node that is down is shown until it is back. One that was stopped on purpose is not shown.
    """
    seen = session.client.nodes()
    session.show(seen.items, NODES)
    if session.output == "table" and not seen.leader:
        tell("No node leads right now: nothing can be changed.", fg="yellow")
