"""The fleet in numbers: how many VMs of each group are in which state, and how many would be told before an impact."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from duenotice.domain.fleet import Vm
from duenotice.domain.scope import ALONE
from duenotice.domain.state import State
from duenotice.operator_api.vm_states import VmStates
from duenotice.wire import operator as o
from duenotice.wire.operator import STATES

Place = tuple[int | None, str | None]
"""An update domain, or the zone of VMs without a group."""


class Cells(NamedTuple):
    """What is counted in one place: VMs by state, and how many listen."""

    states: Counter[str]
    listening: int


def counted(state: State, vms: Collection[Vm], of: Callable[[Vm], str]) -> list[o.GroupStates]:
    """These VMs by group, the most urgent groups first; `of` tells the state of one."""
    groups: dict[str | None, dict[Place, Cells]] = {}
    for (group, pages, domain, zone, found), count in _alike(vms, of).items():
        places = groups.setdefault(group, {})
        known = places.get((domain, zone), Cells(Counter(), 0))
        known.states[found] += count
        heard = count if group is not None and state.enabled(_scope(group, pages)) else 0
        places[domain, zone] = Cells(known.states, known.listening + heard)
    _add_those_alone(state, vms, groups)
    return sorted((_group(key, places) for key, places in groups.items()), key=_urgency)


def added(groups: Iterable[o.Counted | o.GroupStates]) -> o.Counted:
    """The sum of several."""
    total: Counter[str] = Counter()
    listening = 0
    for group in groups:
        total.update(group.counts)
        listening += group.listening
    return o.Counted(total.total(), _all(total), listening)


class KnownNumbers:
    """The numbers of the whole fleet, counted once for each position of the journal: pages ask for them often."""

    def __init__(self) -> None:
        self._known: tuple[int, list[o.GroupStates]] = (-1, [])

    def of(self, state: State) -> list[o.GroupStates]:
        """The groups of a state with their numbers."""
        position, groups = self._known
        if position != state.position:
            groups = counted(state, state.fleet.vms.values(), VmStates(state).of)
            self._known = (state.position, groups)
        return groups


Alike = tuple[str | None, int | None, int | None, str | None, str]


def _alike(vms: Iterable[Vm], of: Callable[[Vm], str]) -> dict[Alike, int]:
    """VMs of one scope, place and state together: there are far fewer of these than VMs."""
    found: dict[Alike, int] = {}
    for vm in vms:
        alike = (vm.group, vm.placement_group, vm.update_domain, None if vm.group else vm.zone, of(vm))
        found[alike] = found.get(alike, 0) + 1
    return found


def _scope(group: str, placement_group: int | None) -> str:
    return group if placement_group is None else f"{group}/{placement_group}"


def _add_those_alone(state: State, vms: Collection[Vm], groups: dict[str | None, dict[Place, Cells]]) -> None:
    """VMs without a group are a scope each, so each is looked up."""
    if None not in groups:
        return
    places = groups[None]
    for vm in vms:
        if vm.group is None and state.enabled(ALONE + vm.name):
            place = (vm.update_domain, vm.zone)
            places[place] = places[place]._replace(listening=places[place].listening + 1)


def _group(key: str | None, places: dict[Place, Cells]) -> o.GroupStates:
    ordered = sorted(places.items(), key=lambda item: (item[0][0] or 0, item[0][1] or ""))
    cut = tuple(
        o.Column(cells.states.total(), _all(cells.states), cells.listening, domain, zone)
        for (domain, zone), cells in ordered
    )
    whole = added(cut)
    return o.GroupStates(key, whole.vms, whole.counts, whole.listening, cut)


def _all(counts: Counter[str]) -> dict[str, int]:
    """How many VMs are in each state; every state is listed."""
    return {state: counts[state] for state in STATES}


def _urgency(group: o.GroupStates) -> tuple[int, str]:
    return next(rank for rank, state in enumerate(STATES) if group.counts[state]), group.key or ""
