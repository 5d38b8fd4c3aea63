"""`duenotice maintenance`: plan work on many VMs, one update domain at a time."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Unpack

import click

from duenotice.cli.live import follow_plan, newest, show_plan
from duenotice.cli.options import COUNT, MAINTENANCE_TYPE, MOMENT, NAME, NOTE, SPAN, Group
from duenotice.cli.output import print_note
from duenotice.cli.session import Session, with_client
from duenotice.cli.views import MAINTENANCES, STEPS, TIMELINE, by_domain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duenotice.wire.operator import Maintenance, MaintenanceRequest, PlannedStep, Timeline


class Control(NamedTuple):
    """A change of a maintenance: its help, what is done, and whether it may have another window."""

    help: str
    do: "Callable[..., Maintenance]"
    takes_window: bool = False


CONTROLS = {
    "pause": Control("Begin no further step until resumed.", lambda client, plan: client.pause_maintenance(plan)),
    "cancel": Control(
        "Begin no further step, and cancel events that have not started.",
        lambda client, plan: client.cancel_maintenance(plan),
    ),
    "resume": Control(
        "Go on with a paused maintenance; when its window is over, it needs a new one.",
        lambda client, plan, window: client.resume_maintenance(plan, window=window),
        takes_window=True,
    ),
    "retry": Control(
        "Try the steps again that have failed, and go on with the maintenance.",
        lambda client, plan, window: client.retry_maintenance(plan, window=window),
        takes_window=True,
    ),
}
STEP_STATUSES = ("waiting", "under-way", "done", "failed", "skipped")


class MaintenanceOptions(TypedDict):
    """What is asked of a new maintenance."""

    on: tuple[str, ...]
    type: str
    settle: str
    at_once: int
    failures_allowed: int
    description: str | None
    cause: str
    start: datetime | None
    window: str
    consent: str
    by: str


WINDOW = click.option(
    "--window",
    default="",
    metavar="WINDOW",
    help='Hit only then: "Sun 02:00-06:00 Europe/Berlin", "daily 22:00-04:00", "2026-11-22T02:00Z/2026-11-22T06:00Z".',
)
WATCH_TIMEOUT = click.option(
    "--wait-timeout", type=SPAN, default="365d", help="How long to watch or wait, in real time."
)


@click.group(cls=Group)
def maintenance() -> None:
    """Plan maintenances and follow them."""


@maintenance.command("list", epilog="Example: duenotice maintenance list")
@with_client
def list_plans(session: Session) -> None:
    """List maintenances."""
    session.show(session.client.maintenances(), MAINTENANCES)


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
@click.option(
    "--by",
    type=click.Choice(["update-domain", "fault-domain"]),
    default="update-domain",
    help="Which domains of a set go one at a time; work without a reboot may go by fault domain.",
)
@click.option(
    "--consent",
    type=click.Choice(["scope", "host"]),
    default="scope",
    help="With host, no VM of a host is hit before all scopes on it have approved or run out of notice.",
)
@click.option("--start", type=MOMENT, default=None, metavar="TIME", help="Hit nothing before: 2026-11-22T02:00:00Z.")
@WINDOW
@click.option("--dry-run", is_flag=True, help="Only show the timeline that it would have.")
@click.option("--wait", is_flag=True, help="Follow the maintenance to its end.")
@WATCH_TIMEOUT
@with_client
def start(session: Session, dry_run: bool, wait: bool, wait_timeout: str, **asked: Unpack[MaintenanceOptions]) -> None:
    """Begin a maintenance of a set, a scale set, hosts, or VMs by name, zone or tag."""
    from duenotice.wire.operator import MaintenanceRequest

    request = MaintenanceRequest(**asked)
    if dry_run:
        seen = session.client.preview_maintenance(request)
        session.show(_planned(session, request, seen), by_domain(TIMELINE, request.by))
        if seen.next is not None and session.output == "table":
            print_note(
                f"And {seen.steps - len(seen.timeline):,} more steps, over by {seen.ends_at}; -o json shows all."
            )
        if seen.left_out and session.output == "table":
            print_note(
                f"Steps that find no place in the window: {seen.left_out}. After the window the maintenance pauses."
            )
        return
    plan = session.client.begin_maintenance(request)
    show_plan(session, plan)
    if wait:
        follow_plan(session, plan.id, wait_timeout)


def _planned(session: Session, request: "MaintenanceRequest", seen: "Timeline") -> "Iterator[PlannedStep]":
    """The steps of a preview, page after page; a table has those of the first."""
    yield from seen.timeline
    while seen.next is not None and session.output != "table":
        seen = session.client.preview_maintenance(request, cursor=seen.next)
        yield from seen.timeline


@maintenance.command("show", epilog="Example: duenotice maintenance show --watch")
@click.argument("maintenance_id", type=NAME, metavar="[MAINTENANCE]", required=False)
@click.option("--watch", is_flag=True, help="Stay until it is over; a terminal shows a live view.")
@WATCH_TIMEOUT
@with_client
def show(session: Session, maintenance_id: str | None, watch: bool, wait_timeout: str) -> None:
    """Show a maintenance with its steps. Without an id it is the newest; the beginning of an id is enough."""
    full = session.client.maintenance(maintenance_id).id if maintenance_id else newest(session)
    if watch:
        follow_plan(session, full, wait_timeout, also_show=True)
    else:
        show_plan(session, session.client.maintenance(full))


@maintenance.command("steps", epilog="Example: duenotice maintenance steps A3BCB4 --status failed")
@click.argument("maintenance_id", type=NAME, metavar="[MAINTENANCE]", required=False)
@click.option("--status", type=click.Choice(STEP_STATUSES), default=None, help="Only those in this state.")
@with_client
def steps(session: Session, maintenance_id: str | None, status: str | None) -> None:
    """List the steps of a maintenance. Without an id it is the newest."""
    plan = session.client.maintenance(maintenance_id or newest(session))
    session.show(session.client.steps(plan.id, status=status or ""), by_domain(STEPS, plan.by))


def _control(name: str, control: Control) -> click.Command:
    @with_client
    def command(session: Session, maintenance_id: str, **window: str) -> None:
        plan = control.do(session.client, maintenance_id, **window)
        session.show_one(plan, MAINTENANCES)
        if session.output == "table":
            print_note(f"Maintenance {plan.id} is {plan.status}.")

    if control.takes_window:
        command = WINDOW(command)
    command = click.argument("maintenance_id", type=NAME, metavar="MAINTENANCE")(command)
    return click.command(name, help=control.help, epilog=f"Example: duenotice maintenance {name} A3BCB4")(command)


for _name, _what in CONTROLS.items():
    maintenance.add_command(_control(_name, _what))


@maintenance.command("acknowledge", epilog="Example: duenotice maintenance acknowledge A3BCB4 --note 'disk replaced'")
@click.argument("maintenance_id", type=NAME, metavar="MAINTENANCE")
@NOTE
@with_client
def acknowledge(session: Session, maintenance_id: str, note: str) -> None:
    """Say that somebody takes care of all that has failed in a maintenance: it needs nobody any more."""
    plan = session.client.acknowledge_maintenance(maintenance_id, note)
    session.show_one(plan, MAINTENANCES)
    if session.output == "table":
        print_note(f"What has failed in maintenance {plan.id} is acknowledged.")
