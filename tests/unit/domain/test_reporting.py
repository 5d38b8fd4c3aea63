"""What drivers say of an impact, and what comes of it."""

import pytest

from duenotice.domain.commands import AcceptImpact, ClaimImpact, Command, ReportAttempt, ReportImpact
from duenotice.domain.event import Event, EventType
from duenotice.domain.policy import Policy
from duenotice.domain.records import (
    EventCompleted,
    EventFailed,
    ImpactAccepted,
    ImpactClaimed,
    ImpactFailed,
    Transition,
    VmsPut,
    VmsRemoved,
)
from duenotice.domain.rules.lifecycle import LONGEST_FAILURE
from duenotice.domain.state import State
from duenotice.errors import Conflict, NotFound, Refused
from tests.unit.domain.build import NOW, approve, do, evict, fail, id_of, listening, operate, schedule, tick

DRIVEN = Policy(simulated_impact=False, impact_attempts=3)


def begun(state: State, event: Event) -> Event:
    """The event, approved and started, waiting for its driver."""
    approve(state, event)
    tick(state, NOW, DRIVEN)
    return state.events[event.id]


def rebooting() -> tuple[State, Event]:
    state = listening()
    return state, begun(state, schedule(state, "alone"))


def attempt(state: State, event: Event, number: int) -> list[object]:
    return list(do(state, ReportAttempt(event.id, number, "exit 1"), policy=DRIVEN))


def test_a_started_event_awaits_its_driver_until_it_is_accepted() -> None:
    """Scheduled, simulated and accepted events do not; one that has just started does, however it began."""
    state, event = rebooting()
    waiting, simulated = schedule(state, "zonal", number=2), fail(state, "host-2")[0]
    assert [event.awaits_driver, waiting.awaits_driver, simulated.awaits_driver] == [True, False, False]
    do(state, AcceptImpact(event.id), policy=DRIVEN)
    assert not state.events[event.id].awaits_driver


def test_failed_attempts_are_recorded_and_the_last_one_gives_up() -> None:
    """Each failure is a record with its number and reason; the last allowed one ends the event."""
    state, event = rebooting()
    assert attempt(state, event, 1) == [ImpactFailed(event.id, "vm/alone", 1, "exit 1")]
    assert attempt(state, event, 2) == [ImpactFailed(event.id, "vm/alone", 2, "exit 1")]
    assert attempt(state, event, 3) == [EventFailed(event.id, "vm/alone", "Gave up after attempt 3: exit 1")]
    assert event.id not in state.events


def test_an_attempt_that_is_told_twice_counts_once() -> None:
    """A driver may tell again what a crash kept it from knowing to be told."""
    state, event = rebooting()
    attempt(state, event, 1)
    assert attempt(state, event, 1) == []
    assert state.events[event.id].failed_attempts == 1


def test_vms_see_nothing_of_attempts_and_acceptance() -> None:
    """The incarnation changes only if what VMs see does (S4)."""
    state, event = rebooting()
    before = state.document("vm/alone").incarnation
    attempt(state, event, 1)
    assert do(state, AcceptImpact(event.id), policy=DRIVEN) == [ImpactAccepted(event.id, "vm/alone")]
    assert do(state, AcceptImpact(event.id), policy=DRIVEN) == []
    assert state.document("vm/alone").incarnation == before


def claim(state: State, event: Event, number: int, node: str, instead_of: str = "") -> list[Transition]:
    return list(do(state, ClaimImpact(event.id, number, node, instead_of), policy=DRIVEN))


def test_one_node_makes_an_attempt_and_no_other_unless_that_one_is_gone() -> None:
    """N12: to claim it again changes nothing; VMs see nothing of it (S4)."""
    state, event = rebooting()
    before = state.document("vm/alone").incarnation
    assert claim(state, event, 1, "a") == [ImpactClaimed(event.id, "vm/alone", 1, "a")]
    assert claim(state, event, 1, "a") == []
    for instead_of in ("", "c"):
        with pytest.raises(Conflict, match="The node a makes this attempt"):
            claim(state, event, 1, "b", instead_of)
    assert claim(state, event, 1, "b", "a") == [ImpactClaimed(event.id, "vm/alone", 1, "b")]
    assert state.document("vm/alone").incarnation == before


def test_of_two_processes_of_a_node_only_the_one_in_the_directory_of_the_claim_makes_the_attempt() -> None:
    """N12: the other one stood still, or was started anew elsewhere; it does not have the notes."""
    state, event = rebooting()
    first, second = (ClaimImpact(event.id, 1, "a", directory=directory) for directory in ("first", "second"))
    assert do(state, first, policy=DRIVEN) == [ImpactClaimed(event.id, "vm/alone", 1, "a", "first")]
    assert do(state, first, policy=DRIVEN) == []
    with pytest.raises(Conflict, match="The node a makes this attempt"):
        do(state, second, policy=DRIVEN)
    attempt(state, event, 1)
    assert state.events[event.id].claimed_in == ""


def test_the_next_attempt_is_anybodys_and_only_the_next_can_be_claimed() -> None:
    state, event = rebooting()
    claim(state, event, 1, "a")
    attempt(state, event, 1)
    assert state.events[event.id].claimed_by == ""
    for number in (1, 3):
        with pytest.raises(Conflict, match="is not the next one"):
            claim(state, event, number, "b")
    assert claim(state, event, 2, "b") == [ImpactClaimed(event.id, "vm/alone", 2, "b")]
    do(state, AcceptImpact(event.id), policy=DRIVEN)
    with pytest.raises(Conflict, match="is not the next one"):
        claim(state, event, 2, "b")


@pytest.mark.parametrize("vm", ["alone", "spot"])
def test_a_report_does_to_the_fleet_what_the_event_did_to_the_vm(vm: str) -> None:
    """A redeployed VM stands on another host, an evicted one is gone; also when it was accepted before."""
    state = listening()
    raised = evict(state, vm) if vm == "spot" else operate(state, vm, EventType.REDEPLOY)
    event = begun(state, raised)
    do(state, AcceptImpact(event.id), policy=DRIVEN)
    done, change = do(state, ReportImpact(event.id), policy=DRIVEN)
    assert done == EventCompleted(event.id, event.scope)
    if vm == "spot":
        assert change == VmsRemoved(("spot",))
    else:
        assert isinstance(change, VmsPut)
        assert change.vms[0].host != "host-1"


@pytest.mark.parametrize("command", [ReportImpact, AcceptImpact, lambda event_id: ReportAttempt(event_id, 1, "no")])
def test_only_what_has_started_can_be_reported(command: type[Command]) -> None:
    """An unknown event is not found, a scheduled one is refused; nothing changes."""
    state = listening()
    event = schedule(state, "alone")
    with pytest.raises(NotFound, match="no event"):
        do(state, command(id_of(9)), policy=DRIVEN)
    with pytest.raises(Conflict, match="already scheduled"):
        do(state, command(event.id), policy=DRIVEN)
    assert state.events == {event.id: event}


def test_a_reason_is_not_endless() -> None:
    """What is kept for ever has a bound (S24)."""
    state, event = rebooting()
    with pytest.raises(Refused, match="4001 characters"):
        do(state, ReportImpact(event.id, "x" * (LONGEST_FAILURE + 1)))
    assert do(state, ReportImpact(event.id, "x" * LONGEST_FAILURE))
