"""An older journal put in place must not show numbers again that VMs have seen with other content (S3)."""

from duenotice.domain.apply import apply
from duenotice.domain.commands import EnableScope, LiftIncarnations
from duenotice.domain.decide import FAR_AHEAD
from duenotice.domain.fleet import Vm
from duenotice.domain.snapshot import restore, take
from duenotice.domain.transitions import VmsPut, VmsRemoved
from tests.unit.domain.build import do, listening, schedule


def test_every_incarnation_goes_far_ahead_also_of_scopes_that_never_had_an_event() -> None:
    state = listening()
    schedule(state, "alone")
    before = state.document("vm/alone").incarnation
    do(state, LiftIncarnations())
    assert state.document("vm/alone").incarnation == before + FAR_AHEAD
    assert state.document("vm/never-asked").incarnation == FAR_AHEAD
    assert state.document("vm/never-asked").events == ()


def test_a_scope_that_is_new_begins_there_too() -> None:
    state = listening()
    do(state, LiftIncarnations())
    apply(state, VmsPut((Vm("late", "10.9.9.9"),)))
    do(state, EnableScope("late"))
    assert schedule(state, "late", number=7).scope == "vm/late"
    assert state.document("vm/late").incarnation > FAR_AHEAD


def test_a_vm_that_had_left_meets_a_higher_number_when_it_is_back() -> None:
    state = listening()
    vm = state.fleet.vms["alone"]
    schedule(state, "alone")
    before = state.document("vm/alone").incarnation
    apply(state, VmsRemoved(("alone",)))
    do(state, LiftIncarnations())
    apply(state, VmsPut((vm,)))
    assert state.document("vm/alone").incarnation >= before + FAR_AHEAD


def test_a_snapshot_remembers_it() -> None:
    state = listening()
    do(state, LiftIncarnations())
    assert restore(take(state)).document("vm/never-asked") == state.document("vm/never-asked")
