"""Finding what a command names, or a refusal that helps."""

from duenotice.domain.fleet import Condition, Group, GroupKind, Host, Vm
from duenotice.domain.progress import Progress
from duenotice.domain.state import State
from duenotice.errors import Conflict, LookAt, NotFound
from duenotice.toml import missing


def find_vm(state: State, name: str) -> Vm:
    """A VM by name."""
    vm = state.fleet.vms.get(name)
    if vm is None:
        raise missing(f"There is no VM named {name!r}.", name, state.fleet.vms, LookAt.VMS)
    return vm


def group_of_vm(state: State, vm: Vm) -> Group | None:
    """None for a VM that stands alone."""
    return None if vm.group is None else state.fleet.groups.get(vm.group)


def find_host(state: State, name: str) -> Host:
    """A host by name."""
    host = state.fleet.hosts.get(name)
    if host is None:
        raise missing(f"There is no host named {name!r}.", name, state.fleet.hosts, LookAt.HOSTS)
    return host


def find_standing_host(state: State, name: str) -> Host:
    """A host that has not failed."""
    host = find_host(state, name)
    if host.condition is Condition.FAILED:
        raise Conflict(f"The host {name} has failed already.", hint="Repair it first.")
    return host


def find_group(state: State, key: str) -> Group:
    """A group by its key."""
    group = state.fleet.groups.get(key)
    if group is None:
        raise missing(f"There is no group {key!r}.", key, state.fleet.groups, LookAt.GROUPS)
    return group


def find_scale_set(state: State, name: str) -> Group:
    """A scale set by name."""
    group = state.fleet.groups.get(f"{GroupKind.SCALE_SET.value}/{name}")
    if group is None:
        sets = (each.name for each in state.fleet.groups.values() if each.kind is GroupKind.SCALE_SET)
        raise missing(f"There is no scale set named {name!r}.", name, sets, LookAt.GROUPS)
    return group


def find_instance(state: State, group: Group, name: str) -> Vm:
    """An instance of a scale set by name."""
    vm = state.fleet.vms.get(name)
    if vm is None or vm.group != group.key:
        raise NotFound(f"{group.name} has no instance {name!r}.", look_at=LookAt.VMS)
    return vm


def find_plan(state: State, maintenance_id: str) -> Progress:
    """A plan by its id."""
    progress = state.plans.get(maintenance_id)
    if progress is None:
        raise NotFound(f"There is no maintenance {maintenance_id}.", look_at=LookAt.MAINTENANCES)
    return progress
