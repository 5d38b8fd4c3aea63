"""An older journal put in place must not show numbers again that VMs have seen with other content (S3, S4)."""

import pytest

from duenotice.domain.apply import apply
from duenotice.domain.commands import EnableScope, LiftIncarnations
from duenotice.domain.fleet import Vm
from duenotice.domain.records import VmsPut, VmsRemoved
from duenotice.domain.rules.decide import FAR_AHEAD
from duenotice.domain.snapshot import restore, take
from tests.unit.domain.build import do, listening, schedule

FIRST = LiftIncarnations(200_000_000)
SECOND = LiftIncarnations(200_000_060)


def test_every_incarnation_goes_far_ahead_also_of_scopes_that_never_had_an_event() -> None:
    state = listening()
    schedule(state, "alone")
    before = state.document("vm/alone").incarnation
    do(state, FIRST)
    assert state.document("vm/alone").incarnation == before + FIRST.to
    assert state.document("vm/never-asked").incarnation == FIRST.to
    assert state.document("vm/never-asked").events == ()


def test_a_scope_that_is_new_begins_there_too() -> None:
    state = listening()
    do(state, FIRST)
    apply(state, VmsPut((Vm("late", "10.9.9.9"),)))
    do(state, EnableScope("late"))
    assert schedule(state, "late", number=7).scope == "vm/late"
    assert state.document("vm/late").incarnation > FIRST.to


def test_a_vm_that_had_left_meets_a_higher_number_when_it_is_back() -> None:
    state = listening()
    vm = state.fleet.vms["alone"]
    schedule(state, "alone")
    before = state.document("vm/alone").incarnation
    apply(state, VmsRemoved(("alone",)))
    do(state, FIRST)
    apply(state, VmsPut((vm,)))
    assert state.document("vm/alone").incarnation >= before + FIRST.to


def test_a_snapshot_remembers_it() -> None:
    state = listening()
    do(state, FIRST)
    assert restore(take(state)).document("vm/never-asked") == state.document("vm/never-asked")


def test_the_same_copy_put_in_place_twice_gives_no_number_twice() -> None:
    """The second life begins beyond all that the first has shown, although the copy knows nothing of it."""
    copy = take(listening())
    first, second = restore(copy), restore(copy)
    do(first, FIRST)
    for number in range(1, 40):
        schedule(first, "alone", number=number)
    do(second, SECOND)
    assert second.document("vm/alone").incarnation > first.document("vm/alone").incarnation


def test_copies_of_different_lives_put_in_place_in_turn_never_go_back() -> None:
    """An old copy restored after a newer one goes beyond that too: what counts is when, not how often."""
    old = take(listening())
    first = restore(old)
    do(first, FIRST)
    newer = restore(take(first))
    do(newer, SECOND)
    again = restore(old)
    do(again, LiftIncarnations(SECOND.to + 1))
    assert again.document("vm/alone").incarnation > newer.document("vm/alone").incarnation


@pytest.mark.parametrize("to", [0, FIRST.to - 3600, FIRST.to])
def test_a_wall_clock_that_was_set_back_does_not_take_the_numbers_back(to: int) -> None:
    state = listening()
    do(state, FIRST)
    do(state, LiftIncarnations(to))
    assert state.document("vm/alone").incarnation == FIRST.to + FAR_AHEAD


def test_several_nodes_that_find_the_same_loss_lift_once() -> None:
    """N14: each may ask; the clocks that they look at are not the same."""
    state = listening()
    found = state.position
    do(state, LiftIncarnations(FIRST.to, unless_after=found))
    assert do(state, LiftIncarnations(SECOND.to, unless_after=found)) == []
    assert restore(take(state)).raised_at == state.raised_at == found + 1
    assert state.least_incarnation == FIRST.to


def test_the_next_loss_is_lifted_for_again() -> None:
    state = listening()
    do(state, LiftIncarnations(FIRST.to, unless_after=state.position))
    do(state, LiftIncarnations(SECOND.to, unless_after=state.position))
    assert state.least_incarnation == SECOND.to


def test_numbers_that_a_node_has_seen_and_the_journal_has_lost_are_not_given_again() -> None:
    """However the clocks are: a node notes how far numbers were ever lifted."""
    state = listening()
    found = state.position
    do(state, LiftIncarnations(FIRST.to, unless_after=found))
    do(state, LiftIncarnations(FIRST.to, unless_after=found, above=SECOND.to))
    assert state.least_incarnation == SECOND.to + FAR_AHEAD
