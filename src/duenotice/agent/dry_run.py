"""`--dry-run`: what the agent would do about an event, from now to its end, if all goes well. Pure."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from duenotice.agent.planner import (
    Approve,
    AskPeers,
    LookAgain,
    PeerNews,
    PlanView,
    Prepare,
    Recover,
    Step,
    Wait,
    is_ready,
    plan,
    rule_for,
)
from duenotice.agent.state import Case, Cases, LedgerRecord, What, apply


class Foreseen(NamedTuple):
    """One step that would be taken: its name, and its details."""

    step: str
    details: Mapping[str, Any] = MappingProxyType({})


def foresee(case: Case, view: PlanView) -> Iterator[Foreseen]:
    """Every step, recovery too. Other events are left out: each is shown by itself."""
    event_id = case.event.event_id
    cases: Cases = {event_id: case}
    if not case.returning and rule_for(view.rules, case.event) is None:
        yield Foreseen("leave-alone", {"reason": "no rule matches this event"})
        return
    asked: set[Step] = set()
    while not cases[event_id].is_closed:
        step = next((step for step in plan(cases, view) if step not in asked), None)
        if step is not None:
            asked.add(step)
            yield _foreseen(step)
            view = _after(step, cases, view)
        elif cases[event_id].returning:  # a handler is missing that could put its work back
            return
        else:
            yield from _unapproved(cases[event_id], view)
            _note(cases, "returning", event_id, view, reason="gone")


def _foreseen(step: Step) -> Foreseen:
    match step:
        case Wait(until=until):
            return Foreseen("wait", {"until": until.isoformat(timespec="seconds")})
        case Prepare(handler=handler, seconds=seconds):
            return Foreseen("prepare", {"handler": handler, "seconds": round(seconds)})
        case LookAgain(handler=handler):
            return Foreseen("look-again", {"handler": handler})
        case AskPeers(ready=ready, in_service=in_service):
            return Foreseen("ask-peers", {"ready": ready, "in_service": in_service})
        case Approve():
            return Foreseen("approve")
        case Recover(handler=handler):
            return Foreseen("recover", {"handler": handler})


def _after(step: Step, cases: Cases, view: PlanView) -> PlanView:
    """The world after a step that went well."""
    match step:
        case Wait(until=until):
            return view._replace(now=until)
        case AskPeers(event_id, ready, in_service):
            news = PeerNews(cases[event_id].content, frozenset(ready), frozenset(in_service))
            return view._replace(news={**view.news, event_id: news})
        case Prepare(event_id, handler):
            _note(cases, "preparing", event_id, view, handler)
            _note(cases, "prepared", event_id, view, handler)
        case Approve(event_id):
            _note(cases, "approved", event_id, view)
        case Recover(event_id, handler):
            _note(cases, "recovered", event_id, view, handler)
    return view


def _note(cases: Cases, what: What, event_id: str, view: PlanView, handler: str = "", reason: str = "") -> None:
    content = cases[event_id].content
    apply(cases, LedgerRecord(what, event_id, view.now, view.boot, handler, content, reason))


def _unapproved(case: Case, view: PlanView) -> Iterator[Foreseen]:
    """Why it would start without our approval; empty when we would have approved it."""
    if case.approved != case.content:
        yield Foreseen("let-notice-run-out", {"reason": _why_not(case, view)})


def _why_not(case: Case, view: PlanView) -> str:
    if case.event.started:
        return "it has started"
    if case.event.is_advice:
        return "advice is never approved: it is not a deadline"
    if case.drill:
        return "a drill is never approved"
    if view.approval.policy == "never":
        return "the policy is never"
    if case.event.leader != view.me:
        return f"{case.event.leader} is the first of Resources and approves"
    if not is_ready(case, view):
        return "the work for it failed, or there is no time left for it"
    return "too few of the group would stay in service"
