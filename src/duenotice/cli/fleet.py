"""`duenotice fleet`: which VMs, sets and hosts there are."""

from pathlib import Path

import click

from duenotice.cli.arguments import NAME, Noun
from duenotice.cli.output import tell
from duenotice.cli.session import Session, talks
from duenotice.cli.views import CHANGES, FLEET
from duenotice.errors import Misconfigured, Refused

CALLED = "fleet file"
CHANGED = ("added", "removed", "changed")


@click.group(cls=Noun)
def fleet() -> None:
    """Apply a fleet file, show what there is."""


@fleet.command("show", epilog="Example: duenotice fleet show -o json")
@talks
def show(session: Session) -> None:
    """Show how many VMs, sets and hosts there are."""
    session.show_one(session.client.fleet(), FLEET)


@fleet.command("apply", epilog="Example: duenotice fleet apply fleet.toml --dry-run")
@click.argument("file", type=NAME, metavar="FILE")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@talks
def apply(session: Session, file: str, dry_run: bool) -> None:
    """Change the fleet to what a fleet file describes."""
    try:
        body = Path(file).read_bytes()
    except OSError as error:
        raise Misconfigured(f"Cannot read {file}: {error.strerror}.", hint="Name a fleet file (TOML).") from None
    try:
        found = session.client.apply_fleet(body, dry_run=dry_run)
    except Refused as error:
        if not error.message.startswith(CALLED):
            raise
        # A mistake in the file; the service does not know the file's name, so it is added here.
        raise Misconfigured(file + error.message.removeprefix(CALLED), hint=error.hint) from None
    if session.output in ("table", "name"):
        session.show([{"change": how, "vm": name} for how in CHANGED for name in getattr(found, how)], CHANGES)
    else:
        session.show_one(found, CHANGES)
    if session.output == "table":
        tell("Nothing was changed: this was a dry run." if dry_run else "Applied.")
