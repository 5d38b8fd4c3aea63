"""How events are raised: by operators, by users, for spot VMs; and what owners have approved beforehand (M07-M09)."""

from collections.abc import Callable, Iterable, Sequence

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.event import (
    BY_USER,
    IMPACT_SECONDS,
    LONGEST_DESCRIPTION,
    LONGEST_DURATION,
    MOST_RESOURCES,
    UNKNOWN_DURATION,
    Act,
    Cause,
    Event,
    EventType,
    Phase,
    description_of,
)
from duenotice.domain.fleet import ALONE, EventsPolicy, Group, GroupKind, Vm, alone_in, domain_of, scope_of
from duenotice.domain.plan import Maintenance
from duenotice.domain.policy import Policy
from duenotice.domain.rules import timing
from duenotice.domain.rules.lifecycle import moved_away, removed
from duenotice.domain.rules.timing import started
from duenotice.domain.state import State, find_group, find_vm, group_of_vm
from duenotice.domain.window import WindowSpan, opening
from duenotice.errors import Conflict, Refused

APPROVED_BEFOREHAND = "policy"
"""Approves for the owner, who has said so beforehand."""

AT_ONCE = "starts at once: policy"
"""What a plan says of a step that the owner's policy has approved."""


def set_events_policy(state: State, command: c.SetEventsPolicy, now: Instant, policy: Policy) -> list[t.Transition]:
    """The owner of a VM, a set or a scale set says what is approved beforehand; events that exist stay as they are."""
    present = _owned(state, command.of).events_policy
    asked = command.policy.over(present) if command.keep else command.policy
    return [] if asked == present else [t.EventsPolicySet(command.of, asked)]


def approves(state: State, event: Event) -> bool:
    """Whether the owner of each VM that a new event hits has approved it beforehand."""
    operation, all_down = event.cause is Cause.USER, _all_down(state, event.scope)
    for vm in (state.fleet.vms[name] for name in event.resources):
        if not operation and not all_down:
            return False  # mostly at the first: an event may hit very many
        wish = in_force(state, vm)
        operation = operation and bool(_approves_operation(wish, event.type))
        all_down = all_down and wish.all_instances_down is not False  # on, unless an owner says otherwise (M14)
    return operation or all_down


def in_force(state: State, vm: Vm) -> EventsPolicy:
    """What counts for a VM: what its set says, and where it is in none what it says itself (M14)."""
    group = group_of_vm(state, vm)
    return vm.events_policy if group is None or group.kind is GroupKind.CLOUD_SERVICE else group.events_policy


def _approves_operation(wish: EventsPolicy, event_type: EventType) -> bool | None:
    if event_type is EventType.REBOOT:
        return wish.user_initiated_reboot
    return event_type is EventType.REDEPLOY and wish.user_initiated_redeploy


def _all_down(state: State, scope: str) -> bool:
    """Whether each VM that would be told is down: nobody is left who could prepare or approve (decision 0013)."""
    vms_there = state.scope_sizes.get(scope, 0) if alone_in(scope) is None else 1
    hits = [event.resources for event in state.events_in(scope) if _takes_down(event)]
    if sum(map(len, hits)) < vms_there:
        return False  # nearly always: nobody looks at single VMs
    hit = {name for names in hits for name in names}
    down = [name for name in hit if (vm := state.fleet.vms.get(name)) is not None and scope_of(vm) == scope]
    return len(down) == vms_there


def _takes_down(event: Event) -> bool:
    """A VM that is frozen keeps its memory, and goes on by itself."""
    return event.phase is Phase.STARTED and event.type is not EventType.FREEZE


def _owned(state: State, of: str) -> Vm | Group:
    if of.startswith(ALONE):
        vm = find_vm(state, of.removeprefix(ALONE))
        if (owner := group_of_vm(state, vm)) is not None and owner.kind is not GroupKind.CLOUD_SERVICE:
            raise Refused(
                f"{vm.name} is in {owner.key}: a policy belongs to all of it (M14).",
                hint=f"Set the policy of {owner.key}.",
            )
        return vm
    group = find_group(state, of)
    if group.kind is GroupKind.CLOUD_SERVICE:
        raise Refused("A cloud service has no policy for events.", hint="Give its VMs one.")
    return group


NOBODY_LISTENS = "nobody-listens"
"""Approves for a scope that does not listen: maintenance goes ahead without waiting (F03)."""

_CAUSE_OF_TYPE = {
    EventType.PREEMPT: Cause.EVICTION,
    EventType.TERMINATE: Cause.DELETION,
    EventType.SPOT_REBALANCE_RECOMMENDATION: Cause.REBALANCE,
}


def schedule(state: State, command: c.ScheduleEvent, now: Instant, policy: Policy) -> list[t.Transition]:
    """An operator raises one event."""
    vms = _one_update_domain(state, command.resources)
    for vm in vms:
        _check_type_fits(vm, command.type)
    if command.type is EventType.SPOT_REBALANCE_RECOMMENDATION:
        _check_advice(state, vms, policy)
    event = Event(
        id=fresh_id(state, command.event_id),
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
    least = timing.minimum_notice(command.type, group_of_vm(state, vms[0]))
    if command.not_before is not None:
        not_before = timing.checked(command.not_before, now, least, policy.commit_allowance)
        return [t.EventRaised(timing.moved_to(event, not_before, now))]
    return [t.EventRaised(_as_soon_as_allowed(state, event, least, now, policy))]


def planned_event(state: State, vms: list[Vm], plan: Maintenance, event_id: str, now: Instant, policy: Policy) -> Event:
    """The event of one step of a maintenance."""
    event = event_on(vms, plan.type, plan.cause, event_id, now)
    if plan.description is not None:
        event = event.with_(description=plan.description)
    least = timing.minimum_notice(plan.type, group_of_vm(state, vms[0]))
    event = _as_soon_as_allowed(state, event.with_(maintenance=plan.id), least, now, policy)
    return event if plan.present_span is None else _inside(event, plan.present_span, now)


def _inside(event: Event, span: WindowSpan, now: Instant) -> Event:
    """The event as one that hits inside this span (decision 0014)."""
    begins = max(event.not_before, timing.whole_second(span.begins))
    return timing.moved_to(event, begins, now).with_(opening=opening(span, now))


def operate(state: State, command: c.OperateVm, now: Instant, policy: Policy) -> list[t.Transition]:
    """A user restarts, reimages, redeploys or deletes a VM; it raises an event only if somebody listens (F03)."""
    vm, cause = find_vm(state, command.vm), _cause_of(command)
    if not _is_told(state, vm, command.type, cause):
        name = cause.value if cause is Cause.REIMAGE else command.type.value
        return [t.OperationPerformed(vm.name, name), *_at_once(state, vm, command.type)]
    raised = _user_event(state, vm, command.type, cause, command.event_id, now, policy)
    refuse_over_limit(state, policy, [raised])
    return [raised]


def delete(
    state: State, vms: list[Vm], id_of: Callable[[str], str], now: Instant, policy: Policy
) -> list[t.Transition]:
    """A user deletes many VMs: each is told as if it were deleted alone, or gone at once (G05)."""
    told = [vm for vm in vms if _is_told(state, vm, EventType.TERMINATE, Cause.DELETION)]
    raised = [_user_event(state, vm, EventType.TERMINATE, Cause.DELETION, id_of(vm.name), now, policy) for vm in told]
    refuse_over_limit(state, policy, raised)
    names = {vm.name for vm in told}
    return [*raised, *removed(state, [vm for vm in vms if vm.name not in names])]


def evict(state: State, command: c.EvictVm, now: Instant, policy: Policy) -> list[t.Transition]:
    """The platform evicts a spot VM (G04)."""
    vm = find_vm(state, command.vm)
    _check_type_fits(vm, EventType.PREEMPT)
    _refuse_twice(state, vm, EventType.PREEMPT, Cause.EVICTION)
    event = event_on([vm], EventType.PREEMPT, Cause.EVICTION, fresh_id(state, command.event_id), now)
    least = timing.minimum_notice(EventType.PREEMPT, None)
    return [t.EventRaised(_as_soon_as_allowed(state, event, least, now, policy))]


def check_description(text: str) -> None:
    """Refuse a description that is too long."""
    if len(text) > LONGEST_DESCRIPTION:
        raise Refused(f"The description has {len(text)} characters.", hint=f"Use {LONGEST_DESCRIPTION} at the most.")


def _one_update_domain(state: State, names: tuple[str, ...]) -> list[Vm]:
    """The VMs hit, which must lie in one update domain of one scope (B06, S10, S16)."""
    if not names or len(set(names)) != len(names):
        raise Refused("An event needs VMs, each named once.", hint="Name at least one VM and none twice.")
    if len(names) > MOST_RESOURCES:
        raise Refused(f"One event cannot hit {len(names):,} VMs.", hint=f"Name {MOST_RESOURCES:,} at the most in each.")
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
    if event_type is EventType.SPOT_REBALANCE_RECOMMENDATION and not vm.spot:
        raise Refused(f"{vm.name} is not a spot VM and is never advised to move.", hint="Name spot VMs only.")
    if event_type is EventType.TERMINATE and vm.spot:
        raise Refused(f"{vm.name} is a spot VM and never gets Terminate (G05).", hint="Evict it instead.")


def fresh_id(state: State, event_id: str) -> str:
    """The id for a new event, which no other has."""
    if event_id in state.events:
        raise Conflict(f"There is already an event {event_id}.", hint="Use a new id for every event.")
    return event_id


def _check_advice(state: State, vms: list[Vm], policy: Policy) -> None:
    if not policy.spot_rebalance:
        raise Refused("This service gives no advice to spot VMs.", hint="Start it with --spot-rebalance.")
    for vm in vms:
        _refuse_twice(state, vm, EventType.SPOT_REBALANCE_RECOMMENDATION, Cause.REBALANCE)


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


def event_on(vms: Sequence[Vm], event_type: EventType, cause: Cause, event_id: str, now: Instant) -> Event:
    """An event that hits these VMs, with the words and times that such events have."""
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


def _as_soon_as_allowed(state: State, event: Event, least: int, now: Instant, policy: Policy) -> Event:
    event = timing.moved_to(event, timing.earliest(now, least + policy.commit_allowance), now)
    if event.is_advice:
        return event
    if not state.enabled(event.scope):
        return event.with_(approved_by=NOBODY_LISTENS)
    if not approves(state, event):
        return event
    approved = event.with_(approved_by=APPROVED_BEFOREHAND)
    # What a user does waits for nobody else, so it is never seen as Scheduled (M09); other events may have to wait.
    return started(approved, Act.HAPPEN, now, policy) if event.cause is Cause.USER else approved


def _cause_of(command: c.OperateVm) -> Cause:
    return Cause.REIMAGE if command.reimage else _CAUSE_OF_TYPE.get(command.type, Cause.USER)


def _user_event(
    state: State, vm: Vm, event_type: EventType, cause: Cause, event_id: str, now: Instant, policy: Policy
) -> t.EventRaised:
    _refuse_twice(state, vm, event_type, cause)
    event = event_on([vm], event_type, cause, fresh_id(state, event_id), now)
    least = timing.minimum_notice(event_type, group_of_vm(state, vm))
    return t.EventRaised(_as_soon_as_allowed(state, event, least, now, policy))


def _is_told(state: State, vm: Vm, event_type: EventType, cause: Cause) -> bool:
    """Whether what a user does to a VM raises an event: if somebody listens (F03).

    Before a delete (G05) and before its OS image is replaced (M15) only if its scale set asks for that.
    """
    group = group_of_vm(state, vm)
    if event_type is EventType.TERMINATE:
        wanted = group is not None and group.terminate_notice is not None and not vm.spot
    else:
        wanted = cause is not Cause.REIMAGE or (group is not None and group.os_image_notice)
    return wanted and state.enabled(scope_of(vm))


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


def refuse_over_limit(state: State, policy: Policy, changes: Iterable[t.Transition]) -> None:
    """The preview allowed ten user operations at once (G03); what has started at once does not wait."""
    raised = (change.event for change in changes if isinstance(change, t.EventRaised))
    limit, more = policy.user_operations_limit, sum(event.phase is Phase.SCHEDULED for event in raised)
    if not limit or not more:
        return
    waiting = sum(e.cause in BY_USER and e.phase is Phase.SCHEDULED for e in state.events.values())
    if waiting + more > limit:
        raise Refused(
            f"{waiting} user operations are scheduled; {more} more would be over the limit of {limit}.",
            hint="Wait until some have started, or raise user_operations_limit.",
        )
