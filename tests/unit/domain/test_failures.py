"""What has failed is known until somebody has dealt with it, or until it does not matter any more."""

import pytest

from duenotice.domain import records as t
from duenotice.domain.commands import (
    AcknowledgeFailures,
    ApproveEvents,
    DeleteInstances,
    OperateVm,
    ReportImpact,
    RetryMaintenance,
)
from duenotice.domain.event import LONGEST_NOTE, Event, EventType, Phase
from duenotice.domain.failure import MOST_KEPT, Failure, Failures
from duenotice.domain.plan import Status
from duenotice.domain.policy import Policy
from duenotice.domain.rules.maintenance import reason_of
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from duenotice.errors import Conflict, Refused
from tests.unit.domain.build import (
    HOUR,
    NOW,
    approve,
    do,
    failed,
    id_of,
    listening,
    maintain,
    operate,
    schedule,
    started,
    tick,
)

DRIVEN = Policy(simulated_impact=False)


def fails(
    state: State, *vms: str, number: int = 1, reason: str = "no power", type: EventType = EventType.REBOOT
) -> str:
    """An event of these VMs that has started, and then failed."""
    event = schedule(state, *vms, number=number, type=type)
    ends(state, event, reason)
    return event.id


def ends(state: State, event: Event, reason: str = "") -> None:
    do(state, ApproveEvents((event.id,)), policy=DRIVEN)
    tick(state, policy=DRIVEN)
    do(state, ReportImpact(event.id, reason), policy=DRIVEN)
    tick(state, policy=DRIVEN)


def open_failures(state: State) -> dict[str, tuple[str, ...]]:
    """The events that have failed, and for which VMs that still matters."""
    return {failure.id: failure.event.resources for failure in state.failures}


def test_it_is_known_what_failed_when_and_why() -> None:
    state = listening()
    event_id = fails(state, "web-0", "web-2")
    failure = state.failures.get(event_id)
    assert failure is not None
    assert (failure.event.phase, failure.failed_at, failure.reason) == (Phase.FAILED, NOW.at, "no power")
    assert state.failures.of("web-0") == state.failures.of("web-2") == failure
    assert state.failures.of("web-1") is None


def test_what_ends_otherwise_has_not_failed() -> None:
    state = listening()
    started(state, schedule(state, "web-0"))
    tick(state, NOW.after(HOUR))
    assert len(state.failures) == 0


def test_somebody_acknowledges_it_and_it_needs_nobody_any_more() -> None:
    state = listening()
    event_id = fails(state, "web-0")
    assert do(state, AcknowledgeFailures((event_id, event_id), note="new disk")) == [
        t.FailureAcknowledged(event_id, "set/web", "new disk")
    ]
    assert (open_failures(state), state.failures.of("web-0")) == ({}, None)
    with pytest.raises(Conflict, match=event_id):
        do(state, AcknowledgeFailures((event_id,)))


def test_a_note_is_not_longer_than_its_limit() -> None:
    state = listening()
    event_id = fails(state, "web-0")
    with pytest.raises(Refused, match="note has 1001"):
        do(state, AcknowledgeFailures((event_id,), note="x" * (LONGEST_NOTE + 1)))
    do(state, AcknowledgeFailures((event_id,), note="x" * LONGEST_NOTE))


def test_all_that_a_maintenance_has_left_open_is_acknowledged_at_once() -> None:
    state = listening()
    plan = failed(state, "alone", 21)
    other = fails(state, "web-0")
    do(state, AcknowledgeFailures(maintenance_id=plan.id))
    assert open_failures(state) == {other: ("web-0",)}
    with pytest.raises(Conflict, match="No failure of this maintenance"):
        do(state, AcknowledgeFailures(maintenance_id=plan.id))


def test_the_retry_of_a_maintenance_deals_with_what_is_tried_again() -> None:
    state = listening()
    plan, other = failed(state, "alone", 21), fails(state, "web-0")
    do(state, RetryMaintenance(plan.id))
    assert open_failures(state) == {other: ("web-0",)}


def test_an_event_of_the_same_type_that_completes_is_a_retry() -> None:
    """Of the VMs that it hits; another type says nothing of it."""
    state = listening()
    event_id = fails(state, "web-0", "web-2")
    ends(state, schedule(state, "web-0", number=2, type=EventType.FREEZE))
    assert open_failures(state) == {event_id: ("web-0", "web-2")}
    ends(state, schedule(state, "web-0", number=3))
    assert (open_failures(state), state.failures.of("web-0")) == ({event_id: ("web-2",)}, None)
    ends(state, schedule(state, "web-2", number=4))
    assert open_failures(state) == {}


def test_a_retry_that_fails_too_takes_the_place_of_what_failed_before() -> None:
    state = listening()
    first, second = fails(state, "web-0", "web-2"), fails(state, "web-0", number=2, reason="no disk")
    assert open_failures(state) == {first: ("web-2",), second: ("web-0",)}
    third = fails(state, "web-0", number=3, type=EventType.FREEZE)
    assert [state.failures.of("web-0"), len(state.failures)] == [state.failures.get(third), 3]


def test_vms_that_leave_the_fleet_need_nobody() -> None:
    state = listening()
    fails(state, "batch_0", "batch_1")
    do(state, DeleteInstances("batch", ("batch_0",), id_of(8)))
    approve(state, *state.events.values())
    tick(state, NOW.after(HOUR))
    tick(state, NOW.after(2 * HOUR))
    assert [failure.event.resources for failure in state.failures] == [("batch_1",)]


def test_an_event_fails_for_nobody_when_its_vms_are_gone() -> None:
    state = listening()
    event = operate(state, "alone", EventType.REBOOT)
    do(state, ApproveEvents((event.id,)), policy=DRIVEN)
    tick(state, policy=DRIVEN)
    state.fleet.remove("alone")
    do(state, ReportImpact(event.id, "no VM"), policy=DRIVEN)
    assert len(state.failures) == 0


def test_a_snapshot_knows_them_in_their_order() -> None:
    state = listening()
    for number, vm in enumerate(("alone", "zonal", "web-0"), start=1):
        fails(state, vm, number=number)
    again = restore(take(state))
    assert list(again.failures) == list(state.failures)
    assert again.failures.of("zonal") == state.failures.of("zonal")


def test_a_copy_does_not_change_with_the_state() -> None:
    state = listening()
    event_id = fails(state, "web-0")
    copy = state.copy()
    do(state, AcknowledgeFailures((event_id,)))
    assert (event_id in copy.failures, event_id in state.failures) == (True, False)
    assert copy.failures.of("web-0") is not None


def test_no_more_than_so_many_are_kept() -> None:
    """S24: the oldest are forgotten."""
    state = listening()
    event = schedule(state, "alone")
    known = Failures()
    for number in range(MOST_KEPT + 2):
        known.note(Failure(event.with_(id=id_of(number), resources=(f"vm-{number}",)), NOW.at, ""))
    assert (len(known), next(iter(known)).id) == (MOST_KEPT, id_of(2))
    assert known.of("vm-1") is None


def test_nobody_sees_a_difference_in_the_document_of_a_vm() -> None:
    """The contract has no such state (S4)."""
    state = listening()
    event_id = fails(state, "web-0")
    before = state.document("set/web")
    assert before.events == ()
    do(state, AcknowledgeFailures((event_id,)))
    assert state.document("set/web") == before


def test_a_plan_counts_the_steps_that_fail_after_its_end() -> None:
    """They were under way when it stopped: what it says and what it counts agree."""
    state = listening()
    plan = maintain(state, "alone", "zonal", policy=DRIVEN)
    events = [step.event_id or "" for step in plan.steps]
    do(state, ApproveEvents(tuple(events)), policy=DRIVEN)
    tick(state, policy=DRIVEN)
    for event_id in events:
        do(state, ReportImpact(event_id, "no power"), policy=DRIVEN)
        tick(state, policy=DRIVEN)
    progress = state.plans[plan.id]
    assert (progress.plan.status, progress.failed) == (Status.FAILED, 2)
    assert reason_of(progress.plan, progress.tally()) == "2 failed, 0 allowed."


def test_a_restart_by_its_user_that_completes_is_a_retry_too() -> None:
    state = listening()
    fails(state, "alone")
    do(state, OperateVm(id_of(5), "alone", EventType.REBOOT))
    started(state, state.events[id_of(5)])
    tick(state, NOW.after(HOUR))
    assert len(state.failures) == 0
