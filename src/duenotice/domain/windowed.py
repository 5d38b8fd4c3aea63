"""How a plan keeps to its window: when its steps may begin, and what happens at the end of a span (decision 0014)."""

from collections.abc import Callable
from datetime import datetime

from duenotice.clock import Instant, micros_of
from duenotice.domain import transitions as t
from duenotice.domain.event import Event, Phase
from duenotice.domain.maintenance import Maintenance, Status, StepStatus, Tally
from duenotice.domain.notice import can_be_given, earliest, minimum_notice
from duenotice.domain.policy import Policy
from duenotice.domain.progress import Progress
from duenotice.domain.state import State
from duenotice.domain.window import Opening, WindowSpan, announced_from, next_of

WINDOW_ENDED = "Its window has ended."
NEW_WINDOW = "The maintenance has a new window."
CLOCK_SET_BACK = "The clock was set back: the maintenance has an earlier window."
NOT_SURE_YET = "By the time of day its window has ended. It is paused when the steady clock says so too."


def lets_begin(plan: Maintenance, now: Instant, policy: Policy) -> bool:
    """Whether VMs may be told of a step now: it would hit inside the present span, if nobody approved it."""
    span, notice = plan.present_span, minimum_notice(plan.type, None)
    if not can_be_given(now):
        return False
    if span is None:
        return plan.window is None
    return now.at >= announced_from(span, notice) and _fits(span, notice, now, policy)


def _fits(span: WindowSpan, notice: int, now: Instant, policy: Policy) -> bool:
    """Whether what VMs are told of now, or later, can hit in this span."""
    return not span.is_over(max(span.begins, earliest(now, notice + policy.commit_allowance)))


def waits_until(plan: Maintenance, at: datetime) -> datetime | None:
    """The begin of the span that a running plan waits for; None when it waits for no window."""
    span = plan.present_span
    if span is None or plan.status is not Status.RUNNING or at >= span.begins:
        return None
    return span.begins


def reason_of(plan: Maintenance, tally: Tally) -> str:
    """Why it stands as it does. If steps wait while it is in none of its spans, the pause is not sure yet (S34).

    Of a plan that has failed, steps that were under way may fail after it.
    """
    if plan.status is Status.FAILED:
        return too_many_failed(tally.count(StepStatus.FAILED), plan.failures_allowed)
    waits = plan.status is Status.RUNNING and plan.is_out_of_window and tally.count(StepStatus.WAITING)
    return NOT_SURE_YET if waits else plan.reason


def too_many_failed(failed: int, allowed: int) -> str:
    """Why a plan has failed."""
    return f"{failed} failed, {allowed} allowed."


def is_due(progress: Progress, now: Instant, policy: Policy) -> bool:
    """Whether the time of day lets something happen by itself: a span has ended, or steps may begin in it."""
    plan = progress.plan
    if plan.window is None or not progress.is_open:
        return False
    return (
        next_of(plan.window, now.at) != plan.span
        or _pauses(progress, now)
        or (progress.has_ready(now.steady) and lets_begin(plan, now, policy))
    )


def next_moment(progress: Progress, now: Instant) -> int | None:
    """When the window next matters, later than now, in steady time on an undisturbed clock."""
    plan, span = progress.plan, progress.plan.present_span
    if plan.window is None or not progress.is_open:
        return None
    moments = [] if span is None else [announced_from(span, minimum_notice(plan.type, None)), span.ends]
    steady = [now.steady + micros_of(moment - now.at) for moment in moments if moment is not None]
    return min((moment for moment in (*steady, plan.window.closes) if moment > now.steady), default=None)


def closed(state: State, progress: Progress, now: Instant, policy: Policy) -> list[t.Transition]:
    """A plan is in the span that the time of day says, also when somebody sets it back.

    So no clock that is wrong for a moment makes it miss one. After the last span it pauses, unless all that is left is
    under way; for that both faces of time have to say so, as nothing takes it back (S34).
    """
    plan = progress.plan
    if plan.window is None:
        return []
    present = next_of(plan.window, now.at)
    if present < plan.span:
        span = plan.window.spans[present]
        is_of_use = _fits(span, minimum_notice(plan.type, None), now, policy)
        early = _scheduled(state, progress, lambda its: is_of_use and its is not None and its.begins > span.begins)
        return _taken_back(progress, early, present, CLOCK_SET_BACK)
    if present > plan.span:
        return [t.WindowClosed(plan.id, present)]
    return [t.MaintenanceChanged(plan.id, Status.PAUSED, WINDOW_ENDED)] if _pauses(progress, now) else []


def _pauses(progress: Progress, now: Instant) -> bool:
    plan = progress.plan
    is_told = plan.status is Status.PAUSED and plan.reason == WINDOW_ENDED
    return bool(progress.waiting) and not is_told and plan.window is not None and plan.window.is_over(now)


def missed(state: State, event: Event, now: Instant) -> list[t.Transition]:
    """An event has missed its span: what its plan has only scheduled and has missed it is taken back, and waits."""
    under_way = state.under_way.get(event.id)
    if under_way is None:
        return [t.EventCancelled(event.id, event.scope, WINDOW_ENDED)]
    progress = state.plans[under_way[0]]
    assert progress.plan.window is not None
    present = max(progress.plan.span, next_of(progress.plan.window, now.at))
    late = _scheduled(state, progress, lambda its: its is not None and its.is_over(now))
    return _taken_back(progress, late, present, WINDOW_ENDED)


def moved(state: State, progress: Progress) -> list[t.Transition]:
    """The plan gets a new window: what is only scheduled would hit outside of it, so it is taken back and waits."""
    scheduled = _scheduled(state, progress, lambda _: True)
    return _taken_back(progress, scheduled, progress.plan.span, NEW_WINDOW) if scheduled else []


def _taken_back(progress: Progress, events: dict[int, Event], present: int, reason: str) -> list[t.Transition]:
    cancelled = [t.EventCancelled(event.id, event.scope, reason) for event in events.values()]
    return [*cancelled, t.WindowClosed(progress.plan.id, present, tuple(events))]


def _scheduled(state: State, progress: Progress, wanted: Callable[[Opening | None], bool]) -> dict[int, Event]:
    """The events of the plan that have not started and whose span is wanted, by their steps."""
    known = ((number, state.events.get(step.event_id or "")) for number, step in progress.being_hit())
    return {
        number: event
        for number, event in known
        if event is not None and event.phase is Phase.SCHEDULED and wanted(event.opening)
    }
