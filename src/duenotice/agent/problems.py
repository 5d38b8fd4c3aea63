"""What is wrong, in words: for the log, `agent status`, `/status` and the metrics, so that all say the same (S32)."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import NamedTuple

from duenotice.agent.log import log
from duenotice.agent.planner import World, has_held_enough
from duenotice.agent.state import TrackedEvent
from duenotice.clock import later, monotonic
from duenotice.escape import one_line
from duenotice.system import sd_notify

RECENT = timedelta(hours=1)
"""How long something that is over is still shown: somebody who is woken by an alert looks later."""

SAME_AGAIN = 60.0

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
