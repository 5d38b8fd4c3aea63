"""The fold: `apply` is the only thing that changes state.

What a rule has decided always applies. If it does not, the rule is wrong, and an error is raised before anything is
changed.
"""

from collections.abc import Callable
from typing import Any

from msgspec import structs

from duenotice.clock import Instant
from duenotice.domain import gone, indexes, last_applied, plans_applied
from duenotice.domain import transitions as t
from duenotice.domain.event import Event, Phase
from duenotice.domain.failure import Failure
from duenotice.domain.fleet import Condition, Vm
from duenotice.domain.health_report import GONE, MOST_KEPT, Verdict, verdict_of
from duenotice.domain.kept_answers import KeptAnswer, keep
from duenotice.domain.maintenance import StepStatus
from duenotice.domain.scope import ALONE, alone_in, group_of, scope_of
from duenotice.domain.state import Departure, Scope, State
from duenotice.domain.subscribed import APPLIERS
from duenotice.errors import InvariantBroken

DEPARTURES_KEPT = 100_000
"""So that a fleet that churns for years stays bounded (S24); older ones merge into one high-water mark."""

_REPORT = "Please report this."


def fold(state: State, record: t.Record) -> None:
    """Apply a record and move to its position; what is applied may ask when it happens."""
    state.at, state.steady = record.at, record.steady
    apply(state, record.transition)
    state.position = record.position


def apply(state: State, transition: t.Transition) -> None:
    """Change the state by one transition."""
    _APPLIERS[type(transition)](state, transition)


def _fleet_declared(state: State, change: t.FleetDeclared) -> None:
    state.fleet.digest, state.fleet.site = change.digest, change.site
    if change.file is not None:
        last_applied.note(state.fleet, change.file)


def _hosts_put(state: State, change: t.HostsPut) -> None:
    state.fleet.hosts.update((host.name, host) for host in change.hosts)
    indexes.hosts_changed(state)
    _tell_reports(state, {host.name: host.condition.value for host in change.hosts} if state.reports else {})


def _hosts_removed(state: State, change: t.HostsRemoved) -> None:
    for name in change.names:
        state.fleet.hosts.pop(name, None)
    indexes.hosts_changed(state)
    _tell_reports(state, dict.fromkeys(change.names, GONE) if state.reports else {})


def _tell_reports(state: State, conditions: dict[str, str]) -> None:
    """Open reports keep what became of their hosts (M17); that a host is suspect follows from a report itself."""
    for key, report in state.reports.items() if conditions else ():
        condition = conditions.get(report.host, Condition.SUSPECT.value)
        if report.is_open and condition != Condition.SUSPECT.value:
            state.reports[key] = report.with_step(condition, state.at)


def _health_reported(state: State, change: t.HealthReported) -> None:
    new = change.report
    if verdict_of(new.category) is Verdict.HEALTHY:
        for key, report in state.reports.items():
            if report.is_open and (report.vm, report.host) == (new.vm, new.host):
                state.reports[key] = report.with_step(Condition.HEALTHY.value, state.at)
        new = new.with_step(Condition.HEALTHY.value, state.at)
    state.reports[new.key] = new
    if len(state.reports) > MOST_KEPT:
        del state.reports[next(key for key, report in state.reports.items() if not report.is_open)]


def _groups_put(state: State, change: t.GroupsPut) -> None:
    state.fleet.groups.update((group.key, group) for group in change.groups)
    last_applied.came(state.fleet, (group.key for group in change.groups))


def _groups_removed(state: State, change: t.GroupsRemoved) -> None:
    gone = frozenset(change.keys)
    for key in gone:
        if state.fleet.groups.pop(key, None) is not None and last_applied.is_instance(key):
            last_applied.went(state.fleet, key, by_file=True)
    for scope in [scope for scope in state.scopes if group_of(scope) in gone]:
        _drop_if_deserted(state, scope)


def _vms_put(state: State, change: t.VmsPut) -> None:
    for vm in change.vms:
        _keep_incarnation_rising(state, vm)
        state.departures.pop(vm.name, None)
        indexes.vm_changed(state, state.fleet.vms.get(vm.name), vm)
        state.fleet.put(vm)
    last_applied.came(state.fleet, (last_applied.VM + vm.name for vm in change.vms))


def _keep_incarnation_rising(state: State, vm: Vm) -> None:
    """A VM that comes to a scope must not see an incarnation that it may have seen with other content (S3).

    The scope it comes to skips ahead, the one exception to "+1 each time": see docs/decisions/0004.
    """
    key = scope_of(vm)
    if key not in state.scopes and (gone := state.departures.pop(key, None)):
        state.scopes[key] = Scope(gone.incarnation)  # a group that comes back goes on where it was
    seen = _last_seen(state, vm)
    stays = seen.scope == key and (key in state.scopes or vm.name in state.fleet.vms)
    if seen.incarnation == 0 or stays:
        return
    if state.incarnation(key) <= seen.incarnation:
        _change_scope(state, key, incarnation=seen.incarnation + 1)


def _last_seen(state: State, vm: Vm) -> Departure:
    present = state.fleet.vms.get(vm.name)
    if present is not None:
        return _departure(state, present)
    return state.departures.get(vm.name) or Departure(vm.name, "", state.forgotten)


def _departure(state: State, vm: Vm) -> Departure:
    key = scope_of(vm)
    scope = state.scopes.get(key)
    return Departure(vm.name, key, scope.incarnation if scope is not None else state.floor)


def _vms_removed(state: State, change: t.VmsRemoved) -> None:
    state.failures.over(change.names)
    for name in change.names:
        vm = state.fleet.remove(name)
        if vm is not None:
            indexes.vm_changed(state, vm, None)
            if not last_applied.is_instance(vm.group):  # these come and go with its capacity
                last_applied.went(state.fleet, last_applied.VM + name, change.by_file)
            _remember(state, _departure(state, vm))
            for key in dict.fromkeys((ALONE + name, scope_of(vm))):
                _drop_if_deserted(state, key)


def _remember(state: State, departure: Departure) -> None:
    known = state.departures.get(departure.vm)
    if departure.incarnation > (0 if known is None else known.incarnation):
        state.departures[departure.vm] = departure
    while len(state.departures) > DEPARTURES_KEPT:
        _, oldest = state.departures.popitem(last=False)
        state.forgotten = max(state.forgotten, oldest.incarnation)


def _drop_if_deserted(state: State, key: str) -> None:
    """A scope goes with its VM or its group, once it has nothing left to show (S24)."""
    scope = state.scopes.get(key)
    if scope is not None and key not in state.told and not _inhabited(state, key):
        _remember(state, Departure(alone_in(key) or key, key, scope.incarnation))
        del state.scopes[key]


def _inhabited(state: State, key: str) -> bool:
    if (name := alone_in(key)) is not None:
        return name in state.fleet.vms
    return group_of(key) in state.fleet.groups or key in state.residents


def _events_policy_set(state: State, change: t.EventsPolicySet) -> None:
    state.fleet.say(change.of, change.policy)


def _event_raised(state: State, change: t.EventRaised) -> None:
    if change.event.id in state.events:
        raise InvariantBroken(f"There is already an event {change.event.id}.", hint=_REPORT)
    _enter(state, change.event)


def _event_moved(state: State, change: t.EventMoved) -> None:
    # To the end of both lists, so that a snapshot gives back the same order (S4).
    _leave(state, _known(state, change.event.id, change.from_scope))
    _enter(state, change.event)


def _event_narrowed(state: State, change: t.EventNarrowed) -> None:
    before = _known(state, change.event.id, change.event.scope)
    stay = set(change.event.resources)
    left = [name for name in before.resources if name not in stay]
    _event_changed(state, change)
    if change.event.id in state.under_way:
        plan_id, step = state.under_way[change.event.id]
        state.plans[plan_id].say(step, f"No longer in its update domain: {', '.join(left)}.")


def _event_changed(state: State, change: t.EventStarted | t.EventPostponed | t.EventNarrowed) -> None:
    _known(state, change.event.id, change.event.scope)
    scope = state.scopes[change.event.scope]
    _change_scope(state, change.event.scope, incarnation=scope.incarnation + 1)
    indexes.event_changed(state, change.event)


_LEARNED: dict[type, Callable[[Any], dict[str, object]]] = {
    t.EventApproved: lambda change: {"approved_by": change.by},
    t.ImpactFailed: lambda change: {"failed_attempts": change.attempt, "claimed_by": ""},
    t.ImpactClaimed: lambda change: {"claimed_by": change.node},
    t.ImpactAccepted: lambda _: {"accepted": True},
}
"""What an event keeps of a change in which VMs see no difference, so that the incarnation stays (S4)."""


def _event_learned(state: State, change: t.EventApproved | t.ImpactFailed | t.ImpactClaimed | t.ImpactAccepted) -> None:
    event = _known(state, change.event_id, change.scope)
    indexes.event_changed(state, event.with_(**_LEARNED[type(change)](change)))


_OUTCOMES = {
    t.EventCompleted: StepStatus.DONE,
    t.EventCancelled: StepStatus.SKIPPED,
    t.EventFailed: StepStatus.FAILED,
}


def _event_gone(state: State, change: t.EventCompleted | t.EventCancelled | t.EventFailed) -> None:
    event = _known(state, change.event_id, change.scope)
    if event.id in state.under_way:
        state.outcomes[event.id] = (_OUTCOMES[type(change)], _reason(state, event, change))
    now = Instant(state.at, state.steady)
    gone.keep(state.gone, state.gone_order, gone.of(event, now), now)
    _leave(state, event)
    if isinstance(change, t.EventFailed):
        _keep_failure(state, event, change.reason)
    elif isinstance(change, t.EventCompleted):
        state.failures.over(event.resources, event.type)


def _keep_failure(state: State, event: Event, reason: str) -> None:
    """It is known until somebody has dealt with it; VMs that are gone need nobody."""
    there = tuple(name for name in event.resources if name in state.fleet.vms)
    if there:
        state.failures.note(Failure(event.with_(phase=Phase.FAILED, resources=there), state.at, reason))


def _failure_acknowledged(state: State, change: t.FailureAcknowledged) -> None:
    state.failures.dealt_with(change.event_id)


def _reason(state: State, event: Event, change: t.EventCompleted | t.EventCancelled | t.EventFailed) -> str:
    """The reason that the step shows at its end: it names every VM that was left out."""
    if not isinstance(change, t.EventCompleted):
        return change.reason or "Its event was cancelled."
    gone = [name for name in event.resources if name not in state.fleet.vms]
    return f"Gone meanwhile: {', '.join(gone)}." if gone else ""


def _enter(state: State, event: Event) -> None:
    scope = _scope(state, event.scope)
    state.scopes[event.scope] = Scope(scope.incarnation + 1, scope.enabled)
    indexes.event_came(state, event)


def _leave(state: State, event: Event) -> None:
    scope = state.scopes[event.scope]
    state.scopes[event.scope] = Scope(scope.incarnation + 1, scope.enabled)
    indexes.event_went(state, event)
    _drop_if_deserted(state, event.scope)


def _known(state: State, event_id: str, scope: str) -> Event:
    """A live event of a scope.

    If there is none, that is a bug of ours; the error is raised before anything is changed.
    """
    event = state.events.get(event_id)
    if event is None or event.scope != scope:
        raise InvariantBroken(f"There is no event {event_id} in {scope}.", hint=_REPORT)
    return event


def _operation_performed(state: State, change: t.OperationPerformed) -> None:
    """Changes nothing; it is only for the history."""


def _scope_enabled(state: State, change: t.ScopeEnabled) -> None:
    _change_scope(state, change.scope, enabled=True)


def _scope_disabled(state: State, change: t.ScopeDisabled) -> None:
    _change_scope(state, change.scope, enabled=False)


def _incarnations_lifted(state: State, change: t.IncarnationsLifted) -> None:
    state.sessions.clear()  # people may have signed out in what was lost (S35)
    state.floor += change.by
    state.lifted_at = state.position + 1
    state.forgotten += change.by
    for key, scope in state.scopes.items():
        state.scopes[key] = structs.replace(scope, incarnation=scope.incarnation + change.by)
    for name, departure in state.departures.items():
        state.departures[name] = Departure(name, departure.scope, departure.incarnation + change.by)


def _scope(state: State, key: str) -> Scope:
    return state.scopes.get(key) or Scope(state.floor)


def _change_scope(state: State, key: str, **fields: object) -> None:
    state.scopes[key] = structs.replace(_scope(state, key), **fields)


def _request_answered(state: State, change: t.RequestAnswered) -> None:
    # The record that is being folded; positions have no gaps.
    position = state.position + 1
    answer = KeptAnswer(change.key, change.fingerprint, position, change.until, change.until_steady)
    keep(state.answers, answer, Instant(state.at, state.steady))


def _clock_marked(state: State, change: t.ClockMarked) -> None:
    state.mark = change.mark


_APPLIERS: dict[type, Callable[[State, Any], None]] = {
    t.FleetDeclared: _fleet_declared,
    t.HostsPut: _hosts_put,
    t.HostsRemoved: _hosts_removed,
    t.HealthReported: _health_reported,
    t.GroupsPut: _groups_put,
    t.GroupsRemoved: _groups_removed,
    t.VmsPut: _vms_put,
    t.VmsRemoved: _vms_removed,
    t.EventsPolicySet: _events_policy_set,
    t.EventRaised: _event_raised,
    t.EventMoved: _event_moved,
    t.EventNarrowed: _event_narrowed,
    t.EventPostponed: _event_changed,
    t.EventStarted: _event_changed,
    t.EventCompleted: _event_gone,
    t.EventCancelled: _event_gone,
    t.EventFailed: _event_gone,
    t.FailureAcknowledged: _failure_acknowledged,
    **dict.fromkeys(_LEARNED, _event_learned),
    **plans_applied.APPLIERS,
    t.OperationPerformed: _operation_performed,
    t.ScopeEnabled: _scope_enabled,
    t.ScopeDisabled: _scope_disabled,
    **APPLIERS,
    t.RequestAnswered: _request_answered,
    t.IncarnationsLifted: _incarnations_lifted,
    t.ClockMarked: _clock_marked,
}
