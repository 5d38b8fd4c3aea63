"""What is wrong, in words: for the log, `agent status`, `/status` and the metrics, so that all say the same (S32)."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from duenotice.agent.log import log
from duenotice.agent.planner import World, has_held_enough
from duenotice.agent.state import TrackedEvent
from duenotice.clock import later, monotonic
from duenotice.escape import one_line
from duenotice.system import sd_notify
from duenotice.wire.spans import span

if TYPE_CHECKING:
    from duenotice.agent.runtime import Agent

RECENT = timedelta(hours=1)
"""How long something that is over is still shown: somebody who is woken by an alert looks later."""

SAME_AGAIN = 60.0

CLOCK_OFF = 5.0
"""Seconds by which our clock may differ from the service's; the notice left is wrong by as much."""

KINDS = {
    "unprepared": "an event for which not all was prepared",
    "failed": "a handler that has failed to prepare, or does not know whether all is still prepared",
    "stuck": "a handler that cannot put back",
    "disk": "the ledger cannot be written",
    "ledger": "the ledger was gone or changed, and was written again",
    "name": "this VM's name is not known, or another one than in agent.toml",
    "polls": "no document could be read",
    "clock": "this machine's clock differs from the service's",
    "port": "a port of the agent is taken",
    "file": "a file in the state directory cannot be used",
}
"""Each kind of problem, with what it means; it is the label `kind` of a metric (S24)."""


class Problem(NamedTuple):
    """One thing that is wrong: its kind, a sentence, and what to do."""

    kind: str
    what: str
    hint: str
    event_id: str = ""
    handler: str = ""


def find_problems(agent: "Agent") -> Iterator[Problem]:
    """All that is wrong with the running agent now, or was a short while ago (S32); its ports know theirs."""
    world, recorder, config = agent.world(), agent.recorder, agent.config
    events, unrecorded = agent.shown()
    yield from event_problems(events.values(), world)
    for (event_id, handler), why in agent.failed_looks.items():
        event, spec = recorder.events.get(event_id), config.specs.get(handler)
        if event is None or event.recovering or spec is None or not spec.looks:
            continue
        if event.runs[handler].state == "prepared":
            what = f"{event.seen.type} {event_id[:8]}: whether {handler} is still prepared is not known: {why}"
            yield Problem("failed", what, "Look at what it asks; it is asked again.", event_id, handler)
    if recorder.failure:
        names = [f"{events[each].seen.type} {each[:8]}" for each in sorted(unrecorded)]
        missing = f" Nothing is done about {', '.join(names)}." if names else ""
        what = f"Nothing can be recorded.{missing} {recorder.failure}"
        yield Problem("disk", what, "Look at the disk: df, dmesg.")
    elif shortage := recorder.shortage:
        what = f"An event could not be recorded, so nothing would be done about it. {shortage}"
        yield Problem("disk", what, "Make room for the agent's ledger: df, dmesg.")
    if recorder.lost_at is not None and world.now < later(recorder.lost_at, RECENT):
        at = recorder.lost_at.isoformat(timespec="seconds")
        hint = "Find out who moves, removes or changes files in the state directory."
        yield Problem("ledger", f"The ledger was gone or changed at {at}; it was written again.", hint)
    if lost := sorted(agent.unfinished - config.handlers.keys()):
        what = f"{', '.join(lost)} must put something back, and is not in agent.toml."
        yield Problem("stuck", what, "Add it again, and reload the agent.")
    yield from (each for each in (agent.name.problem(), agent.drill_problem) if each is not None)
    hint = "Look at the agent's log. Ask from this VM: duenotice agent check --online."
    if not agent.is_polling:
        yield Problem("polls", "No poll was made for more than a minute: it would not learn of events.", hint)
    elif not agent.is_reading:
        what = "No document was read for more than a minute: it would not learn of events."
        yield Problem("polls", f"{what} {agent.poll_failure}", hint)
    ahead = agent.client.service_ahead
    if ahead is not None and abs(ahead) > CLOCK_OFF:
        how = "behind" if ahead > 0 else "ahead of"
        what = f"This machine's clock is {span(ahead)} {how} the service, so the notice left is wrong by as much."
        yield Problem("clock", what, "Use NTP to keep it correct.")


def event_problems(events: Iterable[TrackedEvent], world: World) -> Iterator[Problem]:
    """What is wrong with events, by the ledger alone: also when no agent runs."""
    for event in events:
        if not event.drill:
            yield from _event_problems(event, world)


def _event_problems(event: TrackedEvent, world: World) -> Iterator[Problem]:
    event_id = event.seen.event_id
    short = event_id[:8]
    name = f"{event.seen.type} {short}"
    if event.unprepared_at is not None and (not event.is_closed or world.now < later(event.unprepared_at, RECENT)):
        what = f"{name}: not all was prepared: {event.unprepared}"
        yield Problem("unprepared", what, "duenotice agent events says what each handler did.", event_id)
    for handler, run in event.runs.items():
        reason = run.reason.rstrip(".")
        if event.recovering and run.is_stuck:
            what = f"{name}: {handler} cannot put back: {reason}."
            if handler in world.handlers and has_held_enough(run, world.handlers[handler], world):
                what += " The others have not waited for it any longer."
            hint = f"Repair it; it is tried again. Or: duenotice agent retry|skip {short} {handler}"
            yield Problem("stuck", what, hint, event_id, handler)
        elif not event.recovering and run.has_failed:
            hint = f"While notice is left: duenotice agent retry|skip {short} {handler}"
            yield Problem("failed", f"{name}: {handler} has failed: {reason}.", hint, event_id, handler)


def kinds_of(problems: Iterable[Problem]) -> set[str]:
    """Which kinds of them there are."""
    return {problem.kind for problem in problems}


class ProblemLog:
    """What was logged: each problem when it begins, when its words change, and when it is over."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, ...], tuple[Problem, float]] = {}

    def say(self, problems: Iterable[Problem]) -> None:
        """Log what is new, and tell systemd; words that change all the time are logged once a minute."""
        now = {(each.kind, each.event_id, each.handler): each for each in problems}
        for key, problem in now.items():
            said = self._said.get(key)
            if said is None or (said[0] != problem and monotonic() >= said[1] + SAME_AGAIN):
                self._said[key] = problem, monotonic()
                log("problem", "error", **{name: value for name, value in problem._asdict().items() if value})
        over = [self._said.pop(key)[0] for key in self._said.keys() - now.keys()]
        for problem in over:
            log("problem-over", kind=problem.kind, what=problem.what)
        if over or now:
            sd_notify(f"STATUS={one_line(next(iter(now.values())).what) if now else 'Nothing is wrong.'}")
