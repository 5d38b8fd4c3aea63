"""Watching events and maintenances to their end: a live picture on a terminal, elsewhere a line for each change."""

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, Protocol

import click

from duenotice.cli.errors import Failed, NotInTime
from duenotice.cli.options import SPAN
from duenotice.cli.output import fields_of, print_note, print_text
from duenotice.cli.session import FailedEvent, Session, number_of_failed, print_next_steps
from duenotice.cli.views import EVENTS, MAINTENANCES, STEPS, by_domain
from duenotice.clock import monotonic
from duenotice.errors import DuenoticeError, NotFound, Unavailable
from duenotice.escape import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from duenotice.client import OperatorClient
    from duenotice.wire.operator import Clock, Event, Maintenance, Record, Step


Report = Callable[[str], None]
Events = dict[str, "Event"]

OUTCOMES = {"event-completed": "completed", "event-cancelled": "cancelled", "event-failed": "failed"}
_PHASES = ("scheduled", "started")

LOOK_AGAIN = 5.0
SLACK = 2.0
"""Our copy may be wrong by this many seconds before it is set again: the service tells whole seconds only."""


class FeedReader:
    """`with FeedReader(client, report) as feed:` misses no record from then on. A thread reads; `next` is what it read.

    After a lost connection the client connects again and goes on where it stopped; here this is only reported, once.
    """

    def __init__(self, client: "OperatorClient", report: Report) -> None:
        self._feed = client.feed(
            on_lost=lambda _: report("connection lost, trying again"), on_found=lambda: report("connected again")
        )
        self._came: SimpleQueue[Record | DuenoticeError] = SimpleQueue()
        self._closed = False

    def __enter__(self) -> "FeedReader":
        self._feed.open()
        threading.Thread(target=self._run, name="feed", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True

    def next(self, seconds: float) -> "list[Record]":
        """The records that have arrived; waits at most that long for the first one."""
        came: list[Record] = []
        try:
            came.append(self._taken(seconds))
            while True:
                came.append(self._taken(0))
        except Empty:
            return came

    def _taken(self, seconds: float) -> "Record":
        found = self._came.get(timeout=max(0.0, seconds)) if seconds > 0 else self._came.get_nowait()
        if isinstance(found, DuenoticeError):
            raise found
        return found

    def _run(self) -> None:
        try:
            for record in self._feed:
                if self._closed:
                    return
                self._came.put(record)
        except DuenoticeError as error:
            self._came.put(error)


def fold(events: Events, record: "Record") -> "Event | None":
    """Take in a record. Returns the event to show, or None; the phase of an event that is over says how it ended."""
    from msgspec.structs import replace

    event_id = record.event_id or ""
    if record.action in OUTCOMES:
        gone = events.pop(event_id, None)
        return None if gone is None else replace(gone, phase=OUTCOMES[record.action])
    now = _as_of(record, events.get(event_id))
    if now is None or now == events.get(event_id):
        return None
    events[event_id] = now
    return now


def _as_of(record: "Record", known: "Event | None") -> "Event | None":
    """The event after a record; None when the record is not about an event, or is not new."""
    from msgspec.structs import replace

    if record.action == "event-approved" and known is not None:
        return replace(known, approved_by=str(record.details.by))
    event = record.details.event
    # We read the events after we opened the feed, so its first records may be older than what we read.
    is_older = event is not None and known is not None and _PHASES.index(event.phase) < _PHASES.index(known.phase)
    return None if is_older else event


class ServiceClock:
    """The service's clock: read now and then, and counted on here at its own speed.

    `now()` asks nobody between two reads; a countdown drawn with it runs as fast as the service's time.
    """

    def __init__(self, look: "Callable[[], Clock]", steady: Callable[[], float] = monotonic) -> None:
        self._look, self._steady = look, steady
        self._at, self._read, self._speed, self.name = datetime.min.replace(tzinfo=UTC), 0.0, 0.0, ""

    def now(self) -> datetime:
        """The service's time, in whole seconds."""
        if not self.name:
            self._set(self._look())
        elif self._steady() - self._read >= LOOK_AGAIN or self._speed == 0:
            with suppress(Unavailable):  # the feed reports the lost connection, and tries again
                self._set(self._look())
        return self._guess().replace(microsecond=0)

    def _guess(self) -> datetime:
        return self._at + timedelta(seconds=(self._steady() - self._read) * self._speed)

    def _set(self, told: "Clock") -> None:
        guess = self._guess()
        is_close = abs((told.now - guess).total_seconds()) <= SLACK * max(1.0, told.speed)
        keep = is_close and told.speed == self._speed and told.speed > 0
        self._at, self._read = (guess if keep else told.now), self._steady()
        self._speed, self.name = told.speed, told.clock


REDRAW = 1.0
DUMB = ("dumb", "unknown")
LINGER = 4.0
"""An event is shown for this many seconds after its end; otherwise an eviction would be too short to see."""
OPEN = ("running", "paused")
MANY_STEPS = 1000
"""Of a plan with more, a picture is drawn of those that matter most."""


class Display(NamedTuple):
    """Draws pictures, each over the last one, and prints text above them."""

    draw: Callable[[Callable[[], "RenderableType"]], None]
    report: Report


NO_DISPLAY = Display(lambda picture: None, print_note)


class LiveView(Protocol):
    """Something that changes until it is over."""

    def begin(self) -> None:
        """Read it for the first time; the feed is open already, so no change is missed."""

    def take(self, records: "list[Record]") -> None:
        """Take in what has happened."""

    def picture(self) -> "RenderableType":
        """What a person sees of it now."""

    @property
    def over(self) -> bool:
        """Whether there is nothing more to wait for."""


def watch(session: Session, watched: LiveView, on: Display, span: str, what: str) -> None:
    """Stay until it is over, or for a span of real time."""
    from duenotice.wire.spans import parse_duration

    end = monotonic() + parse_duration(span)
    with FeedReader(session.client, on.report) as feed:
        watched.begin()
        while not watched.over:
            on.draw(watched.picture)
            left = end - monotonic()
            if left <= 0:
                hint = "It goes on in the service; wait longer with --wait-timeout."
                raise NotInTime(f"{what} not over after {span}.", hint=hint)
            watched.take(feed.next(min(REDRAW, left)))
        on.draw(watched.picture)


def is_dumb(stderr: bool = True) -> bool:
    """Whether the terminal of a person cannot redraw; it gets lines instead."""
    return (sys.stderr if stderr else sys.stdout).isatty() and os.environ.get("TERM", "").lower() in DUMB


@contextlib.contextmanager
def display(stderr: bool = True) -> Iterator[Display]:
    """The terminal that a person looks at, if any; a picture on standard error is removed at the end."""
    from duenotice.cli import terminal

    console = terminal.console(stderr)
    if not console.is_terminal or is_dumb(stderr):
        yield NO_DISPLAY
        return
    from rich.live import Live

    with Live(console=console, auto_refresh=False, transient=stderr, vertical_overflow="crop") as live:
        yield Display(
            lambda picture: live.update(picture(), refresh=True),
            lambda text: console.print(text, style="yellow"),
        )


def waits(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a command that can follow what it made."""
    command = click.option(
        "--wait-timeout",
        type=SPAN,
        metavar="SPAN",
        default="1h",
        help="How long --wait waits, in real time.  [default: 1h]",
    )(command)
    return click.option("--wait", is_flag=True, help="Follow the events to their end.")(command)


class WatchedEvents:
    """The given events until all are over; or all events, for ever or until none is left."""

    def __init__(self, session: Session, ids: list[str], ends: bool, on_change: "Callable[[Event], None]") -> None:
        self.outcomes: dict[str, str] = {}
        self._session, self._ids, self._ends, self._on_change = session, ids, ends, on_change
        self._live: Events = {}
        self._told_at: dict[str, datetime] = {}
        self._gone: dict[str, tuple[float, Event]] = {}
        self._clock = ServiceClock(session.client.clock)

    @property
    def over(self) -> bool:
        """Whether none of the events that were asked for is left."""
        return self._ends and not self._live

    def begin(self) -> None:
        """The events that are not over yet."""
        if self._ids:
            self._live = {event_id: event for event_id in self._ids if (event := self._look(event_id)) is not None}
        else:
            self._live = {event.id: event for event in self._session.client.events()}
        for event in self._live.values():
            self._on_change(event)

    def take(self, records: "list[Record]") -> None:
        """Print each change; no change is lost between two looks."""
        for record in records:
            if (not self._ids or record.event_id in self._ids) and (event := fold(self._live, record)) is not None:
                if record.action == "event-raised":
                    self._told_at[event.id] = record.at
                if record.action in OUTCOMES:
                    self._end(event)
                self._on_change(event)

    def picture(self) -> "RenderableType":
        """A table with bars and countdowns; an event that has just ended stays a moment longer."""
        from duenotice.cli.pictures import events_picture

        self._gone = {key: ended for key, ended in self._gone.items() if ended[0] > monotonic()}
        events = [event for _, event in self._gone.values()] + list(self._live.values())
        return events_picture(events, self._told_at, self._clock.now(), self._clock.name)

    def _end(self, event: "Event") -> None:
        self._gone[event.id] = (monotonic() + LINGER, event)
        self._told_at.pop(event.id, None)
        if self._ids:
            self.outcomes[event.id] = event.phase

    def _look(self, event_id: str) -> "Event | None":
        with contextlib.suppress(NotFound):
            return self._session.client.event(event_id)
        self.outcomes[event_id] = _outcome(self._session, event_id)
        return None


def _outcome(session: Session, event_id: str) -> str:
    """How an event ended that was over before we looked, if the service still knows."""
    with contextlib.suppress(NotFound):
        history = session.client.event_history(event_id)
        return [OUTCOMES[record.action] for record in history if record.action in OUTCOMES][-1]
    return "over"


def report(session: Session, events: "Sequence[Event]", none: str, wait: bool, span: str) -> None:
    """Print the events that were raised, or say why there are none; then follow them if that was asked for."""
    if events or session.output != "table":
        session.show(events, EVENTS)
    if not events:
        print_note(none)
    if wait and events:
        follow(session, events, span)


def follow(session: Session, events: "Sequence[Event]", span: str) -> None:
    """Wait until all are over; it is a failure if one did not complete."""
    lines = (lambda event: print_note(line_of(event))) if is_dumb() else (lambda event: None)
    watched = WatchedEvents(session, [event.id for event in events], True, lines)
    with display() as on:
        watch(session, watched, on, span, "The events are")
    check_outcomes(watched.outcomes)
    if session.output == "table":
        print_note(f"Completed {len(watched.outcomes)}.")


def line_of(event: "Event") -> str:
    """An event as one line of text; one that has started shows no NotBefore."""
    when = f"{event.not_before:%Y-%m-%dT%H:%M:%SZ}" if event.phase == "scheduled" else "-"
    return f"{event.id}  {event.type:<9}  {event.phase:<9}  {when:<20}  {' '.join(event.resources)}"


def check_outcomes(outcomes: dict[str, str]) -> None:
    """It is a failure if an event that was asked for did not complete."""
    missed = [f"{event_id} {end}" for event_id, end in outcomes.items() if end in ("cancelled", "failed")]
    if missed:
        hint = "'duenotice events history ID' says why."
        raise Failed(f"Not all events completed: {', '.join(missed)}.", hint=hint)


def watch_events(session: Session, ids: list[str], ends: bool, span: str) -> None:
    """Watch until the events are over, or for ever; it is a failure if one of `ids` did not complete."""
    is_live = session.output == "table" and sys.stdout.isatty() and not is_dumb(stderr=False)
    line = LINES.get(session.output, _json_of)
    watched = WatchedEvents(session, ids, ends, lambda event: None if is_live else print_text(one_line(line(event))))
    with display(stderr=False) if is_live else contextlib.nullcontext(NO_DISPLAY) as on:
        watch(session, watched, on, span, "The events are")
    check_outcomes(watched.outcomes)


def _json_of(event: "Event") -> str:
    return json.dumps(fields_of(event))


LINES: "dict[str, Callable[[Event], str]]" = {"table": line_of, "name": lambda event: event.id}


def show_plan(session: Session, plan: "Maintenance") -> None:
    """Print a maintenance; a table also has its steps."""
    session.show_one(plan, MAINTENANCES)
    if session.output == "table":
        print_text()
        if not plan.steps_kept:
            print_note("Its steps are not kept any more; 'duenotice audit' has what happened.")
            return
        session.show((_as_it_stands(plan, step) for step in session.client.steps(plan.id)), by_domain(STEPS, plan.by))
        if plan.progress["failed"] and number_of_failed(session.client, plan.id):
            print_next_steps([FailedEvent("", plan.type, (), plan.id)])


def _as_it_stands(plan: "Maintenance", step: "Step") -> "Step":
    """A step that waits in a plan that is over was not run, and says so."""
    from msgspec import structs

    is_left = step.status == "waiting" and plan.status not in OPEN
    return structs.replace(step, status="not run") if is_left else step


def newest(session: Session) -> str:
    """The id of the maintenance that began last."""
    plans = [plan.id for plan in session.client.maintenances()]
    if not plans:
        raise NotFound("There is no maintenance yet.", hint="Begin one with 'duenotice maintenance start'.")
    return plans[-1]


class WatchedPlan:
    """One maintenance until it is over. It is read again when the feed shows a change of it or of its events."""

    def __init__(self, session: Session, plan_id: str, on_change: Report | None = None) -> None:
        self.plan: Maintenance
        self._steps: list[Step] = []
        self._on_change, self._states = on_change, dict[str, str]()
        self._session, self._id, self._stale = session, plan_id, False
        self._events: Events = {}
        self._told_at: dict[str, datetime] = {}
        self._clock = ServiceClock(session.client.clock)

    @property
    def over(self) -> bool:
        """Whether it is over."""
        return self.plan.status not in OPEN

    def begin(self) -> None:
        """The plan, and those of its events that are not over."""
        self.plan = self._session.client.maintenance(self._id)
        self._steps = self._read()
        ours = {step.event_id for step in self._steps if step.status == "under-way"}
        events = self._session.client.events() if ours else ()
        self._events = {event.id: event for event in events if event.id in ours}
        self._report_steps()

    def take(self, records: "list[Record]") -> None:
        """Read it again if a record is about this plan."""
        for record in records:
            if record.action == "event-raised" and record.event_id:
                self._told_at[record.event_id] = record.at
        self._stale = self._stale or any(self._concerns(record) for record in records)
        if self._stale:
            with contextlib.suppress(Unavailable):  # the feed reports it; we try again in a second
                self.begin()
                self._told_at = {key: at for key, at in self._told_at.items() if key in self._events}
                self._stale = False

    def picture(self) -> "RenderableType":
        """Its state, a bar, and a row for each step."""
        from duenotice.cli.pictures import plan_picture

        now = self._clock.now()
        return plan_picture(self.plan, self._steps, self._events, self._told_at, now, self._clock.name)

    def _read(self) -> "list[Step]":
        """Its steps. Of many only those that matter now are drawn, and so only these are read."""
        from duenotice.cli.pictures import FIRST, MOST_ROWS

        steps = partial(self._session.client.steps, self._id)
        if not self.plan.steps_kept:
            return []
        if self._on_change is not None or sum(self.plan.progress.values()) <= MANY_STEPS:
            return list(steps())
        return [step for status in FIRST for step in steps(status=status).first(MOST_ROWS)]

    def _report_steps(self) -> None:
        """A line for each step that has changed, if lines are wanted."""
        if self._on_change is None:
            return
        for step in self._steps:
            vms = " ".join(step.resources)
            if self._states.get(vms, "waiting") != step.status:
                self._on_change(f"{step.status:<9}  {step.group}  UD {step.domain}  {vms}")
            self._states[vms] = step.status

    def _concerns(self, record: "Record") -> bool:
        return record.event_id in self._events or record.details.maintenance_id == self.plan.id


def follow_plan(session: Session, plan_id: str, span: str, also_show: bool = False) -> None:
    """Watch until it is over; it is a failure if it failed or was cancelled."""
    watched = WatchedPlan(session, plan_id, print_note) if is_dumb() else WatchedPlan(session, plan_id)
    with display() as on:
        watch(session, watched, on, span, "The maintenance is")
    if also_show:
        show_plan(session, watched.plan)
    plan = watched.plan
    if plan.status != "done":
        what = f"Maintenance {plan_id} is {plan.status}{f': {plan.reason}' if plan.reason else ''}."
        raise Failed(what, hint="Its steps say which VMs were hit.")
    if session.output == "table" and not also_show:
        print_note(f"Maintenance {plan_id} is done.")
