"""What some VMs are answered from, cut out of the whole state, and what differs between two such parts."""

import pytest

from duenotice.domain.commands import CancelEvent, LiftIncarnations
from duenotice.domain.fleet import scope_of
from duenotice.domain.snapshot import difference, partial_snapshot, restore
from duenotice.domain.state import State
from tests.unit.domain.build import EVERYBODY, VMS, do, listening, schedule


def part(state: State, *names: str) -> State:
    """The part of these VMs, as a follower has it."""
    return restore(partial_snapshot(state, names))


@pytest.mark.parametrize("name", EVERYBODY)
def test_a_vm_reads_the_same_from_its_part_as_from_the_whole(name: str) -> None:
    """Document, incarnation and whether it listens, and all that it is told about itself (S4)."""
    state = listening()
    for number, each in enumerate(EVERYBODY, start=1):
        schedule(state, each, number=number)
    vm = state.fleet.vms[name]
    alone, scope, group = part(state, name), scope_of(vm), vm.group or ""
    assert alone.document(scope) == state.document(scope)
    assert alone.enabled(scope)
    assert alone.fleet.by_address == {vm.address: vm}
    assert alone.fleet.groups.get(group) == state.fleet.groups.get(group)
    assert (alone.position, alone.fleet.site) == (state.position, state.fleet.site)


def test_a_part_has_nothing_of_other_scopes() -> None:
    state = listening()
    first, other = VMS[0], next(vm for vm in VMS if scope_of(vm) != scope_of(VMS[0]))
    schedule(state, other.name)
    alone = part(state, first.name, "nobody")
    assert set(alone.fleet.vms) == {first.name}
    assert set(alone.scopes) == {scope_of(first)}
    assert not alone.events


def test_scopes_that_never_had_an_event_keep_the_floor() -> None:
    state = listening()
    do(state, LiftIncarnations(1000))
    assert part(state, VMS[0].name).incarnation("vm/never") == state.incarnation("vm/never")


def test_a_difference_names_what_a_door_has_to_look_at_again() -> None:
    """A scope whose document has changed, a VM that came or went with its address and scope, and nothing else."""
    state, (one, two) = listening(), (VMS[0], next(vm for vm in VMS if scope_of(vm) != scope_of(VMS[0])))
    before = part(state, one.name)
    event = schedule(state, one.name)
    assert difference(before, part(state, one.name)).scopes == {scope_of(one)}
    both = part(state, one.name, two.name)
    came = difference(part(state, one.name), both)
    assert (came.vms, came.addresses, came.scopes) == ({two.name}, {two.address}, {scope_of(two)})
    assert difference(both, both) == (set(), set(), set(), False)
    do(state, CancelEvent(event.id))
    do(state, LiftIncarnations(5))
    assert difference(both, part(state, one.name, two.name)).everything
