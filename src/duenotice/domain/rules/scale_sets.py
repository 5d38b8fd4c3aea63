"""The rules of scale sets: another capacity, instances deleted; each is done as a whole or refused (E05, G05)."""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from ipaddress import ip_network
from itertools import islice
from operator import itemgetter

from msgspec import structs

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.bulk import chunks, derived, in_order
from duenotice.domain.event import REMOVALS, EventType
from duenotice.domain.fleet import LARGEST_SCALE_SET, Group, Vm
from duenotice.domain.policy import Policy
from duenotice.domain.rules.creation import delete, operate, refuse_over_limit
from duenotice.domain.rules.timing import LONGEST_TERMINATE_SECONDS, MINIMUM_SECONDS
from duenotice.domain.state import State, find_instance, find_scale_set
from duenotice.errors import Refused

SHORTEST = MINIMUM_SECONDS[EventType.TERMINATE]


def scale(state: State, command: c.ScaleSet, now: Instant, policy: Policy) -> list[t.Transition]:
    """Add or remove instances until the capacity is reached; instances that are about to be removed do not count."""
    group = find_scale_set(state, command.name)
    present = staying(state, group)
    wanted = len(present) + command.by if command.capacity is None else command.capacity
    if not 0 <= wanted <= LARGEST_SCALE_SET:
        raise Refused(f"A capacity of {wanted} is out of bounds.", hint=f"Use 0 to {LARGEST_SCALE_SET}.")
    if wanted >= len(present):
        return [t.VmsPut(some) for some in chunks(_new(state, group, wanted - len(present)))]
    going = _last_come(present, group, len(present) - wanted)
    return delete(state, going, partial(derived, command.seed), now, policy)


def delete_instances(state: State, command: c.DeleteInstances, now: Instant, policy: Policy) -> list[t.Transition]:
    """Remove the named instances; if one does not exist, none is removed."""
    vms = _named(state, command.name, command.vms)
    return delete(state, vms, partial(derived, command.seed), now, policy)


def operate_instances(state: State, command: c.OperateInstances, now: Instant, policy: Policy) -> list[t.Transition]:
    """Restart, reimage or redeploy the named instances, each as if it were alone; if one is refused, all are."""
    vms, seed = _named(state, command.name, command.vms), command.seed
    alone = (c.OperateVm(derived(seed, vm.name), vm.name, command.type, command.reimage) for vm in vms)
    changes = [change for one in alone for change in operate(state, one, now, policy)]
    refuse_over_limit(state, policy, changes)
    return changes


def change(state: State, command: c.ChangeScaleSet, now: Instant, policy: Policy) -> list[t.Transition]:
    """Another notice, another capacity; what leaves in the same change is told as before it."""
    group, asked = find_scale_set(state, command.name), command.terminate_notice
    wanted = group.terminate_notice if asked is None else asked or None
    if wanted is not None and not SHORTEST <= wanted <= LONGEST_TERMINATE_SECONDS:
        raise Refused(
            f"A notice of {wanted} seconds before Terminate is out of bounds.",
            hint=f"Use {SHORTEST} to {LONGEST_TERMINATE_SECONDS} seconds, or turn it off.",
        )
    told = group.os_image_notice if command.os_image_notice is None else command.os_image_notice
    now_so = structs.replace(group, terminate_notice=wanted, os_image_notice=told)
    changes: list[t.Transition] = [] if now_so == group else [t.GroupsPut((now_so,))]
    if command.capacity is not None:
        changes += scale(state, c.ScaleSet(command.name, command.seed, command.capacity), now, policy)
    return changes


def _named(state: State, name: str, vms: tuple[str, ...]) -> list[Vm]:
    group = find_scale_set(state, name)
    if not vms or len(set(vms)) != len(vms):
        raise Refused("Name the instances, each once.", hint="Name at least one and none twice.")
    return [find_instance(state, group, vm) for vm in vms]


def staying(state: State, group: Group) -> list[Vm]:
    """The instances of a scale set that are not about to be removed."""
    leaving = {name for event in state.events.values() if event.type in REMOVALS for name in event.resources}
    return [vm for vm in state.fleet.vms.values() if vm.group == group.key and vm.name not in leaving]


def _last_come(vms: list[Vm], group: Group, count: int) -> list[Vm]:
    """Always one from the fault domain that has most left, the highest number first, as Azure's default does it."""
    domains: dict[int | None, list[tuple[int, Vm]]] = defaultdict(list)
    for vm in vms:
        domains[vm.fault_domain].append((_number(vm, group), vm))
    ranked = [
        (rank, number, vm.name, vm)
        for members in domains.values()
        for rank, (number, vm) in enumerate(in_order(members, key=itemgetter(0)))
    ]
    return [vm for *_, vm in reversed(list(in_order(ranked, key=itemgetter(0, 1, 2))))][:count]


def _number(vm: Vm, group: Group) -> int:
    suffix = vm.name.removeprefix(f"{group.name}_")
    return int(suffix) if suffix.isdecimal() else -1


def _new(state: State, group: Group, count: int) -> list[Vm]:
    """Instances with the lowest free numbers; number and address go together, as in a fleet file."""
    if not count:
        return []
    if not group.addresses:
        raise Refused(
            f"It is not known which addresses {group.name} may use.", hint="Apply its fleet file once more, then scale."
        )
    found = list(islice(_free(state, group), count))
    if len(found) < count:
        raise Refused(
            f"{group.addresses} has room for {len(found)} more instances of {group.name}, not {count}.",
            hint="Scale out by less, or apply a fleet file with a larger network.",
        )
    return found


def _free(state: State, group: Group) -> Iterator[Vm]:
    """A name that is still in an event is not free: a new VM of that name must not be hit instead of the old one.

    It is looked up where it stands: to gather all names and addresses of a million would stop the other threads.
    """
    names, addresses, on = state.fleet.vms, state.fleet.by_address, state.events_by_vm
    for number, address in enumerate(ip_network(group.addresses).hosts()):
        vm = group.instance(number, str(address))
        if vm.name not in names and vm.name not in on and vm.address not in addresses:
            yield vm
