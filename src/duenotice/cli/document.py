"""`duenotice document`: what a VM reads."""

import click

from duenotice.cli.api import target
from duenotice.cli.params import NAME
from duenotice.cli.saying import say
from duenotice.cli.session import Session, talks


@click.command(epilog="Example: duenotice document web-0 --api-version 2019-08-01")
@click.argument("vm", type=NAME)
@click.option("--api-version", default="2020-07-01", metavar="VERSION", help="[default: 2020-07-01]")
@talks
def document(session: Session, vm: str, api_version: str) -> None:
    """Show the document as VM reads it. It is always JSON; control characters are written as \\u001b."""
    body = session.api.raw("GET", target("vms", vm, "document", api_version=api_version))
    say(body.decode())
