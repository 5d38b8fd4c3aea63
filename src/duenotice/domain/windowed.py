"""How a plan keeps to its window: when its steps may begin, and what happens at the end of a span (decision 0014)."""

from datetime import datetime

from duenotice.clock import Instant
from duenotice.domain import transitions as t
from duenotice.domain.event import Event, Phase
from duenotice.domain.maintenance import Maintenance, Status
from duenotice.domain.notice import earliest, minimum_notice
from duenotice.domain.policy import Policy
from duenotice.domain.progress import Progress
from duenotice.domain.state import State
from duenotice.domain.window import announced_from, next_of

WINDOW_ENDED = "Its window has ended."
NEW_WINDOW = "The maintenance has a new window."


def lets_begin(plan: Maintenance, now: Instant, policy: Policy) -> bool:
    """Whether VMs may be told of a step now: it would hit inside the present span, if nobody approved it."""
    span, notice = plan.present_span, minimum_notice(plan.type, None)
    if span is None:
        return plan.window is None
    if now.at < announced_from(span, notice):
        return False
    hits = max(span.begins, earliest(now, notice + policy.commit_allowance))
    return not span.is_over(hits)


def waits_until(plan: Maintenance, at: datetime) -> datetime | None:
    """The begin of the span that a running plan waits for; None when it waits for no window."""
    span = plan.present_span
    if span is None or plan.status is not Status.RUNNING or at >= span.begins:
        return None
    return span.begins


def is_due(progress: Progress, now: Instant, policy: Policy) -> bool:
    """Whether the time of day lets something happen by itself: a span has ended, or steps may begin in it."""
    span = progress.plan.present_span
    if span is None or not progress.is_open:
        return False
    return span.is_over(now.at) or (progress.has_ready(now.steady) and lets_begin(progress.plan, now, policy))


def next_moment(progress: Progress, at: datetime) -> datetime | None:
    """When the window next matters, later than this time of day."""
    span = progress.plan.present_span
    if span is None or not progress.is_open:
        return None
    moments = (announced_from(span, minimum_notice(progress.plan.type, None)), span.ends)
    return min((moment for moment in moments if moment is not None and moment > at), default=None)


def closed(state: State, progress: Progress, now: Instant) -> list[t.Transition]:
    """At the end of a span nothing new may start: what is only scheduled is taken back, and waits for the next span.

    After the last span the plan pauses, unless all that is left is under way.
    """
    plan, span = progress.plan, progress.plan.present_span
    if plan.window is None or span is None or not span.is_over(now.at):
        return []
    following = next_of(plan.window, plan.span, now.at)
    late = _late(state, progress)
    changes = _taken_back(progress, late, following, WINDOW_ENDED)
    if following == len(plan.window.spans) and (progress.waiting or late):
        changes.append(t.MaintenanceChanged(plan.id, Status.PAUSED, WINDOW_ENDED))
    return changes


def moved(state: State, progress: Progress) -> list[t.Transition]:
    """The plan gets a new window: what is only scheduled would hit outside of it, so it is taken back and waits."""
    late = _late(state, progress)
    return _taken_back(progress, late, progress.plan.span, NEW_WINDOW) if late else []


def _taken_back(progress: Progress, late: dict[int, Event], following: int, reason: str) -> list[t.Transition]:
    cancelled = [t.EventCancelled(event.id, event.scope, reason) for event in late.values()]
    return [*cancelled, t.WindowClosed(progress.plan.id, following, tuple(late))]


def _late(state: State, progress: Progress) -> dict[int, Event]:
    """The events that have not started, by their steps."""
    return {number: event for number, event in _raised(state, progress) if event.phase is Phase.SCHEDULED}


def _raised(state: State, progress: Progress) -> list[tuple[int, Event]]:
    known = ((number, state.events.get(step.event_id or "")) for number, step in progress.being_hit())
    return [(number, event) for number, event in known if event is not None]
