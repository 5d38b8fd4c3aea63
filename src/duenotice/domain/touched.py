"""What some records touch: only what is derived from that has to be derived again."""

from collections.abc import Iterable
from typing import NamedTuple

from duenotice.domain.scope import ALONE, group_of, scope_of
from duenotice.domain.state import State
from duenotice.domain.transitions import Record


class Touched(NamedTuple):
    """Names of VMs that came, went or changed, all addresses they had or have, and the scopes to look at again."""

    scopes: set[str]
    vms: set[str]
    addresses: set[str]
    everything: bool = False


def touched(before: State, after: State, records: Iterable[Record]) -> Touched:
    """What differs between two states, by the records between them."""
    scopes: set[str] = set()
    names: set[str] = set()
    groups: set[str] = set()
    everything = False
    for record in records:
        change = record.transition
        scopes.update(change.touched_scopes)
        names.update(change.touched_vms)
        groups.update(change.touched_groups)
        everything = everything or change.touches_everything
    if groups:
        scopes.update(scope for scope in before.scopes if group_of(scope) in groups)
    if not names:  # as nearly always: each commit waits for this
        return Touched(scopes, names, set(), everything)
    vms = [vm for name in names for state in (before, after) if (vm := state.fleet.vms.get(name)) is not None]
    scopes.update(map(scope_of, vms))
    # A VM that is told alone and joins others takes along what was left of its own scope.
    scopes.update(key for name in names if (key := ALONE + name) in before.scopes)
    return Touched(scopes, names, {vm.address for vm in vms}, everything)
