"""The fleet in numbers: how many VMs of each group are in which state, and how many would be told before an impact."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from duenotice.domain.fleet import ALONE, Vm
from duenotice.domain.state import State
from duenotice.operator_api.vm_states import VmStates
from duenotice.wire import operator as o
from duenotice.wire.operator import STATES

Place = tuple[int | None, str | None]
"""An update domain, or the zone of VMs without a group."""

Row = list[int]
"""How many VMs are in each of the states, in their order, and at the end how many listen."""

Alike = tuple[str | None, int | str | None, int | None, str | None, str]
"""A group, a part of it that is told as a whole, a place and a state."""

_RANK = {state: rank for rank, state in enumerate(STATES)}
_LISTENING = len(STATES)


class Numbers:
    """VMs by group and place; a group is put into words only when it is shown, because there may be thousands."""

    def __init__(self, state: State, vms: Collection[Vm], of: Callable[[Vm], str]) -> None:
        self._scopes, sums = state.scopes, [0] * (_LISTENING + 1)
        self._alike: dict[str | None, list[tuple[Alike, int]]] = {}
        self._ranks: dict[str | None, int] = {}
        for alike, count in _alike(vms, of).items():
            group, rank = alike[0], _RANK[alike[4]]
            self._alike.setdefault(group, []).append((alike, count))
            self._ranks[group] = min(rank, self._ranks.get(group, rank))
            sums[rank] += count
            sums[_LISTENING] += count if self._listens(alike) else 0
        self._alone = _listening_alone(state, vms if None in self._ranks else ())
        sums[_LISTENING] += self._alone.total()
        self._keys = sorted(self._ranks, key=lambda key: (self._ranks[key], key or ""))
        self.whole = _counted([sums])

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self._keys)

    def groups(self, most: int) -> tuple[o.GroupStates, ...]:
        """The most urgent groups."""
        return tuple(map(self._group, self._keys[:most]))

    def _listens(self, alike: Alike) -> bool:
        group, part = alike[:2]
        if group is None:
            return False  # each VM is a scope of its own
        known = self._scopes.get(group if part is None else f"{group}/{part}")
        return known is not None and known.enabled

    def _group(self, key: str | None) -> o.GroupStates:
        rows: dict[Place, Row] = {}
        for alike, count in self._alike[key]:
            row = rows.setdefault(alike[2:4], [0] * (_LISTENING + 1))
            row[_RANK[alike[4]]] += count
            row[_LISTENING] += count if self._listens(alike) else 0
        for place, heard in self._alone.items() if key is None else ():
            rows[place][_LISTENING] += heard
        places = sorted(rows.items(), key=lambda item: (item[0][0] or 0, item[0][1] or ""))
        whole = _counted(rows.values())
        cut = tuple(_column(place, row) for place, row in places)
        return o.GroupStates(key, whole.vms, whole.counts, whole.listening, cut)


class KnownNumbers:
    """The numbers of the whole fleet, counted once for each position of the journal: pages ask for them often."""

    def __init__(self) -> None:
        self._known: tuple[int, Numbers] | None = None

    def of(self, state: State) -> Numbers:
        """The numbers of a state."""
        if self._known is None or self._known[0] != state.position:
            self._known = state.position, Numbers(state, state.fleet.vms.values(), VmStates(state).of)
        return self._known[1]


def _alike(vms: Iterable[Vm], of: Callable[[Vm], str]) -> dict[Alike, int]:
    """VMs of one scope, place and state together: there are far fewer of these than VMs."""
    found: dict[Alike, int] = {}
    for vm in vms:
        part = f"{ALONE}{vm.name}" if vm.is_told_alone else vm.placement_group
        alike = (vm.group, part, vm.update_domain, None if vm.group else vm.zone, of(vm))
        found[alike] = found.get(alike, 0) + 1
    return found


def _listening_alone(state: State, vms: Iterable[Vm]) -> Counter[Place]:
    """How many VMs without a group listen, by place."""
    alone = (vm for vm in vms if vm.group is None)
    return Counter((vm.update_domain, vm.zone) for vm in alone if state.enabled(ALONE + vm.name))


def _counted(rows: Iterable[Row]) -> o.Counted:
    sums = [0] * (_LISTENING + 1)
    for row in rows:
        for rank, number in enumerate(row):
            sums[rank] += number
    return o.Counted(sum(sums[:_LISTENING]), dict(zip(STATES, sums, strict=False)), sums[_LISTENING])


def _column(place: Place, row: Row) -> o.Column:
    return o.Column(sum(row[:_LISTENING]), dict(zip(STATES, row, strict=False)), row[_LISTENING], *place)
