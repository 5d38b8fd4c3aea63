"""`duenotice node`: the nodes of the service: which one leads, how far each is, and which one is away."""

import click

from duenotice.cli.arguments import Noun
from duenotice.cli.output import tell
from duenotice.cli.session import Session, talks
from duenotice.cli.views import NODES, READERS

URGENT = ("database", "leader")


@click.group(cls=Noun)
def node() -> None:
    """List the nodes of the service, and see which one leads."""


@node.command("list", epilog="Example: duenotice node list")
@talks
def list_nodes(session: Session) -> None:
    """List nodes, as the one that is asked sees them.

    A node that is down is shown until it is back. One that was stopped on purpose is not shown. Below are the followers
    and workers of the asked node, and what is wrong.
    """
    seen = session.client.nodes()
    session.show(seen.items, NODES)
    if session.output == "table":
        if seen.readers:
            tell("")
            session.show(seen.readers, READERS)
        for trouble in seen.troubles:
            since = "" if trouble.lasts is None else f" For {trouble.lasts:.0f} s."
            tell(f"{trouble.what}{since} {trouble.hint}", fg="red" if trouble.about in URGENT else "yellow")


@node.command("readers", epilog="Example: duenotice node readers")
@talks
def list_readers(session: Session) -> None:
    """List the followers and workers of the node that is asked."""
    session.show(session.client.nodes().readers, READERS)
