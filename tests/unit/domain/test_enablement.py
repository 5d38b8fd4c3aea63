"""Whether a scope listens (F01-F03)."""

import pytest

from duenotice.domain.commands import DisableScopes, EnableScope
from duenotice.domain.records import ScopeDisabled, ScopeEnabled
from duenotice.errors import NotFound
from tests.unit.domain.build import do, listening, schedule, state_of


def test_nobody_listens_before_the_first_request() -> None:
    assert not state_of().enabled("vm/alone")


def test_the_first_request_of_any_vm_turns_its_whole_scope_on() -> None:
    state = state_of()
    assert do(state, EnableScope("web-3")) == [ScopeEnabled("set/web")]
    assert state.enabled("set/web")


def test_further_requests_change_nothing() -> None:
    state = listening("web-3")
    assert do(state, EnableScope("web-0")) == []


def test_an_unknown_vm_turns_nothing_on() -> None:
    with pytest.raises(NotFound):
        do(state_of(), EnableScope("nobody"))


def test_silent_scopes_are_turned_off_once() -> None:
    state = listening("web-0", "alone")
    silent = DisableScopes(("set/web", "vm/zonal"))
    assert do(state, silent) == [ScopeDisabled("set/web")]
    assert do(state, silent) == []
    assert (state.enabled("set/web"), state.enabled("vm/alone")) == (False, True)


def test_a_scope_that_is_turned_on_again_keeps_its_incarnation_and_events() -> None:
    state = listening()
    schedule(state, "alone")
    before = state.document("vm/alone")
    do(state, DisableScopes(("vm/alone",)))
    do(state, EnableScope("alone"))
    assert state.document("vm/alone") == before
    assert before.incarnation == 1


def test_turning_a_scope_on_or_off_does_not_change_its_document() -> None:
    state = state_of()
    do(state, EnableScope("alone"))
    assert state.document("vm/alone").incarnation == 0
