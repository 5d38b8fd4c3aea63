"""Follow events to their end: which are not over, how each ended, and what is drawn meanwhile."""

import contextlib
from collections.abc import Callable
from typing import Any

import click

from duenotice.cli.errors import Failed
from duenotice.cli.event_fold import OUTCOMES, Events, fold
from duenotice.cli.feed import Record
from duenotice.cli.live import is_dumb, screen, watch
from duenotice.cli.params import SPAN
from duenotice.cli.saying import tell
from duenotice.cli.service_clock import ServiceClock
from duenotice.cli.session import Session
from duenotice.clock import monotonic
from duenotice.errors import NotFound

LINGER = 4.0
"""An event is shown for this many seconds after its end; otherwise an eviction would be too short to see."""


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

    def __init__(self, session: Session, ids: list[str], ends: bool, tell: Callable[[Any], None]) -> None:
        self.outcomes: dict[str, str] = {}
        self._session, self._ids, self._ends, self._tell = session, ids, ends, tell
        self._live: Events = {}
        self._told_at: dict[str, str] = {}
        self._gone: dict[str, tuple[float, Any]] = {}
        self._clock = ServiceClock(lambda: session.api.get("clock"))

    @property
    def over(self) -> bool:
        """Whether none of the events that were asked for is left."""
        return self._ends and not self._live

    def begin(self) -> None:
        """The events that are not over yet."""
        if self._ids:
            self._live = {event_id: event for event_id in self._ids if (event := self._look(event_id)) is not None}
        else:
            self._live = {event["id"]: event for event in self._session.api.pages("events")}
        for event in self._live.values():
            self._tell(event)

    def take(self, records: list[Record]) -> None:
        """Print each change; no change is lost between two looks."""
        for record in records:
            event_id = record["event_id"]
            if (not self._ids or event_id in self._ids) and (event := fold(self._live, record)) is not None:
                if record["action"] == "event-raised":
                    self._told_at[event_id] = record["at"]
                if record["action"] in OUTCOMES:
                    self._end(event)
                self._tell(event)

    def picture(self) -> Any:
        """A table with bars and countdowns; an event that has just ended stays a moment longer."""
        from duenotice.cli.event_view import picture

        self._gone = {key: ended for key, ended in self._gone.items() if ended[0] > monotonic()}
        events = [event for _, event in self._gone.values()] + list(self._live.values())
        return picture(events, self._told_at, self._clock.now(), self._clock.name)

    def _end(self, event: Any) -> None:
        self._gone[event["id"]] = (monotonic() + LINGER, event)
        self._told_at.pop(event["id"], None)
        if self._ids:
            self.outcomes[event["id"]] = event["phase"]

    def _look(self, event_id: str) -> Any:
        with contextlib.suppress(NotFound):
            return self._session.api.get("events", event_id)
        self.outcomes[event_id] = _outcome(self._session, event_id)
        return None


def _outcome(session: Session, event_id: str) -> str:
    """How an event ended that was over before we looked, if the service still knows."""
    with contextlib.suppress(NotFound):
        history = session.api.pages("events", event_id, "history")
        return [OUTCOMES[record["action"]] for record in history if record["action"] in OUTCOMES][-1]
    return "over"


def follow(session: Session, events: list[Any], span: str) -> None:
    """Wait until all are over; it is a failure if one did not complete."""
    lines = (lambda event: tell(line_of(event))) if is_dumb() else (lambda event: None)
    watched = WatchedEvents(session, [event["id"] for event in events], True, lines)
    with screen() as on:
        watch(session, watched, on, span, "The events are")
    check_outcomes(watched.outcomes)
    if session.output == "table":
        tell(f"Completed {len(watched.outcomes)}.")


def line_of(event: Any) -> str:
    """An event as one line of text; one that has started shows no NotBefore."""
    when = event["not_before"] if event["phase"] == "scheduled" else None
    what = f"{event['id']}  {event['type']:<9}  {event['phase']:<9}"
    return f"{what}  {when or '-':<20}  {' '.join(event['resources'])}"


def check_outcomes(outcomes: dict[str, str]) -> None:
    """It is a failure if an event that was asked for did not complete."""
    missed = [f"{event_id} {end}" for event_id, end in outcomes.items() if end in ("cancelled", "failed")]
    if missed:
        hint = "'duenotice events history ID' says why."
        raise Failed(f"Not all events completed: {', '.join(missed)}.", hint=hint)
