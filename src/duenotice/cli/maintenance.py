"""`duenotice maintenance`: plan work on many VMs, one update domain at a time."""

from typing import Any

import click

from duenotice.cli.arguments import COUNT, MAINTENANCE_TYPE, NAME, SPAN, Noun
from duenotice.cli.output import tell
from duenotice.cli.session import Session, talks
from duenotice.cli.views import MAINTENANCES, TIMELINE
from duenotice.cli.watching import follow_plan, newest, show_plan

TURNS = {
    "pause": "Begin no further step until resumed.",
    "resume": "Go on with a paused maintenance.",
    "cancel": "Begin no further step, and cancel events that have not started.",
}
WATCH_TIMEOUT = click.option(
    "--wait-timeout", type=SPAN, default="365d", help="How long to watch or wait, in real time."
)


@click.group(cls=Noun)
def maintenance() -> None:
    """Plan maintenances and follow them."""


@maintenance.command("list", epilog="Example: duenotice maintenance list")
@talks
def list_plans(session: Session) -> None:
    """List maintenances."""
    session.show(session.api.pages("maintenances"), MAINTENANCES)


@maintenance.command(
    "start", epilog="Example: duenotice maintenance start --on set=web --type Reboot --settle 5m --dry-run"
)
@click.option(
    "--on",
    type=NAME,
    multiple=True,
    required=True,
    metavar="KIND=NAME",
    help="set=web, scale-set=batch, service=shop, host=h1, vm=db-0, zone=1 or tag=KEY=VALUE; may be given many times.",
)
@click.option("--type", required=True, type=MAINTENANCE_TYPE, help="What will happen to the VMs.")
@click.option("--settle", type=SPAN, default="0s", help="How long to wait after each update domain.")
@click.option("--at-once", type=COUNT, default=0, help="At most this many steps at a time; 0 means no limit.")
@click.option("--failures-allowed", type=COUNT, default=0, help="Stop when more steps than this fail.")
@click.option("--description", default=None, metavar="TEXT", help="The description that the VMs read.")
@click.option(
    "--cause",
    type=click.Choice(["maintenance", "live-migration"]),
    default="maintenance",
    help="Why the VMs are hit.  [default: maintenance]",
)
@click.option("--dry-run", is_flag=True, help="Only show the timeline that it would have.")
@click.option("--wait", is_flag=True, help="Follow the maintenance to its end.")
@WATCH_TIMEOUT
@talks
def start(session: Session, dry_run: bool, wait: bool, wait_timeout: str, **body: Any) -> None:
    """Begin a maintenance of a set, a scale set, hosts, or VMs by name, zone or tag."""
    if dry_run:
        session.show(session.api.post("maintenances", body=body, dry_run="true")["timeline"], TIMELINE)
        return
    plan = session.api.post("maintenances", body=body)
    show_plan(session, plan)
    if wait:
        follow_plan(session, plan["id"], wait_timeout)


@maintenance.command("show", epilog="Example: duenotice maintenance show --watch")
@click.argument("maintenance_id", type=NAME, metavar="[MAINTENANCE]", required=False)
@click.option("--watch", is_flag=True, help="Stay until it is over; a terminal shows a live view.")
@WATCH_TIMEOUT
@talks
def show(session: Session, maintenance_id: str | None, watch: bool, wait_timeout: str) -> None:
    """Show a maintenance with its steps. Without an id it is the newest; the beginning of an id is enough."""
    full = session.api.full_id("maintenances", maintenance_id) if maintenance_id else newest(session)
    if watch:
        follow_plan(session, full, wait_timeout, also_show=True)
    else:
        show_plan(session, session.api.get("maintenances", full))


def _turn(name: str, text: str) -> None:
    @maintenance.command(name, help=text, epilog=f"Example: duenotice maintenance {name} A3BCB4")
    @click.argument("maintenance_id", type=NAME, metavar="MAINTENANCE")
    @talks
    def turn(session: Session, maintenance_id: str) -> None:
        plan = session.api.post("maintenances", maintenance_id, name)
        session.show_one(plan, MAINTENANCES)
        if session.output == "table":
            tell(f"Maintenance {plan['id']} is {plan['status']}.")


for _name, _text in TURNS.items():
    _turn(_name, _text)
