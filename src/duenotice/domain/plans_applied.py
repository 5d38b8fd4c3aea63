"""The fold of maintenances: plans that come, go on and are over, and their steps."""

from collections.abc import Callable
from typing import Any

from duenotice.domain import indexes
from duenotice.domain import transitions as t
from duenotice.domain.maintenance import Status
from duenotice.domain.progress import Progress, with_window
from duenotice.domain.state import State
from duenotice.errors import InvariantBroken

MAINTENANCES_KEPT = 100
"""How many finished maintenances stay in memory; the journal has them all."""

STEPS_KEPT = 1000
"""Of a finished maintenance with more steps only the tally stays, unless it is the last of these that has finished."""

_REPORT = "Please report this."


def _maintenance_started(state: State, change: t.MaintenanceStarted) -> None:
    if change.maintenance.id in state.plans:
        raise InvariantBroken(f"There is already a maintenance {change.maintenance.id}.", hint=_REPORT)
    indexes.plan_came(state, change.maintenance)
    over = [plan_id for plan_id, progress in state.plans.items() if not progress.is_open]
    for plan_id in over[: max(0, len(over) - MAINTENANCES_KEPT)]:
        indexes.plan_forgotten(state, state.plans.pop(plan_id))


def _maintenance_changed(state: State, change: t.MaintenanceChanged) -> None:
    progress = _plan(state, change.maintenance_id)
    progress.turn(change.status, change.reason, state.at, change.window)
    if not progress.is_open:
        # To the end, so that the first to be over is the first to be forgotten.
        state.plans[change.maintenance_id] = state.plans.pop(change.maintenance_id)
        indexes.plan_over(state, progress)
        _let_go_of_steps(state, progress)


def _maintenance_retried(state: State, change: t.MaintenanceRetried) -> None:
    progress = _plan(state, change.maintenance_id)
    for step in (progress.steps[number] for number in change.steps):
        state.failures.dealt_with(step.event_id or "")
    plan = progress.put_back(change.steps, status=Status.RUNNING, reason="", over_at=None)
    plan = with_window(plan, change.window)
    if progress.is_open:
        state.plans[plan.id] = Progress(plan)
    else:
        indexes.plan_came(state, plan)


def _window_closed(state: State, change: t.WindowClosed) -> None:
    progress = _plan(state, change.maintenance_id)
    if not change.steps:
        progress.move_to(change.span)
        return
    plan = progress.put_back(change.steps, span=change.span)
    for step in (progress.steps[number] for number in change.steps):
        state.under_way.pop(step.event_id or "", None)
        state.outcomes.pop(step.event_id or "", None)
    state.plans[plan.id] = Progress(plan)


def _step_begun(state: State, change: t.StepBegun) -> None:
    _plan(state, change.maintenance_id).begin(change.step, change.event_id, change.reason)
    state.under_way[change.event_id] = (change.maintenance_id, change.step)


def _step_ended(state: State, change: t.StepEnded) -> None:
    progress = _plan(state, change.maintenance_id)
    progress.end(change.step, change.status, change.ended, change.reason)
    indexes.step_over(state, progress, progress.steps[change.step])
    if not progress.is_open and not progress.under_way:
        _let_go_of_steps(state, progress)


def _let_go_of_steps(state: State, ended: Progress) -> None:
    """Keep only the tallies of large plans that are over, but for the last: that one is looked at, and tried again.

    It is found when a large plan ends, so that looking at all plans costs no more than its steps did.
    """
    if len(ended.steps) <= STEPS_KEPT:
        return
    large = [plan for plan in state.plans.values() if not plan.is_open and len(plan.steps) > STEPS_KEPT]
    for progress in large[:-1]:
        if not progress.under_way:
            state.plans[progress.plan.id] = Progress(progress.summary())


def _plan(state: State, plan_id: str) -> Progress:
    progress = state.plans.get(plan_id)
    if progress is None:
        raise InvariantBroken(f"There is no maintenance {plan_id}.", hint=_REPORT)
    return progress


APPLIERS: dict[type, Callable[[State, Any], None]] = {
    t.MaintenanceStarted: _maintenance_started,
    t.MaintenanceChanged: _maintenance_changed,
    t.MaintenanceRetried: _maintenance_retried,
    t.WindowClosed: _window_closed,
    t.StepBegun: _step_begun,
    t.StepEnded: _step_ended,
}
