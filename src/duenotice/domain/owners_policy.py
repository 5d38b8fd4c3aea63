"""What owners decide about events beforehand: some are approved as soon as they are raised (M09)."""

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.event import Cause, Event, EventType, Phase
from duenotice.domain.fleet import EventsPolicy, Group, GroupKind, Vm
from duenotice.domain.lookup import find_group, find_vm, group_of_vm
from duenotice.domain.policy import Policy
from duenotice.domain.scope import ALONE, alone_in, scope_of
from duenotice.domain.state import State
from duenotice.errors import Refused

OWNERS_POLICY = "policy"
"""Approves for the owner, who has said so beforehand."""

AT_ONCE = "starts at once: policy"
"""What a plan says of a step that the owner's policy has approved."""


def put(state: State, command: c.SetEventsPolicy, now: Instant, policy: Policy) -> list[t.Transition]:
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
    residents = state.residents.get(scope, 0) if alone_in(scope) is None else 1
    hits = [event.resources for event in state.events_in(scope) if _takes_down(event)]
    if sum(map(len, hits)) < residents:
        return False  # nearly always: nobody looks at single VMs
    hit = {name for names in hits for name in names}
    down = [name for name in hit if (vm := state.fleet.vms.get(name)) is not None and scope_of(vm) == scope]
    return len(down) == residents


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
