"""What can be asked of the state."""

from duenotice.domain.document import EMPTY, Document
from duenotice.domain.state import State
from tests.unit.domain.build import listening, schedule


def test_a_scope_nobody_knows_has_the_empty_document() -> None:
    assert State().document("vm/nobody") is EMPTY
    assert Document(0, ()) == EMPTY


def test_a_scope_that_only_listens_has_the_empty_document() -> None:
    assert listening().document("vm/alone") is EMPTY


def test_the_events_of_a_vm_are_those_of_its_scope_that_hit_it() -> None:
    state = listening()
    schedule(state, "web-0", "web-2", number=1)
    schedule(state, "web-2", number=2)
    schedule(state, "alone", number=3)
    vms = state.fleet.vms
    assert [len(state.events_of(vms[name])) for name in ("web-0", "web-1", "web-2", "alone", "zonal")] == [
        1,
        0,
        2,
        1,
        0,
    ]


def test_a_vm_whose_scope_nobody_knows_has_no_events() -> None:
    state = listening("web-0")
    assert state.events_of(state.fleet.vms["alone"]) == []
