"""What is due, found by looking at everything each time: slow, short, and what the quick way is held against."""

from collections.abc import Iterator

from duenotice.clock import Instant
from duenotice.domain import records as t
from duenotice.domain.event import BY_USER, PLANNED, Event, EventType, Phase
from duenotice.domain.plan import OPEN, Maintenance, Status, StepStatus
from duenotice.domain.policy import Policy
from duenotice.domain.rules.due import _step
from duenotice.domain.rules.maintenance import _begun, _stop, closed, lets_begin
from duenotice.domain.rules.timing import notice_is_over
from duenotice.domain.state import State

OVER = frozenset({StepStatus.DONE, StepStatus.FAILED, StepStatus.SKIPPED})


def due_actions(state: State, now: Instant, policy: Policy) -> Iterator[list[t.Transition]]:
    """All that is due, the first of it looked for anew after each."""
    while changes := _next_of_events(state, now, policy) or _next_of_plans(state, now, policy):
        yield changes


def _next_of_events(state: State, now: Instant, policy: Policy) -> list[t.Transition]:
    due = [(moment, event.id) for event in state.events.values() if (moment := _due_at(state, event)) is not None]
    for moment, event_id in sorted(due):
        event = state.events[event_id]
        if moment <= now.steady and not _waits(state, event, now, policy):
            changes = _step(state, event, now, policy)
            if changes:
                return changes
    return []


def _due_at(state: State, event: Event) -> float | None:
    its = event.opening
    if event.phase is Phase.STARTED:
        return event.impact_ends
    if _another_domain_is_hit(state, event):
        return its.closes if its is not None and its.ends is not None else None
    if event.approved_by:
        return -1 if its is None else its.opens
    return event.notice_ends


def _another_domain_is_hit(state: State, event: Event) -> bool:
    """S11."""
    if event.cause not in PLANNED or event.update_domain is None:
        return False
    others = [other for other in state.events.values() if other.scope == event.scope]
    hit = [other for other in others if other.phase is Phase.STARTED and other.cause not in BY_USER]
    return any(other.update_domain != event.update_domain for other in hit)


def _waits(state: State, event: Event, now: Instant, policy: Policy) -> bool:
    """Whether another event of its scope has to come first; not if it has missed its span."""
    if event.phase is Phase.STARTED or (event.opening is not None and event.opening.is_over(now)):
        return False
    if _another_domain_is_hit(state, event):
        return True
    others = [other for other in state.events.values() if other.scope == event.scope]
    if event.type is not EventType.TERMINATE or notice_is_over(event, now) or not policy.deletes_together:
        return False
    deletes = [other for other in others if other.type is EventType.TERMINATE and other.phase is Phase.SCHEDULED]
    return any(not other.approved_by for other in deletes)


def _next_of_plans(state: State, now: Instant, policy: Policy) -> list[t.Transition]:
    for plan in state.maintenances.values():
        changes: list[t.Transition] = [*_ends(state, plan, now)]
        if plan.status in OPEN and not changes:
            changes = _conclusion(state, plan) or closed(state, state.plans[plan.id], now, policy)
            may_begin = not changes and lets_begin(plan, now, policy)
            for number in ready(plan, now.steady) if may_begin else []:
                changes += _begun(state, state.plans[plan.id], number, now, policy)
        if changes:
            return changes
    return []


def _ends(state: State, plan: Maintenance, now: Instant) -> Iterator[t.Transition]:
    for number, step in enumerate(plan.steps):
        if step.status is StepStatus.UNDER_WAY and step.event_id not in state.events:
            status, reason = state.unprocessed_outcomes[step.event_id or ""]
            yield t.StepEnded(plan.id, number, status, now.steady, reason)


def _conclusion(state: State, plan: Maintenance) -> list[t.Transition]:
    failed, allowed = plan.count(StepStatus.FAILED), plan.failures_allowed
    if failed > allowed:
        return _stop(state, state.plans[plan.id], Status.FAILED, f"{failed} failed, {allowed} allowed.")
    return [t.MaintenanceChanged(plan.id, Status.DONE)] if plan.count(*OVER) == len(plan.steps) else []


def ready(plan: Maintenance, now: float) -> list[int]:
    """The steps that may begin now: the first turn of each lane that is not over, once the last has settled."""
    if plan.status is not Status.RUNNING:
        return []
    room = plan.at_once - plan.count(StepStatus.UNDER_WAY) if plan.at_once else len(plan.steps)
    turns: dict[str, int] = {}
    for step in plan.steps:
        if step.status not in OVER:
            turns[step.group] = min(step.domain, turns.get(step.group, step.domain))
    settling = {
        step.group
        for step in plan.steps
        if step.ended is not None
        and step.status is not StepStatus.SKIPPED
        and now < step.ended + plan.settle
        and step.domain < turns.get(step.group, step.domain)
    }
    waiting = [
        number
        for number, step in enumerate(plan.steps)
        if step.status is StepStatus.WAITING and step.domain == turns[step.group] and step.group not in settling
    ]
    return waiting[: max(0, room)]
