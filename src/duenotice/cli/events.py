"""`duenotice events`: what VMs are told."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from duenotice.cli.live import report, waits, watch_events
from duenotice.cli.options import EVENT_STATE, EVENT_TYPE, MOMENT, NAME, NOTE, SPAN, Group, choice
from duenotice.cli.output import print_note
from duenotice.cli.session import FailedEvent, Session, number_of_failed, print_next_steps, with_client
from duenotice.cli.views import AUDIT, EVENT, EVENTS, OVER_EVENTS

if TYPE_CHECKING:
    from duenotice.client import OperatorClient
    from duenotice.wire.operator import Event, EventRow, Life

FILTERS: dict[str, click.ParamType[str]] = {
    "vm": NAME,
    "scope": NAME,
    "type": EVENT_TYPE,
    "phase": choice("scheduled", "started"),
}

MORE_FILTERS = ("state", "cause", "group", "host", "maintenance", "q")
"""With one of these the table of events is asked, which also has those that are over."""


class EventOptions(TypedDict):
    """What else can be said about a new event."""

    not_before: datetime | None
    description: str | None
    duration: int | None
    cause: str


@click.group(cls=Group)
def events() -> None:
    """List, schedule, cancel, approve and watch events."""


def _filtered(command: Callable[..., None]) -> Callable[..., None]:
    for name, kind in reversed(FILTERS.items()):
        text = f"Only events of this {name.replace('vm', 'VM')}."
        command = click.option(f"--{name}", type=kind, default=None, help=text)(command)
    return command


@events.command("list", epilog="Example: duenotice events list --state failed --state cancelled --group web")
@_filtered
@click.option(
    "--state", type=EVENT_STATE, multiple=True, help="Only events in this state; may be given more than once."
)
@click.option("--cause", type=NAME, default=None, help="Only events with this cause, such as user.")
@click.option("--group", type=NAME, metavar="KIND/NAME", default=None, help="Only events of a group, such as set/web.")
@click.option("--host", type=NAME, default=None, help="Only events of this host.")
@click.option("--maintenance", type=NAME, metavar="ID", default=None, help="Only events of this maintenance.")
@click.option("-q", "--query", "q", type=NAME, metavar="TEXT", help="Only events with this text in them.")
@with_client
def list_events(session: Session, state: tuple[str, ...], **filters: str | None) -> None:
    """List the events that are not over; with --state also those that are.

    One that has failed is in the state failed until somebody has dealt with it, and then resolved.
    """
    given = {name: value for name, value in filters.items() if value is not None}
    if not state and not given.keys() & set(MORE_FILTERS):
        session.show(session.client.events(**given), EVENTS)
        if session.output == "table" and (failed := number_of_failed(session.client)):
            print_note(f"{failed} more failed: 'duenotice events list --state failed' shows why.")
        return
    if odd := [name for name in ("phase", "scope") if name in given]:
        raise click.UsageError(f"--{odd[0]} cannot be combined with these.")
    rows = _rows(session.client, state=",".join(state), **given)
    if session.output != "table":
        session.show(rows, EVENTS)
        return
    found = list(rows)
    session.show(found, OVER_EVENTS if any(row.outcome for row in found) else EVENTS)
    print_next_steps(map(_failed, (row for row in found if row.state == "failed")))


def _failed(life: "Life") -> FailedEvent:
    return FailedEvent(life.id, life.type, life.resources, life.maintenance)


def _rows(client: "OperatorClient", **asked: str) -> "Iterator[EventRow]":
    """The table, page after page; what changes meanwhile may be missed."""
    from duenotice.wire.operator import EventQuery  # costs milliseconds that --help should not pay

    offset = 0
    while found := client.event_table(EventQuery(**asked), offset=offset, limit=1000).items:
        yield from found
        offset += len(found)


@events.command("show", epilog="Example: duenotice events show 5C2F53")
@click.argument("event_id", type=NAME, metavar="EVENT")
@with_client
def show_event(session: Session, event_id: str) -> None:
    """Show an event, also when it is over; the beginning of its id is enough."""
    life = session.client.event_life(event_id)
    session.show_one(life, EVENT)
    if session.output == "table" and life.state == "failed":
        print_next_steps([_failed(life)])


@events.command("schedule", epilog="Example: duenotice events schedule web-0 --type Freeze --wait")
@click.argument("vms", type=NAME, nargs=-1, required=True, metavar="VM…")
@click.option("--type", "type_", type=EVENT_TYPE, required=True, help="What will happen.")
@click.option("--not-before", type=MOMENT, default=None, help="A time in RFC 3339, such as 2026-01-01T12:00:00Z.")
@click.option("--description", metavar="TEXT", default=None, help="The description that the VMs read.")
@click.option("--duration", type=int, metavar="SECONDS", default=None, help="How long the VMs will be paused.")
@click.option(
    "--cause",
    type=click.Choice(["maintenance", "live-migration", "user"]),
    default="maintenance",
    help="Why the VMs are hit.  [default: maintenance]",
)
@waits
@with_client
def schedule(
    session: Session, vms: tuple[str, ...], type_: str, wait: bool, wait_timeout: str, **more: Unpack[EventOptions]
) -> None:
    """Schedule an event for VMs of one update domain."""
    raised = session.client.schedule_event(type_, vms, **more)
    none = "Nobody listens there, so the impact happens without notice."
    report(session, raised.events, none, wait, wait_timeout)


def _act(name: str, text: str, done: str, do: "Callable[[OperatorClient, str], Event]") -> None:
    @events.command(name, help=text, epilog=f"Example: duenotice events {name} 5C2F53")
    @click.argument("event_ids", type=NAME, nargs=-1, required=True, metavar="EVENT…")
    @with_client
    def act(session: Session, event_ids: tuple[str, ...]) -> None:
        full = [session.client.event(event_id).id for event_id in event_ids]
        session.show([do(session.client, event_id) for event_id in full], EVENTS)
        if session.output == "table":
            print_note(f"{done} {len(full)}.")


_act("cancel", "Cancel events that have not started.", "Cancelled", lambda client, event: client.cancel_event(event))
_act(
    "approve",
    "Approve events on behalf of their VMs: they start now.",
    "Approved",
    lambda client, event: client.approve_event(event),
)


@events.command("acknowledge", epilog="Example: duenotice events acknowledge 5C2F53 --note 'disk replaced'")
@click.argument("event_ids", type=NAME, nargs=-1, required=True, metavar="EVENT…")
@NOTE
@with_client
def acknowledge(session: Session, event_ids: tuple[str, ...], note: str) -> None:
    """Say that somebody takes care of events that have failed: they need nobody any more."""
    done = [session.client.acknowledge_event(event_id, note).id for event_id in event_ids]
    session.show([session.client.event_life(event_id) for event_id in done], OVER_EVENTS)
    if session.output == "table":
        print_note(f"Acknowledged {len(done)}.")


@events.command("report", epilog="Example: duenotice events report 5C2F53 --failure 'no such VM'")
@click.argument("event_id", type=NAME, metavar="EVENT")
@click.option("--failure", metavar="TEXT", default="", help="Why it failed. Without this it is reported as done.")
@with_client
def report_impact(session: Session, event_id: str, failure: str) -> None:
    """Report that the impact of a started event is over, on behalf of its driver."""
    full = session.client.event(event_id).id
    session.show([session.client.report_event(full, failure)], EVENTS)
    if session.output == "table":
        print_note("Reported as failed." if failure else "Reported as done.")


@events.command("history", epilog="Example: duenotice events history 5C2F53 -o json")
@click.argument("event_id", type=NAME, metavar="EVENT")
@with_client
def history(session: Session, event_id: str) -> None:
    """Show everything that happened to an event, also when it is over."""
    session.show(session.client.event_history(event_id), AUDIT)


@events.command("watch", epilog="Example: duenotice events watch --until-none")
@click.argument("event_ids", type=NAME, nargs=-1, metavar="[EVENT…]")
@click.option("--until-none", is_flag=True, help="End when no event is left.")
@click.option("--wait-timeout", type=SPAN, default="365d", help="End after this long.")
@with_client
def watch(session: Session, event_ids: tuple[str, ...], until_none: bool, wait_timeout: str) -> None:
    """Watch events; with ids, until these events are over.

    On a terminal this is a live table. Elsewhere it is one line per change, or JSON lines with -o jsonl.
    """
    ids = [session.client.event(event_id).id for event_id in event_ids]
    watch_events(session, ids, until_none or bool(ids), wait_timeout)
