"""Follow events to their end by looking again and again; the live view is for terminals only."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import click

from duenotice.cli.errors import Failed, TimedOut
from duenotice.cli.session import Session
from duenotice.cli.views import WATCHED_EVENTS
from duenotice.errors import NotFound

LOOK_EVERY = 0.5
OVER = ("completed", "cancelled")
OUTCOMES = {"event-completed": "completed", "event-cancelled": "cancelled", "event-failed": "failed"}
Events = dict[str, Any]


def waits(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a command that can follow what it made."""
    command = click.option(
        "--wait-timeout", metavar="SPAN", default="1h", help="How long --wait waits, in real time.  [default: 1h]"
    )(command)
    return click.option("--wait", is_flag=True, help="Follow the events to their end.")(command)


def looks(look: Callable[[], Any], span: str, what: str) -> Iterator[Any]:
    """What is seen now, and again and again until the span of real time is over."""
    from duenotice.wire.duration import parse_duration

    for _ in range(max(1, round(parse_duration(span) / LOOK_EVERY))):
        yield look()
        time.sleep(LOOK_EVERY)
    raise TimedOut(f"{what} not over after {span}.", hint="It goes on without us; wait longer with --wait-timeout.")


def live_events(session: Session, ids: list[str]) -> Events:
    """Those of the events that are not over, by id."""
    found = {}
    for event_id in ids:
        with contextlib.suppress(NotFound):
            event = session.api.get("events", event_id)
            if event["phase"] not in OVER:
                found[event_id] = event
    return found


def outcome(session: Session, event_id: str) -> str:
    """How an event ended, as far as the service remembers."""
    try:
        history = session.api.pages("events", event_id, "history")
        ends = [OUTCOMES[record["action"]] for record in history if record.get("action") in OUTCOMES]
    except NotFound:
        ends = []
    return ends[-1] if ends else "over"


def follow(session: Session, events: list[Any], span: str) -> None:
    """Wait until all are over; one that did not complete is a failure."""
    ids = [event["id"] for event in events]
    with progress(session) as show:
        for live in looks(lambda: live_events(session, ids), span, "The events are"):
            show(list(live.values()))
            if not live:
                break
    ends = {event_id: outcome(session, event_id) for event_id in ids}
    missed = [f"{event_id} {end}" for event_id, end in ends.items() if end in ("cancelled", "failed")]
    if missed:
        raise Failed(f"Not all events completed: {', '.join(missed)}.", hint="See 'duenotice audit'.")


@contextlib.contextmanager
def progress(session: Session, stderr: bool = True) -> Iterator[Callable[[list[Any]], None]]:
    """A table of events that is drawn anew on each call; nothing where nobody looks."""
    from duenotice.cli import tables

    console = tables.console(stderr)
    if not console.is_terminal:
        yield lambda events: None
        return
    from rich.live import Live

    seen: dict[str, str] = {}
    with Live(console=console, auto_refresh=False, transient=stderr) as live:
        yield lambda events: live.update(_picture(events, seen, session.now()), refresh=True)


def _picture(events: list[Any], seen: dict[str, str], now: str) -> Any:
    """A table with a bar of how much is over of the notice since we first saw it."""
    from duenotice.cli import tables
    from duenotice.cli.looks import passed

    if not events:
        return "No events."
    shares = [passed(seen.setdefault(event["id"], now), event["not_before"] or now, now) for event in events]
    rows = [event | {"notice_used": share} for event, share in zip(events, shares, strict=True)]
    return tables.table(rows, WATCHED_EVENTS, now)
