"""What the state keeps twice so that nothing has to be searched for: updated with each change, or made again."""

import heapq
from collections import Counter
from collections.abc import Iterable
from operator import attrgetter

from duenotice.domain import timers
from duenotice.domain.bulk import IdsByKey
from duenotice.domain.event import Event, Phase, size_of
from duenotice.domain.fleet import Condition, Vm, scope_in
from duenotice.domain.plan import Maintenance, PlanProgress, Step, StepStatus
from duenotice.domain.state import State

UNKNOWN = (StepStatus.SKIPPED, "What happened to its event is not known.")


def event_came(state: State, event: Event) -> None:
    """A new event is in its scope."""
    state.events[event.id] = event
    _put(state, event)
    _consent(state, None, event)
    _recount(state, event.scope, None, event)


def event_changed(state: State, event: Event) -> None:
    """An event is as it is now, in the scope where it was."""
    before, state.events[event.id] = state.events[event.id], event
    if before.resources != event.resources:
        _take_off(state, event.id, set(before.resources).difference(event.resources))
        state.document_sizes[event.scope] += size_of(event) - size_of(before)
    _consent(state, before, event)
    _recount(state, event.scope, before, event)


def event_went(state: State, event: Event) -> None:
    """An event has left its scope."""
    del state.events[event.id]
    _take_off(state, event.id, event.resources)
    state.events_by_scope.remove(event.scope, event.id)
    state.document_sizes[event.scope] -= size_of(event)
    if not state.document_sizes[event.scope]:
        del state.document_sizes[event.scope]
    _consent(state, event, None)
    _recount(state, event.scope, event, None)


def _put(state: State, event: Event) -> None:
    only = (event.id,)
    for name in event.resources:
        state.events_by_vm.add(name, only)
    state.events_by_scope.add(event.scope, only)
    state.document_sizes[event.scope] = state.document_sizes.get(event.scope, 0) + size_of(event)


def _take_off(state: State, event_id: str, names: Iterable[str]) -> None:
    for name in names:
        state.events_by_vm.remove(name, event_id)


def _waits_with(event: Event | None) -> str | None:
    return None if event is None or event.phase is not Phase.SCHEDULED else event.shares


def _waiting(state: State, key: str) -> list[Event]:
    return [state.events[event_id] for event_id in state.consenting.of(key)]


def _consent(state: State, before: Event | None, after: Event | None) -> None:
    """Note who waits for whose approval on a host (C07); all of them are due at another time when that changes."""
    old, new = _waits_with(before), _waits_with(after)
    if before is not None and old is not None and old != new:
        state.consenting.remove(old, before.id)
    if after is not None and new is not None and old != new:
        state.consenting.add(new, (after.id,))
    for key in dict.fromkeys(key for key in (old, new) if key is not None):
        waiting = _waiting(state, key)
        if not timers.consents(state.blockers, key, waiting):
            for event in waiting:
                timers.put(state.timers, event, timers.blockers_of(state.blockers, event))


def _recount(state: State, scope: str, before: Event | None, after: Event | None) -> None:
    """Count an event, and put events on the agenda that may now go on or have to wait longer."""
    alike = timers.count(state.blockers, scope, before, after)
    for event in [after] if alike else state.events_in(scope):
        if event is not None:
            timers.put(state.timers, event, timers.blockers_of(state.blockers, event))
    timers.trim(state.timers, state.events, state.blockers)


def hosts_changed(state: State) -> None:
    """Hosts came, went or are in another condition."""
    healthy = (host.name for host in state.fleet.hosts.values() if host.condition is Condition.HEALTHY)
    state.fleet.healthy_hosts = tuple(heapq.nsmallest(2, healthy))


def vm_changed(state: State, before: Vm | None, after: Vm | None) -> None:
    """A VM was changed, added or removed: count the VMs of its group's scope."""
    old, new = _group_scope(before), _group_scope(after)
    if old == new:
        return
    if old is not None:
        state.scope_sizes[old] -= 1
        if not state.scope_sizes[old]:
            del state.scope_sizes[old]
    if new is not None:
        state.scope_sizes[new] = state.scope_sizes.get(new, 0) + 1


def _group_scope(vm: Vm | None) -> str | None:
    """Those who are told alone are counted together."""
    return None if vm is None or vm.group is None else scope_in(vm.group, vm.placement_group)


def plan_came(state: State, plan: Maintenance) -> None:
    """A plan with its steps; those under way have their events, or it is known how these ended."""
    progress = state.plans[plan.id] = PlanProgress(plan)
    mine = (plan.id,)
    for group in progress.groups():
        if not progress.is_open and not progress.still_hits(group):
            continue
        known = state.plans_by_group.get(group)
        state.plans_by_group[group] = mine if known is None else (*known, plan.id)
    for number, step in progress.running():
        event_id = step.event_id or ""
        state.step_of_event[event_id] = (plan.id, number)
        if event_id not in state.events:
            state.unprocessed_outcomes.setdefault(event_id, UNKNOWN)


def plan_over(state: State, progress: PlanProgress) -> None:
    """A plan that begins no step any more holds only the groups that it is still hitting."""
    _let_go(state, progress.plan.id, (group for group in progress.groups() if not progress.still_hits(group)))


def step_over(state: State, progress: PlanProgress, step: Step) -> None:
    """A step does not need its event any more. If it was the last of a plan that is over, its group is free."""
    state.step_of_event.pop(step.event_id or "", None)
    state.unprocessed_outcomes.pop(step.event_id or "", None)
    if not progress.is_open and not progress.still_hits(step.group):
        _let_go(state, progress.plan.id, (step.group,))


def plan_forgotten(state: State, progress: PlanProgress) -> None:
    """Of a plan only the events that it has raised are left."""
    for _, step in progress.running():
        state.step_of_event.pop(step.event_id or "", None)
        state.unprocessed_outcomes.pop(step.event_id or "", None)
        _let_go(state, progress.plan.id, (step.group,))


def _let_go(state: State, plan_id: str, groups: Iterable[str]) -> None:
    for group in groups:
        left = tuple(known for known in state.plans_by_group.get(group, ()) if known != plan_id)
        if left:
            state.plans_by_group[group] = left
        else:
            state.plans_by_group.pop(group, None)


def make_anew(state: State) -> None:
    """All that is kept about hosts, VMs and events in addition to themselves."""
    hosts_changed(state)
    state.events_by_scope, state.events_by_vm, state.document_sizes, state.blockers = IdsByKey(), IdsByKey(), {}, {}
    state.consenting, shared = IdsByKey(), dict[str, None]()
    state.scope_sizes = _scope_sizes(state.fleet.vms.values())
    for event in state.events.values():
        _put(state, event)
        timers.count(state.blockers, event.scope, None, event)
        if (key := _waits_with(event)) is not None:
            state.consenting.add(key, (event.id,))
            shared[key] = None
    for key in shared:
        timers.consents(state.blockers, key, _waiting(state, key))
    due = (
        (timers.due_at(event, timers.blockers_of(state.blockers, event)), event.id) for event in state.events.values()
    )
    state.timers = [(moment, event_id) for moment, event_id in due if moment is not None]
    heapq.heapify(state.timers)


def _scope_sizes(vms: Iterable[Vm]) -> dict[str, int]:
    """How many VMs each scope of a group has; a start of a million waits for this, so no step is taken for each."""
    counted = Counter(map(attrgetter("group", "placement_group"), vms))
    return {scope_in(group, place): count for (group, place), count in counted.items() if group is not None}
