"""Waits on the service's clock until a VM's document shows what a step expects, and checks that it stays so."""

from collections.abc import Callable, Generator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from duenotice.client.operator.client import OperatorClient
from duenotice.errors import NotFound
from duenotice.scenarios.kinds import RoleName
from duenotice.scenarios.scenario import ScenarioStep
from duenotice.scenarios.verbs import GONE, REMOVED, Stage
from duenotice.wire.operator import Clock, Document, ScheduledEvent
from duenotice.wire.spans import parse_time

SLACK_SECONDS = 2.0
"""Real seconds that a service and its player may lose; the service adds one second to each notice (S2)."""

_LONGEST_SLEEP = 0.5
_SHORTEST_SLEEP = 0.02
_LOOK_EVERY = 10.0
"""Clock seconds between two looks, if a sleep can be that short."""


class Moment(NamedTuple):
    """What time it is on the service's clock, and how fast that runs; 0 is a manual clock."""

    now: datetime
    speed: float
    clock: str

    @property
    def slack(self) -> float:
        """Clock seconds that do not count as late."""
        return SLACK_SECONDS * self.speed

    def until(self, end: datetime) -> float:
        """Clock seconds left."""
        return (end - self.now).total_seconds()

    def after(self, seconds: float) -> datetime:
        """The time of day that much later."""
        return self.now + timedelta(seconds=seconds)


class ClockDriver:
    """Lets time pass; `moment` is what time it was at the last look."""

    def __init__(self, client: OperatorClient, sleep: Callable[[float], object]) -> None:
        self._client = client
        self._sleep = sleep
        self.look()

    def look(self) -> None:
        """Read the clock."""
        self.moment = _moment(self._client.clock())

    def let_pass(self, seconds: float) -> None:
        """Let at most this much time pass; a clock that runs by itself is read again soon."""
        speed = self.moment.speed
        if speed == 0.0:
            self.moment = _moment(self._client.advance_clock(f"{seconds:.3f}"))
            return
        longest = min(_LONGEST_SLEEP, max(_SHORTEST_SLEEP, _LOOK_EVERY / speed))
        self._sleep(max(_SHORTEST_SLEEP / 2, min(longest, seconds / speed)))
        self.look()


def _moment(clock: Clock) -> Moment:
    return Moment(clock.now, clock.speed, clock.clock)


class Expectation(NamedTuple):
    """An expectation with names and ids in place of roles; None is anything."""

    status: str
    event_id: str | None = None
    wanted: Mapping[str, object] = {}
    hits: str | None = None
    resources: frozenset[str] | None = None
    notice: float | None = None
    total: int | None = None


class Observation(NamedTuple):
    """Whether it is true, which event shows it or may show it later, and what was seen."""

    ok: bool
    event: ScheduledEvent | None
    seen: str


KEYS = {
    "type": "event_type",
    "source": "event_source",
    "not_before": "not_before",
    "description": "description",
    "duration": "duration_in_seconds",
}
"""The name of an option in the document."""


def compare(expected: Expectation, document: Document, now: datetime, slack: float) -> Observation:
    """Compare a document with an expectation; `slack` is how many seconds a fast clock may have lost."""
    events = document.events
    about = [event for event in events if _is_about(expected, event)]
    right_number = expected.total in (None, len(events))
    if expected.status == GONE:
        return Observation(not about and right_number, None, describe(events, now))
    shown = [event for event in about if _shows(expected, event, now, slack)]
    found = next(iter(shown or about), None)
    return Observation(bool(shown) and right_number, found, describe((found,) if shown and found else events, now))


def describe(events: tuple[ScheduledEvent, ...], now: datetime) -> str:
    """Events in a few words."""
    return "; ".join(_words(event, now) for event in events) or "no events"


def next_moment(document: Document, now: datetime) -> float | None:
    """Seconds until the next NotBefore of a document; None when there is none ahead."""
    ahead = [_notice(event, now) for event in document.events if event.not_before]
    return min((seconds for seconds in ahead if seconds > 0), default=None)


def _is_about(expected: Expectation, event: ScheduledEvent) -> bool:
    fixed = {key: value for key, value in expected.wanted.items() if key != "not_before"}
    return (
        expected.event_id in (None, event.event_id)
        and all(getattr(event, KEYS[key]) == value for key, value in fixed.items())
        and (expected.hits is None or expected.hits in event.resources)
        and (expected.resources is None or expected.resources == set(event.resources))
    )


def _shows(expected: Expectation, event: ScheduledEvent, now: datetime, slack: float) -> bool:
    return (
        event.event_status == expected.status
        and expected.wanted.get("not_before", event.not_before) == event.not_before
        and (expected.notice is None or _notice(event, now) >= expected.notice - slack)
    )


def _notice(event: ScheduledEvent, now: datetime) -> float:
    return (parse_time(event.not_before) - now).total_seconds() if event.not_before else 0.0


def _words(event: ScheduledEvent, now: datetime) -> str:
    names = " ".join(event.resources[:5]) + (" …" if len(event.resources) > 5 else "")
    return f"{event.event_type} {event.event_status}{_when(event, now)}: {names}"


def _when(event: ScheduledEvent, now: datetime) -> str:
    if not event.not_before:
        return ""
    moment = parse_time(event.not_before)
    return f", NotBefore {moment:%H:%M:%S}" if moment.date() == now.date() else f", NotBefore {moment:%d %b %H:%M:%S}"


SLICES = 10
"""How often it looks during a span on a manual clock, in addition to each NotBefore."""

Seen = Generator[datetime, None, Observation]
"""Yields until when it waits, again and again; returns what it saw."""


class Missed(Exception):
    """An expectation did not come true; the text says what was expected and what was seen."""


class Watcher:
    """Looks at the document of one VM for one step."""

    def __init__(self, stage: Stage, clock: ClockDriver, step: ScenarioStep, looker: RoleName) -> None:
        self._stage, self._clock, self._step = stage, clock, step
        self._vm = stage.name_of(step.options.get("vm", looker))
        self._expected = _expectation(stage, step)

    def watch(self) -> Seen:
        """Look until it is true, at most for `within`; then check for `for` that it stays true."""
        options = self._step.options
        sight = yield from self._until(options["within"].seconds if "within" in options else 0.0)
        if "for" in options:
            event_id = sight.event.event_id if sight.event else self._expected.event_id
            self._expected = self._expected._replace(event_id=event_id, notice=None)
            sight = yield from self._throughout(options["for"].seconds)
        return sight

    def _until(self, within: float) -> Seen:
        end = self._clock.moment.after(within)
        waiting: ScheduledEvent | None = None
        while True:
            document = self._document()
            sight = self._look(document)
            if sight.ok:
                return sight
            if waiting and sight.event is None and self._went_by(waiting, end):
                return Observation(True, waiting, "it started, and was over before the next look")
            waiting = sight.event or waiting
            left = self._clock.moment.until(end)
            if left <= -self._clock.moment.slack:
                raise self._missed(sight)
            yield end
            self._let_pass(document, max(left, 0.0) or self._clock.moment.slack, within)

    def _throughout(self, span: float) -> Seen:
        end = self._clock.moment.after(span)
        while True:
            document = self._document()
            sight = self._look(document)
            if not sight.ok:
                raise self._missed(sight)
            if (left := self._clock.moment.until(end)) <= 0:
                return sight
            yield end
            self._let_pass(document, left, span)

    def _let_pass(self, document: Document | None, left: float, span: float) -> None:
        """As far as the next interesting moment: a NotBefore, a slice of the span, or its end."""
        ahead = next_moment(document, self._clock.moment.now) if document else None
        self._clock.let_pass(min(left, ahead or left, max(1.0, span / SLICES)))

    def _document(self) -> Document | None:
        """The document as the VM sees it; None when there is no such VM any more."""
        try:
            return self._stage.client.document(self._vm, self._step.options.get("api_version", ""))
        except NotFound:
            return None

    def _look(self, document: Document | None) -> Observation:
        if document is None or self._expected.status == REMOVED:
            place = "gone from" if document is None else "in"
            is_so = document is None and self._expected.status in (GONE, REMOVED)
            return Observation(is_so, None, f"{self._vm} is {place} the fleet")
        moment = self._clock.moment
        return compare(self._expected, document, moment.now, moment.slack)

    def _went_by(self, event: ScheduledEvent, end: datetime) -> bool:
        """Whether an event that was waiting has started in time and is already over, by the service's record."""
        if self._expected.status != "Started":
            return False
        records = self._stage.client.event_history(event.event_id)
        starts = [record.at for record in records if record.action == "event-started"]
        return any((start - end).total_seconds() <= self._clock.moment.slack for start in starts)

    def _missed(self, sight: Observation) -> Missed:
        names = {role: pick.name for role, pick in self._stage.picks.items()}
        what = self._step.tell(names).removeprefix("expect ")
        return Missed(f"Expected {what}; at {self._clock.moment.now:%H:%M:%S} there was: {sight.seen}.")


def _expectation(stage: Stage, step: ScenarioStep) -> Expectation:
    """What a step expects, with names and ids in place of roles."""
    options = step.options
    return Expectation(
        status=step.value,
        event_id=stage.called(options["event"]) if "event" in options else None,
        wanted={key: options[key] for key in KEYS if key in options},
        hits=stage.name_of(options["hits"]) if "hits" in options else None,
        resources=frozenset(map(stage.name_of, options["resources"])) if "resources" in options else None,
        notice=options["notice"].seconds if "notice" in options else None,
        total=options.get("count"),
    )
