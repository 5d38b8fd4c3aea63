"""`duenotice scale-set`: how many instances a scale set has, and which are deleted."""

from typing import TYPE_CHECKING

import click

from duenotice.cli.arguments import COUNT, NAME, Noun
from duenotice.cli.output import put, tell
from duenotice.cli.session import YES, Session, make_sure, talks
from duenotice.cli.views import CHANGES, EVENTS, SCALE_SETS
from duenotice.cli.watching import follow, waits

if TYPE_CHECKING:
    from duenotice.wire.operator import Scaled


@click.group(cls=Noun)
def scale_set() -> None:
    """List scale sets, show and scale them, delete instances."""


@scale_set.command("list", epilog="Example: duenotice scale-set list -o json")
@talks
def list_sets(session: Session) -> None:
    """List scale sets."""
    session.show([group for group in session.client.groups() if group.kind == "scale-set"], SCALE_SETS)


@scale_set.command("show", epilog="Example: duenotice scale-set show workers")
@click.argument("name", type=NAME, metavar="SCALE-SET")
@talks
def show_set(session: Session, name: str) -> None:
    """Show a scale set and what its owner approves beforehand."""
    session.show_one(session.client.group("scale-set", name), SCALE_SETS)


@scale_set.command("scale", epilog="Example: duenotice scale-set scale workers --by -2 --wait")
@click.argument("name", type=NAME, metavar="SCALE-SET")
@click.option("--capacity", type=COUNT, default=None, help="The new number of instances.")
@click.option("--by", type=int, metavar="+N|-N", default=None, help="How many to add, or to remove with a minus.")
@waits
@YES
@talks
def scale(
    session: Session, name: str, capacity: int | None, by: int | None, wait: bool, wait_timeout: str, yes: bool
) -> None:
    """Change the capacity of a scale set. If the set asks for it, instances are told by a Terminate."""
    if (capacity is None) == (by is None):
        raise click.UsageError("Give either --capacity or --by.")
    if capacity is not None or (by or 0) < 0:
        make_sure(f"Scale {name} {'by' if capacity is None else 'to'} {by if capacity is None else capacity}?", yes)
    _report(session, session.client.scale(name, capacity=capacity, by=by), wait, wait_timeout)


@scale_set.command("delete-instances", epilog="Example: duenotice scale-set delete-instances workers workers_3")
@click.argument("name", type=NAME, metavar="SCALE-SET")
@click.argument("instances", type=NAME, metavar="INSTANCE…", nargs=-1, required=True)
@waits
@YES
@talks
def delete_instances(
    session: Session, name: str, instances: tuple[str, ...], wait: bool, wait_timeout: str, yes: bool
) -> None:
    """Delete instances of a scale set: all that are named, or none at all."""
    make_sure(f"Delete {', '.join(instances)}?", yes)
    _report(session, session.client.delete_instances(name, instances), wait, wait_timeout)


def _report(session: Session, done: "Scaled", wait: bool, wait_timeout: str) -> None:
    """Print the result; `-o name` prints what was made: events or instances."""
    if session.output == "name":
        for made in [*(event.id for event in done.events), *done.added]:
            put(made)
    elif session.output == "table":
        _tell_people(session, done)
    else:
        session.show_one(done, CHANGES)
    if wait and done.events:
        follow(session, done.events, wait_timeout)


def _tell_people(session: Session, done: "Scaled") -> None:
    changes = [{"change": how, "vm": name} for how in ("added", "removed") for name in getattr(done, how)]
    if done.events:
        session.show(done.events, EVENTS)
    if changes:
        session.show(changes, CHANGES)
    if not changes and not done.events:
        tell("It has that capacity already.")
