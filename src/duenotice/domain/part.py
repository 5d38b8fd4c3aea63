"""The part of a state that some VMs are answered from: themselves, their groups, and the scopes that they read."""

from collections.abc import Collection

from duenotice.domain.scope import scope_of
from duenotice.domain.snapshot import ScopeSnapshot, Snapshot
from duenotice.domain.state import State
from duenotice.domain.touched import Touched


def part_of(state: State, names: Collection[str]) -> Snapshot:
    """What these VMs are answered from, as a snapshot; names that no VM has are left out."""
    fleet = state.fleet
    vms = tuple(vm for name in names if (vm := fleet.vms.get(name)) is not None)
    scopes = {key: known for key in map(scope_of, vms) if (known := state.scopes.get(key)) is not None}
    groups = {vm.group for vm in vms}
    return Snapshot(
        position=state.position,
        at=state.at,
        digest=fleet.digest,
        site=fleet.site,
        groups=tuple(group for key in groups if (group := fleet.groups.get(key or "")) is not None),
        vms=vms,
        scopes=tuple(ScopeSnapshot(key, known.incarnation, known.enabled) for key, known in scopes.items()),
        events=tuple(event for key in scopes for event in state.events_in(key)),
        floor=state.floor,
    )


def difference(before: State, after: State) -> Touched:
    """What a door has to look at again when one part takes the place of another."""
    vms = {name for name in before.fleet.vms.keys() | after.fleet.vms.keys() if _differs(before, after, name)}
    both = [vm for name in vms for state in (before, after) if (vm := state.fleet.vms.get(name)) is not None]
    keys = before.scopes.keys() | after.scopes.keys()
    scopes = {key for key in keys if before.scopes.get(key) != after.scopes.get(key)} | set(map(scope_of, both))
    return Touched(scopes, vms, {vm.address for vm in both}, before.floor != after.floor)


def _differs(before: State, after: State, name: str) -> bool:
    return before.fleet.vms.get(name) != after.fleet.vms.get(name)
