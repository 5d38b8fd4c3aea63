"""`duenotice token`: who may use the operator's API."""

import click

from duenotice.cli.arguments import NAME, Noun
from duenotice.cli.output import put, tell
from duenotice.cli.session import Session, talks
from duenotice.cli.views import TOKENS


@click.group(cls=Noun)
def token() -> None:
    """Create, list and revoke tokens."""


@token.command("list", epilog="Example: duenotice token list")
@talks
def list_tokens(session: Session) -> None:
    """List tokens, without their secrets."""
    session.show(session.client.tokens(), TOKENS)


ROLES = ["viewer", "operator", "admin", "follower"]


@token.command("create", epilog="Example: duenotice token create ci --role operator")
@click.argument("name", type=NAME)
@click.option("--role", type=click.Choice(ROLES), default="viewer", help="[default: viewer]")
@click.option(
    "--only", metavar="KIND=NAME", default="", help="For a follower: only the VMs that this selects, such as host=h1."
)
@talks
def create(session: Session, name: str, role: str, only: str) -> None:
    """Make a token; its secret is shown once, alone on standard output."""
    made = session.client.create_token(name, role, only)
    if session.output == "name":
        tell(f"The secret, not shown again: {made.token}")
    if session.output != "table":
        session.show_one(made, TOKENS)
        return
    put(made.token)
    tell(f"Token {made.id} has the role {role}{f' for {only} only' if only else ''}. The secret is not shown again.")


@token.command("revoke", epilog="Example: duenotice token revoke ci")
@click.argument("token", type=NAME, metavar="NAME|ID")
@talks
def revoke(session: Session, token: str) -> None:
    """Revoke a token, so that it is refused from now on; give its name, or the beginning of its id."""
    named = [found.id for found in session.client.tokens() if found.name == token]
    session.client.revoke_token(named[0] if named else token)
    tell(f"Revoked {token}.")
