"""The fold: `apply` is the only thing that changes state.

What a rule has decided always applies. If it does not, the rule is wrong, and an error is raised before anything is
changed.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from msgspec import structs

from duenotice.clock import Instant
from duenotice.domain import indexes, last_applied
from duenotice.domain import records as t
from duenotice.domain.event import Event, Phase, ended_now, keep_ended
from duenotice.domain.failure import Failure
from duenotice.domain.fleet import (
    ALONE,
    HOST_GONE,
    MOST_REPORTS,
    Condition,
    Verdict,
    Vm,
    alone_in,
    group_of,
    scope_of,
    verdict_of,
)
from duenotice.domain.plan import PlanProgress, Status, StepStatus, with_window
from duenotice.domain.state import IdempotencyRecord, Scope, State, Tombstone, keep_answer
from duenotice.domain.subscription import MOST_DEAD_LETTERS, Subscription, SubscriptionStatus
from duenotice.domain.token import Role
from duenotice.errors import InvariantBroken

MAINTENANCES_KEPT = 100
"""How many finished maintenances stay in memory; the journal has them all."""

STEPS_KEPT = 1000
"""Of a finished maintenance with more steps only the tally stays, unless it is the last of these that has finished."""

_REPORT_IT = "Please report this."


def _maintenance_started(state: State, change: t.MaintenanceStarted) -> None:
    """The plan and its steps are in `plans`; the oldest plans that are over are forgotten (S24)."""
    if change.maintenance.id in state.plans:
        raise InvariantBroken(f"There is already a maintenance {change.maintenance.id}.", hint=_REPORT_IT)
    indexes.plan_came(state, change.maintenance)
    over = [plan_id for plan_id, progress in state.plans.items() if not progress.is_open]
    for plan_id in over[: max(0, len(over) - MAINTENANCES_KEPT)]:
        indexes.plan_forgotten(state, state.plans.pop(plan_id))


def _maintenance_changed(state: State, change: t.MaintenanceChanged) -> None:
    """The plan has another status. Once it is over, its groups are free, and of a large one only the tally stays."""
    progress = _plan(state, change.maintenance_id)
    progress.change_status(change.status, change.reason, state.at, change.window)
    if not progress.is_open:
        # To the end, so that the first to be over is the first to be forgotten.
        state.plans[change.maintenance_id] = state.plans.pop(change.maintenance_id)
        indexes.plan_over(state, progress)
        _let_go_of_steps(state, progress)


def _maintenance_retried(state: State, change: t.MaintenanceRetried) -> None:
    """The steps wait again, and their failures are dealt with."""
    progress = _plan(state, change.maintenance_id)
    for step in (progress.steps[number] for number in change.steps):
        state.failures.dealt_with(step.event_id or "")
    plan = progress.put_back(change.steps, status=Status.RUNNING, reason="", over_at=None)
    plan = with_window(plan, change.window)
    if progress.is_open:
        state.plans[plan.id] = PlanProgress(plan)
    else:
        indexes.plan_came(state, plan)


def _window_closed(state: State, change: t.WindowClosed) -> None:
    """The plan waits for its next span; steps that had not started lose their event."""
    progress = _plan(state, change.maintenance_id)
    if not change.steps:
        progress.move_to(change.span)
        return
    plan = progress.put_back(change.steps, span=change.span)
    for step in (progress.steps[number] for number in change.steps):
        state.step_of_event.pop(step.event_id or "", None)
        state.unprocessed_outcomes.pop(step.event_id or "", None)
    state.plans[plan.id] = PlanProgress(plan)


def _step_begun(state: State, change: t.StepBegun) -> None:
    """The step runs, and has this event (`step_of_event`)."""
    _plan(state, change.maintenance_id).begin(change.step, change.event_id, change.reason)
    state.step_of_event[change.event_id] = (change.maintenance_id, change.step)


def _step_ended(state: State, change: t.StepEnded) -> None:
    """The step has its result, and its group may go on."""
    progress = _plan(state, change.maintenance_id)
    progress.end(change.step, change.status, change.ended, change.reason)
    indexes.step_over(state, progress, progress.steps[change.step])
    if not progress.is_open and not progress.running_count:
        _let_go_of_steps(state, progress)


def _let_go_of_steps(state: State, ended: PlanProgress) -> None:
    """Keep only the tallies of large plans that are over, but for the last: that one is looked at, and tried again.

    It is found when a large plan ends, so that looking at all plans costs no more than its steps did.
    """
    if len(ended.steps) <= STEPS_KEPT:
        return
    large = [plan for plan in state.plans.values() if not plan.is_open and len(plan.steps) > STEPS_KEPT]
    for progress in large[:-1]:
        if not progress.running_count:
            state.plans[progress.plan.id] = PlanProgress(progress.summary())


def _plan(state: State, plan_id: str) -> PlanProgress:
    progress = state.plans.get(plan_id)
    if progress is None:
        raise InvariantBroken(f"There is no maintenance {plan_id}.", hint=_REPORT_IT)
    return progress


_OF_PLANS: dict[type, Callable[[State, Any], None]] = {
    t.MaintenanceStarted: _maintenance_started,
    t.MaintenanceChanged: _maintenance_changed,
    t.MaintenanceRetried: _maintenance_retried,
    t.WindowClosed: _window_closed,
    t.StepBegun: _step_begun,
    t.StepEnded: _step_ended,
}


def _token_created(state: State, change: t.TokenCreated) -> None:
    """The token is in `tokens`."""
    state.tokens[change.token.id] = change.token
    state.had_readers = state.had_readers or change.token.role is Role.FOLLOWER


def _token_revoked(state: State, change: t.TokenRevoked) -> None:
    """The token is gone, and its sessions with it (S35)."""
    state.tokens.pop(change.token_id, None)
    for session in [each for each in state.sessions.values() if each.token_id == change.token_id]:
        del state.sessions[session.digest]  # a session has no right of its own (S35)


def _session_begun(state: State, change: t.SessionBegun) -> None:
    """The session is in `sessions`."""
    state.sessions[change.session.digest] = change.session


def _session_ended(state: State, change: t.SessionEnded) -> None:
    """The session is gone."""
    state.sessions.pop(change.digest, None)


def _created(state: State, change: t.SubscriptionCreated) -> None:
    """The subscription is in `subscriptions`."""
    state.subscriptions[change.subscription.id] = change.subscription


def _turned(state: State, change: t.SubscriptionTurned) -> None:
    """The subscription has another status; if it waits again, its day begins again."""
    known = state.subscriptions[change.subscription_id]
    begins = change.status is SubscriptionStatus.WAITING and known.status is not SubscriptionStatus.WAITING
    turned = known.with_(status=change.status, reason=change.reason)
    state.subscriptions[known.id] = _from_now_on(state, turned) if begins else turned


def _from_now_on(state: State, known: Subscription) -> Subscription:
    """A day begins again."""
    return known.with_(since=state.at, since_steady=state.steady)


def _deleted(state: State, change: t.SubscriptionDeleted) -> None:
    """The subscription is gone."""
    del state.subscriptions[change.subscription_id]


def _replayed(state: State, change: t.SubscriptionReplayed) -> None:
    """These dead letters are messages that wait again."""
    known, again = state.subscriptions[change.subscription_id], set(change.positions)
    left = tuple(each for each in known.dead_letters if each.position not in again)
    pending = tuple(sorted(again.union(known.pending)))
    state.subscriptions[known.id] = _from_now_on(state, known.with_(dead_letters=left, pending=pending))


def _claimed(state: State, change: t.PushesClaimed) -> None:
    """`push_claim` is that process."""
    state.push_claim = change.claim


def _noted(state: State, change: t.PushNoted) -> None:
    """The subscription has this position, these messages that wait, and this trouble."""
    known = state.subscriptions[change.subscription_id]
    progress = known.with_(position=change.position, pending=change.pending, trouble=change.trouble)
    state.subscriptions[known.id] = progress


def _dead_lettered(state: State, change: t.PushDeadLettered) -> None:
    """The subscription keeps the latest dead letters, and counts those that it drops (S24)."""
    known = state.subscriptions[change.subscription_id]
    every = known.dead_letters + change.dead_letters
    dropped = known.dropped + max(0, len(every) - MOST_DEAD_LETTERS)
    state.subscriptions[known.id] = known.with_(dead_letters=every[-MOST_DEAD_LETTERS:], dropped=dropped)


_OF_SUBSCRIPTIONS: dict[type, Callable[[State, Any], None]] = {
    t.TokenCreated: _token_created,
    t.TokenRevoked: _token_revoked,
    t.SessionBegun: _session_begun,
    t.SessionEnded: _session_ended,
    t.SubscriptionCreated: _created,
    t.SubscriptionTurned: _turned,
    t.SubscriptionDeleted: _deleted,
    t.SubscriptionReplayed: _replayed,
    t.PushesClaimed: _claimed,
    t.PushNoted: _noted,
    t.PushDeadLettered: _dead_lettered,
}


TOMBSTONES_KEPT = 100_000
"""So that a fleet that churns for years stays bounded (S24); older ones merge into one high-water mark."""

_REPORT = "Please report this."


def fold(state: State, record: t.Record) -> None:
    """Apply a record and move to its position; what is applied may ask when it happens."""
    state.at, state.steady = record.at, record.steady
    apply(state, record.transition)
    state.position = record.position


def apply(state: State, transition: t.Transition) -> None:
    """Change the state by one transition."""
    APPLIERS[type(transition)](state, transition)


def _fleet_declared(state: State, change: t.FleetDeclared) -> None:
    """The fleet has this digest and site; what the file says is remembered (N21)."""
    state.fleet.digest, state.fleet.site = change.digest, change.site
    if change.file is not None:
        last_applied.note(state.fleet, change.file)


def _hosts_put(state: State, change: t.HostsPut) -> None:
    """The hosts are in the fleet; open reports of health note what became of their hosts (M17)."""
    state.fleet.hosts.update((host.name, host) for host in change.hosts)
    indexes.hosts_changed(state)
    _tell_reports(state, {host.name: host.condition.value for host in change.hosts} if state.reports else {})


def _hosts_removed(state: State, change: t.HostsRemoved) -> None:
    """The hosts are gone; open reports of health note it (M17)."""
    for name in change.names:
        state.fleet.hosts.pop(name, None)
    indexes.hosts_changed(state)
    _tell_reports(state, dict.fromkeys(change.names, HOST_GONE) if state.reports else {})


def _tell_reports(state: State, conditions: dict[str, str]) -> None:
    """Open reports keep what became of their hosts (M17); that a host is suspect follows from a report itself."""
    for key, report in state.reports.items() if conditions else ():
        condition = conditions.get(report.host, Condition.SUSPECT.value)
        if report.is_open and condition != Condition.SUSPECT.value:
            state.reports[key] = report.with_step(condition, state.at)


def _health_reported(state: State, change: t.HealthReported) -> None:
    """The report is in `reports`; if it says that all is well, it ends the others of this VM and host."""
    new = change.report
    if verdict_of(new.category) is Verdict.HEALTHY:
        for key, report in state.reports.items():
            if report.is_open and (report.vm, report.host) == (new.vm, new.host):
                state.reports[key] = report.with_step(Condition.HEALTHY.value, state.at)
        new = new.with_step(Condition.HEALTHY.value, state.at)
    state.reports[new.key] = new
    if len(state.reports) > MOST_REPORTS:
        del state.reports[next(key for key, report in state.reports.items() if not report.is_open)]


def _groups_put(state: State, change: t.GroupsPut) -> None:
    """The groups are in the fleet."""
    state.fleet.groups.update((group.key, group) for group in change.groups)
    last_applied.came(state.fleet, (group.key for group in change.groups))


def _groups_removed(state: State, change: t.GroupsRemoved) -> None:
    """The groups are gone, and their scopes that have nothing left to show."""
    gone = frozenset(change.keys)
    for key in gone:
        if state.fleet.groups.pop(key, None) is not None and last_applied.is_instance(key):
            last_applied.went(state.fleet, key, by_file=True)
    for scope in [scope for scope in state.scopes if group_of(scope) in gone]:
        _drop_if_deserted(state, scope)


def _vms_put(state: State, change: t.VmsPut) -> None:
    """The VMs are in the fleet. A scope that a VM comes to skips ahead of what the VM may have read (S3)."""
    for vm in change.vms:
        _keep_incarnation_rising(state, vm)
        state.tombstones.pop(vm.name, None)
        indexes.vm_changed(state, state.fleet.vms.get(vm.name), vm)
        state.fleet.put(vm)
    last_applied.came(state.fleet, (last_applied.VM + vm.name for vm in change.vms))


def _keep_incarnation_rising(state: State, vm: Vm) -> None:
    """A VM that comes to a scope must not see an incarnation that it may have seen with other content (S3).

    The scope it comes to skips ahead, the one exception to "+1 each time": see docs/decisions/0004.
    """
    key = scope_of(vm)
    if key not in state.scopes and (gone := state.tombstones.pop(key, None)):
        state.scopes[key] = Scope(gone.incarnation)  # a group that comes back goes on where it was
    seen = _last_seen(state, vm)
    stays = seen.scope == key and (key in state.scopes or vm.name in state.fleet.vms)
    if seen.incarnation == 0 or stays:
        return
    if state.incarnation(key) <= seen.incarnation:
        _change_scope(state, key, incarnation=seen.incarnation + 1)


def _last_seen(state: State, vm: Vm) -> Tombstone:
    present = state.fleet.vms.get(vm.name)
    if present is not None:
        return _tombstone(state, present)
    return state.tombstones.get(vm.name) or Tombstone(vm.name, "", state.tombstone_high_water)


def _tombstone(state: State, vm: Vm) -> Tombstone:
    key = scope_of(vm)
    scope = state.scopes.get(key)
    return Tombstone(vm.name, key, scope.incarnation if scope is not None else state.least_incarnation)


def _vms_removed(state: State, change: t.VmsRemoved) -> None:
    """The VMs are gone; a tombstone keeps the incarnation that each may have read (S3)."""
    state.failures.over(change.names)
    for name in change.names:
        vm = state.fleet.remove(name)
        if vm is not None:
            indexes.vm_changed(state, vm, None)
            if not last_applied.is_instance(vm.group):  # these come and go with its capacity
                last_applied.went(state.fleet, last_applied.VM + name, change.by_file)
            _remember(state, _tombstone(state, vm))
            for key in dict.fromkeys((ALONE + name, scope_of(vm))):
                _drop_if_deserted(state, key)


def _remember(state: State, tombstone: Tombstone) -> None:
    known = state.tombstones.get(tombstone.vm)
    if tombstone.incarnation > (0 if known is None else known.incarnation):
        state.tombstones[tombstone.vm] = tombstone
    while len(state.tombstones) > TOMBSTONES_KEPT:
        _, oldest = state.tombstones.popitem(last=False)
        state.tombstone_high_water = max(state.tombstone_high_water, oldest.incarnation)


def _drop_if_deserted(state: State, key: str) -> None:
    """A scope goes with its VM or its group, once it has nothing left to show (S24)."""
    scope = state.scopes.get(key)
    if scope is not None and key not in state.events_by_scope and not _inhabited(state, key):
        _remember(state, Tombstone(alone_in(key) or key, key, scope.incarnation))
        del state.scopes[key]


def _inhabited(state: State, key: str) -> bool:
    if (name := alone_in(key)) is not None:
        return name in state.fleet.vms
    return group_of(key) in state.fleet.groups or key in state.scope_sizes


def _events_policy_set(state: State, change: t.EventsPolicySet) -> None:
    """The fleet remembers what the owner said."""
    state.fleet.say(change.of, change.policy)


def _event_raised(state: State, change: t.EventRaised) -> None:
    """The event is in its scope, whose incarnation grows by one."""
    if change.event.id in state.events:
        raise InvariantBroken(f"There is already an event {change.event.id}.", hint=_REPORT)
    _enter(state, change.event)


def _event_moved(state: State, change: t.EventMoved) -> None:
    """The event leaves one scope and enters another; both incarnations grow."""
    # To the end of both lists, so that a snapshot gives back the same order (S4).
    _leave(state, _known(state, change.event.id, change.from_scope))
    _enter(state, change.event)


def _event_narrowed(state: State, change: t.EventNarrowed) -> None:
    """The event hits fewer VMs, its incarnation grows, and its step names those that have left."""
    before = _known(state, change.event.id, change.event.scope)
    stay = set(change.event.resources)
    left = [name for name in before.resources if name not in stay]
    _event_changed(state, change)
    if change.event.id in state.step_of_event:
        plan_id, step = state.step_of_event[change.event.id]
        state.plans[plan_id].say(step, f"No longer in its update domain: {', '.join(left)}.")


def _event_changed(state: State, change: t.EventStarted | t.EventPostponed | t.EventNarrowed) -> None:
    """The event is as it is now, and the incarnation of its scope grows by one."""
    _known(state, change.event.id, change.event.scope)
    scope = state.scopes[change.event.scope]
    _change_scope(state, change.event.scope, incarnation=scope.incarnation + 1)
    indexes.event_changed(state, change.event)


_LEARNED: dict[type, Callable[[Any], dict[str, object]]] = {
    t.EventApproved: lambda change: {"approved_by": change.by},
    t.ImpactFailed: lambda change: {"failed_attempts": change.attempt, "claimed_by": "", "claimed_in": ""},
    t.ImpactClaimed: lambda change: {"claimed_by": change.node, "claimed_in": change.directory},
    t.ImpactAccepted: lambda _: {"accepted": True},
}
"""What an event keeps of a change in which VMs see no difference, so that the incarnation stays (S4)."""


def _event_learned(state: State, change: t.EventApproved | t.ImpactFailed | t.ImpactClaimed | t.ImpactAccepted) -> None:
    """The event remembers it (`_LEARNED`); VMs read the same, so the incarnation stays (S4)."""
    event = _known(state, change.event_id, change.scope)
    indexes.event_changed(state, event.with_(**_LEARNED[type(change)](change)))


_OUTCOMES = {
    t.EventCompleted: StepStatus.DONE,
    t.EventCancelled: StepStatus.SKIPPED,
    t.EventFailed: StepStatus.FAILED,
}


def _event_gone(state: State, change: t.EventCompleted | t.EventCancelled | t.EventFailed) -> None:
    """The event leaves its scope, whose incarnation grows, and is kept among those that have ended.

    Its plan gets the outcome, and a failure stays until somebody has dealt with it.
    """
    event = _known(state, change.event_id, change.scope)
    if event.id in state.step_of_event:
        state.unprocessed_outcomes[event.id] = (_OUTCOMES[type(change)], _reason(state, event, change))
    now = Instant(state.at, state.steady)
    keep_ended(state.ended, state.ended_order, ended_now(event, now), now)
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
    """The failure is dealt with."""
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
    """Nothing changes; it is only for the history."""


def _scope_enabled(state: State, change: t.ScopeEnabled) -> None:
    """The scope listens."""
    _change_scope(state, change.scope, enabled=True)


def _scope_disabled(state: State, change: t.ScopeDisabled) -> None:
    """The scope does not listen; its incarnation stays (F03)."""
    _change_scope(state, change.scope, enabled=False)


def _incarnations_lifted(state: State, change: t.IncarnationsLifted) -> None:
    """All incarnations grow by this much, also those in tombstones; all sessions end."""
    state.sessions.clear()  # people may have signed out in what was lost (S35)
    state.least_incarnation += change.by
    state.raised_at = state.position + 1
    state.tombstone_high_water += change.by
    for key, scope in state.scopes.items():
        state.scopes[key] = structs.replace(scope, incarnation=scope.incarnation + change.by)
    for name, tombstone in state.tombstones.items():
        state.tombstones[name] = Tombstone(name, tombstone.scope, tombstone.incarnation + change.by)


def _scope(state: State, key: str) -> Scope:
    return state.scopes.get(key) or Scope(state.least_incarnation)


def _change_scope(state: State, key: str, **fields: object) -> None:
    state.scopes[key] = structs.replace(_scope(state, key), **fields)


def _request_answered(state: State, change: t.RequestAnswered) -> None:
    """The answer can be found by its key until it is too old."""
    # The record that is being folded; positions have no gaps.
    position = state.position + 1
    answer = IdempotencyRecord(change.key, change.request_digest, position, change.until, change.until_steady)
    keep_answer(state.idempotency, answer, Instant(state.at, state.steady))


def _clock_marked(state: State, change: t.ClockMarked) -> None:
    """`mark` is where the clock was."""
    state.mark = change.mark


APPLIERS: dict[type, Callable[[State, Any], None]] = {
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
    **_OF_PLANS,
    t.OperationPerformed: _operation_performed,
    t.ScopeEnabled: _scope_enabled,
    t.ScopeDisabled: _scope_disabled,
    **_OF_SUBSCRIPTIONS,
    t.RequestAnswered: _request_answered,
    t.IncarnationsLifted: _incarnations_lifted,
    t.ClockMarked: _clock_marked,
}


class Touched(NamedTuple):
    """What some records touch: VMs that came, went or changed, all their addresses, and the scopes to derive again."""

    scopes: set[str]
    vms: set[str]
    addresses: set[str]
    everything: bool = False


def touched(before: State, after: State, records: Iterable[t.Record]) -> Touched:
    """What differs between two states, by the records between them."""
    scopes: set[str] = set()
    names: set[str] = set()
    groups: set[str] = set()
    everything = False
    for record in records:
        change = record.transition
        if (touch := t.TOUCHES.get(type(change))) is not None:
            if touch.scopes is not None:
                scopes.update(touch.scopes(change))
            if touch.vms is not None:
                names.update(touch.vms(change))
            if touch.groups is not None:
                groups.update(touch.groups(change))
            everything = everything or touch.everything
    if groups:
        scopes.update(scope for scope in before.scopes if group_of(scope) in groups)
    if not names:  # as nearly always: each commit waits for this
        return Touched(scopes, names, set(), everything)
    vms = [vm for name in names for state in (before, after) if (vm := state.fleet.vms.get(name)) is not None]
    scopes.update(map(scope_of, vms))
    # A VM that is told alone and joins others takes along what was left of its own scope.
    scopes.update(key for name in names if (key := ALONE + name) in before.scopes)
    return Touched(scopes, names, {vm.address for vm in vms}, everything)
