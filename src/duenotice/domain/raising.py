"""The rules that raise events (section G): maintenance, user operations, evictions, hosts."""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import groupby
from uuid import UUID, uuid5

from duenotice.clock import MICROS, Instant, micros_of, seconds
from duenotice.domain import commands as c
from duenotice.domain import notice
from duenotice.domain import transitions as t
from duenotice.domain.ending import cancel_predictions, moved_away, removed
from duenotice.domain.event import (
    BY_USER,
    IMPACT_SECONDS,
    LONGEST_DESCRIPTION,
    LONGEST_DURATION,
    UNKNOWN_DURATION,
    Cause,
    Event,
    EventType,
    Phase,
    description_of,
)
from duenotice.domain.fleet import Condition, Group, Host, Vm
from duenotice.domain.lifecycle import Act, move
from duenotice.domain.maintenance import Maintenance
from duenotice.domain.order import in_order
from duenotice.domain.policy import Policy
from duenotice.domain.scope import domain_of, scope_of
from duenotice.domain.state import State
from duenotice.errors import Conflict, NotFound, Refused

NOBODY_LISTENS = "nobody-listens"
"""Approves for a scope that does not listen: maintenance goes ahead without waiting (F03)."""

_CAUSE_OF_TYPE = {EventType.PREEMPT: Cause.EVICTION, EventType.TERMINATE: Cause.DELETION}


def schedule(state: State, command: c.ScheduleEvent, now: Instant, policy: Policy) -> list[t.Transition]:
    """An operator raises one event."""
    vms = _one_update_domain(state, command.resources)
    for vm in vms:
        _check_type_fits(vm, command.type)
    event = Event(
        id=_fresh(state, command.event_id),
        type=command.type,
        cause=_CAUSE_OF_TYPE.get(command.type, command.cause),
        scope=scope_of(vms[0]),
        resources=command.resources,
        not_before=now.at,
        notice_ends=now.steady,
        description=_description(command),
        duration=_duration(command),
        update_domain=vms[0].update_domain,
    )
    least = notice.minimum_notice(command.type, _group(state, vms[0]))
    if command.not_before is not None:
        not_before = notice.checked(command.not_before, now, least, policy.commit_allowance)
        return [t.EventRaised(_at(event, not_before, now))]
    return [t.EventRaised(_as_soon_as_allowed(state, event, least, now, policy))]


def planned_event(state: State, vms: list[Vm], plan: Maintenance, event_id: str, now: Instant, policy: Policy) -> Event:
    """The event of one step of a maintenance."""
    event = _event_on(vms, plan.type, plan.cause, event_id, now)
    if plan.description is not None:
        event = event.with_(description=plan.description)
    least = notice.minimum_notice(plan.type, _group(state, vms[0]))
    return _as_soon_as_allowed(state, event.with_(maintenance=plan.id), least, now, policy)


def postpone(state: State, command: c.PostponeEvents, now: Instant, policy: Policy) -> list[t.Transition]:
    """Events that wait for their notice get it whole, although they are seen late (S2)."""
    waiting = _waiting(state, command.event_ids)
    return [t.EventPostponed(later) for event in waiting if (later := _later(state, event, now, command.spare))]


def to_be_seen_by(state: State, event_ids: tuple[str, ...]) -> datetime | None:
    """The last moment at which all of these events can be shown with their full notice (S2)."""
    waiting = _waiting(state, event_ids)
    return min((event.not_before - timedelta(microseconds=_least(state, event)) for event in waiting), default=None)


def operate(state: State, command: c.OperateVm, now: Instant, policy: Policy) -> list[t.Transition]:
    """A user restarts, redeploys or deletes a VM; it raises an event only if somebody listens (F03)."""
    vm = find_vm(state, command.vm)
    if not _is_told(state, vm, command.type):
        return [t.OperationPerformed(vm.name, command.type.value), *_at_once(state, vm, command.type)]
    raised = _user_event(state, vm, command.type, command.event_id, now, policy)
    _refuse_over_limit(state, policy, 1)
    return [raised]


def delete(
    state: State, vms: list[Vm], id_of: Callable[[str], str], now: Instant, policy: Policy
) -> list[t.Transition]:
    """A user deletes many VMs: each is told as if it were deleted alone, or gone at once (G05)."""
    told = [vm for vm in vms if _is_told(state, vm, EventType.TERMINATE)]
    raised = [_user_event(state, vm, EventType.TERMINATE, id_of(vm.name), now, policy) for vm in told]
    _refuse_over_limit(state, policy, len(told))
    names = {vm.name for vm in told}
    return [*raised, *removed(state, [vm for vm in vms if vm.name not in names])]


def evict(state: State, command: c.EvictVm, now: Instant, policy: Policy) -> list[t.Transition]:
    """The platform evicts a spot VM (G04)."""
    vm = find_vm(state, command.vm)
    _check_type_fits(vm, EventType.PREEMPT)
    _refuse_twice(state, vm, EventType.PREEMPT, Cause.EVICTION)
    event = _event_on([vm], EventType.PREEMPT, Cause.EVICTION, _fresh(state, command.event_id), now)
    least = notice.minimum_notice(EventType.PREEMPT, None)
    return [t.EventRaised(_as_soon_as_allowed(state, event, least, now, policy))]


def degrade_host(state: State, command: c.DegradeHost, now: Instant, policy: Policy) -> list[t.Transition]:
    """A predicted failure: each VM of the host gets its own move, days ahead (D03)."""
    host = _find_standing_host(state, command.host)
    least = notice.MINIMUM_SECONDS[EventType.REDEPLOY]
    if not least * MICROS <= command.notice <= notice.LONGEST_PREDICTION_SECONDS * MICROS:
        raise Refused(
            f"A prediction of {seconds(command.notice):g} seconds is out of bounds.",
            hint=f"Use {least} seconds to {notice.LONGEST_PREDICTION_SECONDS} (7 days).",
        )
    not_before = notice.earliest(now, command.notice + policy.commit_allowance)
    told = [vm for vm in state.fleet.on_host(host.name) if _is_predicted_later(state, vm, not_before)]
    # NotBefore never moves earlier (D02): a higher risk is told as another event in place of the first.
    changes = [
        t.HostsPut((Host(host.name, Condition.DEGRADED),)),
        *cancel_predictions(state, told, "The risk has grown."),
    ]
    for vm in told:
        event_id = _fresh(state, derived(command.seed, vm.name))
        event = _event_on([vm], EventType.REDEPLOY, Cause.DEGRADED_HOST, event_id, now)
        changes.append(t.EventRaised(_at(event.with_(host=host.name), not_before, now)))
    return changes


def fail_host(state: State, command: c.FailHost, now: Instant, policy: Policy) -> list[t.Transition]:
    """A failure that has already happened: events that begin as Started, one for each update domain hit (D04)."""
    host = _find_standing_host(state, command.host)
    vms = state.fleet.on_host(host.name)
    changes: list[t.Transition] = [t.HostsPut((Host(host.name, Condition.FAILED),))]
    changes += cancel_predictions(state, vms, "The host has failed.")
    for (scope, _), hit in groupby(in_order(vms, key=_by_domain), key=_by_domain):
        together = list(hit)
        event_id = _fresh(state, derived(command.seed, f"{scope}/{together[0].name}"))
        event = _event_on(together, EventType.REBOOT, Cause.HOST_FAILURE, event_id, now)
        changes.append(t.EventRaised(started(event.with_(host=host.name), Act.HAPPEN, now, policy)))
    return changes


def repair_host(state: State, command: c.RepairHost, now: Instant, policy: Policy) -> list[t.Transition]:
    """The host is healthy again; what its degradation had scheduled is cancelled."""
    host = _find_host(state, command.host)
    predicted = cancel_predictions(state, state.fleet.on_host(host.name), "The host is healthy again.")
    return [t.HostsPut((Host(host.name),)), *predicted]


def started(event: Event, act: Act, now: Instant, policy: Policy) -> Event:
    """The event as it is once its impact has begun."""
    lasts = policy.lasts(event)
    return event.with_(
        phase=move(None if act is Act.HAPPEN else event.phase, act),
        started_at=now.at,
        impact_ends=None if lasts is None else now.steady + lasts,
    )


def find_vm(state: State, name: str) -> Vm:
    """A VM by name, or a refusal that helps."""
    vm = state.fleet.vms.get(name)
    if vm is None:
        raise NotFound(f"There is no VM named {name!r}.", hint="Names are as in the fleet file, in the same case.")
    return vm


def check_description(text: str) -> None:
    """Refuse a description that is too long."""
    if len(text) > LONGEST_DESCRIPTION:
        raise Refused(f"The description has {len(text)} characters.", hint=f"Use {LONGEST_DESCRIPTION} at the most.")


def _is_predicted_later(state: State, vm: Vm, not_before: datetime) -> bool:
    """Whether every predicted event of a VM is still scheduled, and for a later time than this."""
    predicted = [event for event in state.events_of(vm) if event.cause is Cause.DEGRADED_HOST]
    return all(event.phase is Phase.SCHEDULED and event.not_before > not_before for event in predicted)


def _find_host(state: State, name: str) -> Host:
    host = state.fleet.hosts.get(name)
    if host is None:
        raise NotFound(f"There is no host named {name!r}.", hint="Names are as in the fleet file, in the same case.")
    return host


def _find_standing_host(state: State, name: str) -> Host:
    host = _find_host(state, name)
    if host.condition is Condition.FAILED:
        raise Conflict(f"The host {name} has failed already.", hint="Repair it first.")
    return host


def _group(state: State, vm: Vm) -> Group | None:
    return None if vm.group is None else state.fleet.groups.get(vm.group)


def _by_domain(vm: Vm) -> tuple[str, int]:
    scope, update_domain = domain_of(vm)
    return scope, -1 if update_domain is None else update_domain


def _one_update_domain(state: State, names: tuple[str, ...]) -> list[Vm]:
    """The VMs hit, which must lie in one update domain of one scope (B06, S10, S16)."""
    if not names or len(set(names)) != len(names):
        raise Refused("An event needs VMs, each named once.", hint="Name at least one VM and none twice.")
    vms = [find_vm(state, name) for name in names]
    for vm in vms[1:]:
        if domain_of(vm) != domain_of(vms[0]):
            raise Refused(
                f"{vms[0].name} and {vm.name} are not in the same update domain of the same scope.",
                hint="Schedule one event for each update domain, and one for each standalone VM.",
            )
    return vms


def _check_type_fits(vm: Vm, event_type: EventType) -> None:
    if event_type is EventType.PREEMPT and not vm.spot:
        raise Refused(f"{vm.name} is not a spot VM and cannot be evicted.", hint="Only spot VMs get Preempt.")
    if event_type is EventType.TERMINATE and vm.spot:
        raise Refused(f"{vm.name} is a spot VM and never gets Terminate (G05).", hint="Evict it instead.")


def _fresh(state: State, event_id: str) -> str:
    if event_id in state.events:
        raise Conflict(f"There is already an event {event_id}.", hint="Use a new id for every event.")
    return event_id


def derived(seed: str, name: str) -> str:
    """An id for one of many things that one command makes."""
    return str(uuid5(UUID(seed), name)).upper()


def _description(command: c.ScheduleEvent) -> str:
    cause = _CAUSE_OF_TYPE.get(command.type, command.cause)
    text = description_of(command.type, cause) if command.description is None else command.description
    check_description(text)
    return text


def _duration(command: c.ScheduleEvent) -> int:
    if command.duration is None:
        return IMPACT_SECONDS.get(command.type, UNKNOWN_DURATION)
    if not UNKNOWN_DURATION <= command.duration <= LONGEST_DURATION:
        raise Refused(
            f"A duration of {command.duration} seconds is out of bounds.",
            hint=f"Use 0 to {LONGEST_DURATION} seconds, or -1 for unknown.",
        )
    return command.duration


def _event_on(vms: list[Vm], event_type: EventType, cause: Cause, event_id: str, now: Instant) -> Event:
    return Event(
        id=event_id,
        type=event_type,
        cause=cause,
        scope=scope_of(vms[0]),
        resources=tuple(vm.name for vm in vms),
        not_before=now.at,
        notice_ends=now.steady,
        description=description_of(event_type, cause),
        duration=IMPACT_SECONDS.get(event_type, UNKNOWN_DURATION),
        update_domain=vms[0].update_domain,
    )


def _at(event: Event, not_before: datetime, now: Instant) -> Event:
    return event.with_(not_before=not_before, notice_ends=now.steady + micros_of(not_before - now.at))


def _later(state: State, event: Event, now: Instant, spare: int) -> Event | None:
    """The event with its notice from now on; None when enough is left."""
    least = _least(state, event)
    if event.not_before >= now.after(least).at:
        return None
    return _at(event, notice.earliest(now, least + spare), now)


def _least(state: State, event: Event) -> int:
    vm = next((state.fleet.vms[name] for name in event.resources if name in state.fleet.vms), None)
    return notice.minimum_notice(event.type, None if vm is None else _group(state, vm))


def _waiting(state: State, event_ids: tuple[str, ...]) -> list[Event]:
    events = [state.events[event_id] for event_id in event_ids if event_id in state.events]
    return [event for event in events if event.phase is Phase.SCHEDULED and not event.approved_by]


def _as_soon_as_allowed(state: State, event: Event, least: int, now: Instant, policy: Policy) -> Event:
    event = _at(event, notice.earliest(now, least + policy.commit_allowance), now)
    return event if state.enabled(event.scope) else event.with_(approved_by=NOBODY_LISTENS)


def _user_event(
    state: State, vm: Vm, event_type: EventType, event_id: str, now: Instant, policy: Policy
) -> t.EventRaised:
    cause = _CAUSE_OF_TYPE.get(event_type, Cause.USER)
    _refuse_twice(state, vm, event_type, cause)
    event = _event_on([vm], event_type, cause, _fresh(state, event_id), now)
    least = notice.minimum_notice(event_type, _group(state, vm))
    return t.EventRaised(_as_soon_as_allowed(state, event, least, now, policy))


def _is_told(state: State, vm: Vm, event_type: EventType) -> bool:
    """Whether what a user does to a VM raises an event: if somebody listens (F03), and before a delete if asked to."""
    group = _group(state, vm)
    notified = group is not None and group.terminate_notice is not None and not vm.spot
    return state.enabled(scope_of(vm)) and (event_type is not EventType.TERMINATE or notified)


def _at_once(state: State, vm: Vm, event_type: EventType) -> list[t.Transition]:
    if event_type is EventType.REDEPLOY:
        return moved_away(state, [vm])
    return removed(state, [vm]) if event_type is EventType.TERMINATE else []


def _refuse_twice(state: State, vm: Vm, event_type: EventType, cause: Cause) -> None:
    for event in state.events_of(vm):
        if event.type is event_type and event.cause is cause:
            raise Conflict(
                f"{vm.name} already has this operation under way: event {event.id}.",
                hint="Wait for it, approve it, or cancel it first.",
            )


def _refuse_over_limit(state: State, policy: Policy, more: int) -> None:
    """The preview allowed ten user operations at once (G03)."""
    limit = policy.user_operations_limit
    if not limit or not more:
        return
    waiting = sum(e.cause in BY_USER and e.phase is Phase.SCHEDULED for e in state.events.values())
    if waiting + more > limit:
        raise Refused(
            f"{waiting} user operations are scheduled; {more} more would be over the limit of {limit}.",
            hint="Wait until some have started, or raise user_operations_limit.",
        )
