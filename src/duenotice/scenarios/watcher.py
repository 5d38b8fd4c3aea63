"""Waits until a VM's document shows what a step expects, and checks that it stays so."""

from collections.abc import Generator
from datetime import datetime

from duenotice.errors import NotFound
from duenotice.scenarios.acts import Stage
from duenotice.scenarios.kinds import RoleName
from duenotice.scenarios.pace import Pace
from duenotice.scenarios.scenario import ScenarioStep
from duenotice.scenarios.sights import KEYS, Expectation, Observation, look, next_moment
from duenotice.scenarios.verbs import GONE, REMOVED
from duenotice.wire.operator import Document, ScheduledEvent

SLICES = 10
"""How often it looks during a span on a manual clock, in addition to each NotBefore."""

Seen = Generator[datetime, None, Observation]
"""Yields until when it waits, again and again; returns what it saw."""


class Missed(Exception):
    """An expectation did not come true; the text says what was expected and what was seen."""


class Watcher:
    """Looks at the document of one VM for one step."""

    def __init__(self, stage: Stage, pace: Pace, step: ScenarioStep, looker: RoleName) -> None:
        self._stage, self._pace, self._step = stage, pace, step
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
        end = self._pace.moment.after(within)
        waiting: ScheduledEvent | None = None
        while True:
            document = self._document()
            sight = self._look(document)
            if sight.ok:
                return sight
            if waiting and sight.event is None and self._went_by(waiting, end):
                return Observation(True, waiting, "it started, and was over before the next look")
            waiting = sight.event or waiting
            left = self._pace.moment.until(end)
            if left <= -self._pace.moment.slack:
                raise self._missed(sight)
            yield end
            self._let_pass(document, max(left, 0.0) or self._pace.moment.slack, within)

    def _throughout(self, span: float) -> Seen:
        end = self._pace.moment.after(span)
        while True:
            document = self._document()
            sight = self._look(document)
            if not sight.ok:
                raise self._missed(sight)
            if (left := self._pace.moment.until(end)) <= 0:
                return sight
            yield end
            self._let_pass(document, left, span)

    def _let_pass(self, document: Document | None, left: float, span: float) -> None:
        """As far as the next interesting moment: a NotBefore, a slice of the span, or its end."""
        ahead = next_moment(document, self._pace.moment.now) if document else None
        self._pace.let_pass(min(left, ahead or left, max(1.0, span / SLICES)))

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
        moment = self._pace.moment
        return look(self._expected, document, moment.now, moment.slack)

    def _went_by(self, event: ScheduledEvent, end: datetime) -> bool:
        """Whether an event that was waiting has started in time and is already over, by the service's record."""
        if self._expected.status != "Started":
            return False
        records = self._stage.client.event_history(event.event_id)
        starts = [record.at for record in records if record.action == "event-started"]
        return any((start - end).total_seconds() <= self._pace.moment.slack for start in starts)

    def _missed(self, sight: Observation) -> Missed:
        names = {role: pick.name for role, pick in self._stage.picks.items()}
        what = self._step.tell(names).removeprefix("expect ")
        return Missed(f"Expected {what}; at {self._pace.moment.now:%H:%M:%S} there was: {sight.seen}.")


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
