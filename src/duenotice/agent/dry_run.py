"""`--dry-run`: what the agent would do about an event, from now to its end, if all goes well. Pure."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from duenotice.agent.planner import (
    Approve,
    AskPeers,
    LookAgain,
    PeerAnswers,
    Prepare,
    Recover,
    Step,
    Wait,
    World,
    is_ready,
    match_rule,
    next_steps,
)
from duenotice.agent.state import Events, LedgerRecord, RecordKind, TrackedEvent, apply


class PredictedStep(NamedTuple):
    """One step that would be taken: its name, and its details."""

    step: str
    details: Mapping[str, Any] = MappingProxyType({})


def predict(event: TrackedEvent, world: World) -> Iterator[PredictedStep]:
    """Every step, recovery too. Other events are left out: each is shown by itself."""
    event_id = event.seen.event_id
    events: Events = {event_id: event}
    if not event.recovering and match_rule(world.rules, event.seen) is None:
        yield PredictedStep("leave-alone", {"reason": "no rule matches this event"})
        return
    asked: set[Step] = set()
    while not events[event_id].is_closed:
        step = next((step for step in next_steps(events, world) if step not in asked), None)
        if step is not None:
            asked.add(step)
            yield _shown(step)
            world = _after(step, events, world)
        elif events[event_id].recovering:  # a handler is missing that could put its work back
            return
        else:
            yield from _unapproved(events[event_id], world)
            _note(events, "returning", event_id, world, reason="gone")


def _shown(step: Step) -> PredictedStep:
    match step:
        case Wait(until=until):
            return PredictedStep("wait", {"until": until.isoformat(timespec="seconds")})
        case Prepare(handler=handler, seconds=seconds):
            return PredictedStep("prepare", {"handler": handler, "seconds": round(seconds)})
        case LookAgain(handler=handler):
            return PredictedStep("look-again", {"handler": handler})
        case AskPeers(ready=ready, in_service=in_service):
            return PredictedStep("ask-peers", {"ready": ready, "in_service": in_service})
        case Approve():
            return PredictedStep("approve")
        case Recover(handler=handler):
            return PredictedStep("recover", {"handler": handler})


def _after(step: Step, events: Events, world: World) -> World:
    """The world after a step that went well."""
    match step:
        case Wait(until=until):
            return world._replace(now=until)
        case AskPeers(event_id, ready, in_service):
            answers = PeerAnswers(events[event_id].revision, frozenset(ready), frozenset(in_service))
            return world._replace(peer_answers={**world.peer_answers, event_id: answers})
        case Prepare(event_id, handler):
            _note(events, "preparing", event_id, world, handler)
            _note(events, "prepared", event_id, world, handler)
        case Approve(event_id):
            _note(events, "approved", event_id, world)
        case Recover(event_id, handler):
            _note(events, "recovered", event_id, world, handler)
    return world


def _note(events: Events, kind: RecordKind, event_id: str, world: World, handler: str = "", reason: str = "") -> None:
    revision = events[event_id].revision
    apply(events, LedgerRecord(kind, event_id, world.now, world.boot, handler, revision, reason))


def _unapproved(event: TrackedEvent, world: World) -> Iterator[PredictedStep]:
    """Why it would start without our approval; empty when we would have approved it."""
    if event.approved != event.revision:
        yield PredictedStep("let-notice-run-out", {"reason": _why_not(event, world)})


def _why_not(event: TrackedEvent, world: World) -> str:
    if event.seen.started:
        return "it has started"
    if event.seen.is_advice:
        return "advice is never approved: it is not a deadline"
    if event.drill:
        return "a drill is never approved"
    if world.approval.policy == "never":
        return "the policy is never"
    if event.seen.leader != world.me:
        return f"{event.seen.leader} is the first of Resources and approves"
    if not is_ready(event, world):
        return "the work for it failed, or there is no time left for it"
    return "too few of the group would stay in service"
