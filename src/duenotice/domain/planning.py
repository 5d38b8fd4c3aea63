"""The rules of maintenances: begin, pause, resume, cancel, and which step is next (G01, S11)."""

from uuid import UUID, uuid5

from duenotice.clock import MICROS, Instant
from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.event import Cause, EventType, Phase
from duenotice.domain.fleet import Vm
from duenotice.domain.maintenance import OPEN, OVER, Maintenance, Status, Step, StepStatus, cut, ready
from duenotice.domain.policy import Policy
from duenotice.domain.raising import check_description, find_vm, planned_event
from duenotice.domain.scope import scope_of
from duenotice.domain.state import State
from duenotice.errors import Conflict, NotFound, Refused

TYPES = frozenset({EventType.FREEZE, EventType.REBOOT, EventType.REDEPLOY})
CAUSES = frozenset({Cause.MAINTENANCE, Cause.LIVE_MIGRATION})
LONGEST_SETTLE = 7 * 24 * 3600 * MICROS

_UNKNOWN = (StepStatus.SKIPPED, "What became of its event is not known.")


def begin(state: State, command: c.StartMaintenance, now: Instant, policy: Policy) -> list[t.Transition]:
    """Cut the VMs into steps; their sets are this plan's until it is over."""
    if command.type not in TYPES:
        raise Refused("A maintenance is a Freeze, a Reboot or a Redeploy.", hint="Evict or delete VMs one by one.")
    if command.cause not in CAUSES:
        raise Refused("A maintenance is host maintenance or live migration.", hint="Leave the cause out.")
    if not 0 <= command.settle <= LONGEST_SETTLE or command.at_once < 0 or command.failures_allowed < 0:
        raise Refused("settle, at_once and failures cannot be negative, settle at most 7 days.", hint="Mend them.")
    check_description(command.description or "")
    if not command.vms:
        raise Refused("No VM is chosen.", hint="Choose a set, a scale set, a host or a VM that is in the fleet.")
    steps = cut(find_vm(state, name) for name in dict.fromkeys(command.vms))
    _refuse_held_sets(state, {step.lane for step in steps})
    plan = Maintenance(
        id=_fresh(state, command.maintenance_id),
        type=command.type,
        cause=command.cause,
        steps=steps,
        description=command.description,
        settle=command.settle,
        at_once=command.at_once,
        failures_allowed=command.failures_allowed,
    )
    return [t.MaintenanceStarted(plan)]


def pause(state: State, command: c.PauseMaintenance, now: Instant, policy: Policy) -> list[t.Transition]:
    """Begin no further step."""
    return _turned(state, command.maintenance_id, Status.RUNNING, Status.PAUSED)


def resume(state: State, command: c.ResumeMaintenance, now: Instant, policy: Policy) -> list[t.Transition]:
    """Go on."""
    return _turned(state, command.maintenance_id, Status.PAUSED, Status.RUNNING)


def cancel_all(state: State, command: c.CancelMaintenance, now: Instant, policy: Policy) -> list[t.Transition]:
    """Take back what is only scheduled; what has started runs to its end."""
    plan = find(state, command.maintenance_id)
    if plan.status not in OPEN:
        raise Conflict(f"The maintenance is {plan.status.value} already.", hint="Nothing is left to cancel.")
    return _stop(state, plan, Status.CANCELLED, "")


def go_on(state: State, now: Instant, policy: Policy) -> list[t.Transition]:
    """What is due of all plans: ends noticed, plans closed, next steps begun; ask again after applying it."""
    for plan in state.maintenances.values():
        changes: list[t.Transition] = []
        if plan.status in OPEN:
            changes = _ends(state, plan, now) or _conclusion(state, plan) or _begun(state, plan, now, policy)
        elif state.outcomes:  # of what was under way when it was stopped; else its steps need no look
            changes = _ends(state, plan, now)
        if changes:
            return changes
    return []


def find(state: State, maintenance_id: str) -> Maintenance:
    """A plan by its id."""
    plan = state.maintenances.get(maintenance_id)
    if plan is None:
        raise NotFound(f"There is no maintenance {maintenance_id}.", hint="List the maintenances for their ids.")
    return plan


def _fresh(state: State, maintenance_id: str) -> str:
    try:
        UUID(maintenance_id)
    except ValueError:
        raise Refused(f"{maintenance_id!r} is not an id.", hint="Use a new UUID for every maintenance.") from None
    used = (event.maintenance for event in state.events.values())
    if maintenance_id in state.maintenances or maintenance_id in used:
        raise Conflict(f"There is already a maintenance {maintenance_id}.", hint="Use a new id.")
    return maintenance_id


def _refuse_held_sets(state: State, lanes: set[str]) -> None:
    for plan in state.maintenances.values():
        held = lanes & {step.lane for step in plan.steps if plan.status in OPEN or _still_hit(state, step)}
        if held:
            raise Conflict(
                f"{min(held)} is under maintenance {plan.id} already.", hint="Wait until it is over, or cancel it."
            )


def _still_hit(state: State, step: Step) -> bool:
    """Whether a step of a plan that was stopped is running to its end."""
    event = state.events.get(step.event_id or "")
    return event is not None and any(name in state.fleet.vms for name in event.resources)


def _turned(state: State, maintenance_id: str, before: Status, after: Status) -> list[t.Transition]:
    plan = find(state, maintenance_id)
    if plan.status is not before:
        raise Conflict(f"The maintenance is {plan.status.value}, not {before.value}.", hint="Look at its state first.")
    return [t.MaintenanceChanged(plan.id, after)]


def _ends(state: State, plan: Maintenance, now: Instant) -> list[t.Transition]:
    """Steps whose event is gone are over; an event that would wait for VMs that all vanished is ended."""
    changes: list[t.Transition] = []
    for number, step in enumerate(plan.steps):
        if step.status is StepStatus.UNDER_WAY:
            changes += _end_of(state, plan, number, step, now)
    return changes


def _end_of(state: State, plan: Maintenance, number: int, step: Step, now: Instant) -> list[t.Transition]:
    event = state.events.get(step.event_id or "")
    if event is None:
        status, reason = state.outcomes.get(step.event_id or "", _UNKNOWN)
        return [t.StepEnded(plan.id, number, status, now.steady, reason)]
    if plan.status not in OPEN or any(name in state.fleet.vms for name in event.resources):
        return []
    return [t.EventCancelled(event.id, event.scope, "Its VMs are gone.")] if event.phase is Phase.SCHEDULED else []


def _conclusion(state: State, plan: Maintenance) -> list[t.Transition]:
    failed = plan.count(StepStatus.FAILED)
    if failed > plan.failures_allowed:
        return _stop(state, plan, Status.FAILED, f"{failed} failed, {plan.failures_allowed} allowed.")
    if plan.count(*OVER) == len(plan.steps):
        return [t.MaintenanceChanged(plan.id, Status.DONE)]
    return []


def _stop(state: State, plan: Maintenance, status: Status, reason: str) -> list[t.Transition]:
    scheduled = (state.events.get(step.event_id or "") for step in plan.steps)
    taken_back = [
        t.EventCancelled(event.id, event.scope, f"The maintenance is {status.value}.")
        for event in scheduled
        if event is not None and event.phase is Phase.SCHEDULED
    ]
    return [*taken_back, t.MaintenanceChanged(plan.id, status, reason)]


def _begun(state: State, plan: Maintenance, now: Instant, policy: Policy) -> list[t.Transition]:
    changes: list[t.Transition] = []
    for number in ready(plan, now.steady):
        step = plan.steps[number]
        there = [vm for name in step.resources if (vm := state.fleet.vms.get(name)) and _belongs(vm, step)]
        vms = [vm for vm in there if not _has_left_host(vm, plan, step)]
        if not vms:
            reason = _why_skipped(state, step, there)
            changes.append(t.StepEnded(plan.id, number, StepStatus.SKIPPED, now.steady, reason))
            continue
        event_id = str(uuid5(UUID(plan.id), str(number))).upper()
        event = planned_event(state, vms, plan, event_id, now, policy)
        if plan.cause is Cause.LIVE_MIGRATION:
            event = event.with_(host=step.host)
        left_out = [name for name in step.resources if name not in event.resources]
        reason = f"No longer there: {', '.join(left_out)}." if left_out else ""
        changes += [t.EventRaised(event), t.StepBegun(plan.id, number, event_id, reason)]
    return changes


def _why_skipped(state: State, step: Step, there: list[Vm]) -> str:
    if there:
        return f"Its VMs have left {step.host}."
    if any(name in state.fleet.vms for name in step.resources):
        return f"Its VMs have left update domain {step.turn} of {step.lane}."
    return "Its VMs are gone."


def _has_left_host(vm: Vm, plan: Maintenance, step: Step) -> bool:
    """Whether a VM that was to be moved off a host has been moved meanwhile: once is enough."""
    return plan.cause is Cause.LIVE_MIGRATION and step.host not in (None, vm.host)


def _belongs(vm: Vm, step: Step) -> bool:
    return scope_of(vm) == step.scope and (vm.update_domain or 0) == step.turn
