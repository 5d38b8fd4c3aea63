"""`duenotice clock`: the service's clock, which events follow."""

import click

from duenotice.cli.arguments import Noun
from duenotice.cli.session import Session, talks
from duenotice.cli.views import CLOCK


@click.group(cls=Noun)
def clock() -> None:
    """Show the service's clock, let time pass."""


@clock.command("show", epilog="Example: duenotice clock show")
@talks
def show(session: Session) -> None:
    """Show which clock the service has, and its time."""
    session.show_one(session.client.clock(), CLOCK)


@clock.command("advance", epilog="Example: duenotice clock advance 15m")
@click.argument("by", metavar="SPAN")
@talks
def advance(session: Session, by: str) -> None:
    """Let time pass on a manual clock."""
    session.show_one(session.client.advance_clock(by), CLOCK)


@clock.command("speed", epilog="Example: duenotice clock speed 60x")
@click.argument("speed", metavar="60x")
@talks
def speed(session: Session, speed: str) -> None:
    """Let time pass faster or slower. A real clock refuses this."""
    session.show_one(session.client.set_speed(speed), CLOCK)
