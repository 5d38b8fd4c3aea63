"""What can be asked of the state."""

from copy import deepcopy

from duenotice.domain.rules.due import next_due
from duenotice.domain.rules.preview import outlook
from duenotice.domain.snapshot import take
from duenotice.domain.state import EMPTY, Document, State
from tests.unit.domain.build import NOW, POLICY, listening, maintain, schedule


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


def test_asking_changes_nothing() -> None:
    """Not of a scope that nobody knows either, and not what is kept twice."""
    state = listening("web-0")
    schedule(state, "web-0")
    maintain(state, "alone", "zonal")
    names = (
        "scopes",
        "events",
        "events_by_scope",
        "events_by_vm",
        "document_sizes",
        "blockers",
        "timers",
        "plans_by_group",
    )
    kept = {name: deepcopy(getattr(state, name)) for name in names}
    before = take(state)
    for scope in ("set/web", "vm/alone", "vm/nobody"):
        assert (state.document(scope).incarnation, state.enabled(scope)) >= (0, False)
        assert (state.blockers_of(scope), state.incarnation(scope)) == (
            state.blockers_of(scope),
            state.incarnation(scope),
        )
    assert state.events_on("web-0", "nobody") == state.events_of(state.fleet.vms["web-0"])
    assert next_due(state, NOW.steady) == next_due(state, NOW.steady)
    for plan_id, progress in state.plans.items():
        assert progress.ready(NOW.steady) == progress.ready(NOW.steady)
        assert outlook(state, state.maintenances[plan_id], NOW, POLICY) is not None
    assert take(state) == before
    assert {name: getattr(state, name) for name in kept} == kept
