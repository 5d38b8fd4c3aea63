"""Who may approve an event, and cancelling one (C02-C05, S16, S17, S19)."""

from datetime import timedelta

import pytest

from duenotice.clock import Instant
from duenotice.domain.commands import ApproveEvents, CancelEvent, ScheduleEvent
from duenotice.domain.event import Event, EventType, Phase
from duenotice.domain.policy import Policy
from duenotice.domain.records import EventApproved, EventCancelled, EventStarted
from duenotice.domain.rules.lifecycle import unknown
from duenotice.domain.snapshot import take
from duenotice.domain.state import State
from duenotice.errors import Conflict, NotFound
from tests.unit.domain.build import DAY, NOW, SECOND, approve, do, id_of, listening, schedule, started, tick


@pytest.mark.parametrize("vm", ["web-0", "web-1", "web-3"])
def test_any_vm_of_the_scope_may_approve_for_all(vm: str) -> None:
    """C04: not only the one that is hit."""
    state = listening()
    event = schedule(state, "web-0", "web-2")
    assert approve(state, event, vm=vm) == [EventApproved(event.id, "set/web", f"vm/{vm}")]
    assert state.events[event.id].approved_by == f"vm/{vm}"


def test_the_operator_may_approve_any_event() -> None:
    state = listening()
    event = schedule(state, "web-0")
    assert approve(state, event) == [EventApproved(event.id, "set/web", "operator")]


def test_who_speaks_for_a_group_may_approve_its_events_and_no_others() -> None:
    """M10: as unknown as to a VM of another scope (S16)."""
    state = listening()
    event = schedule(state, "web-0")
    for other in ("set/other", "scale-set/web"):
        with pytest.raises(NotFound):
            do(state, ApproveEvents((event.id,), group=other))
    assert do(state, ApproveEvents((event.id,), group="set/web")) == [EventApproved(event.id, "set/web", "operator")]


def test_one_that_is_unknown_does_not_stand_in_the_way_of_a_list() -> None:
    """M10: the others are approved; one that is gone a moment ago counts as approved (C03)."""
    state = listening()
    event, gone, foreign = (
        schedule(state, "web-0"),
        schedule(state, "web-1", number=2),
        schedule(state, "alone", number=3),
    )
    do(state, CancelEvent(gone.id))
    every = ApproveEvents((foreign.id, event.id, gone.id, id_of(9)), "web-3", each=True)
    assert do(state, every) == [EventApproved(event.id, "set/web", "vm/web-3")]
    assert unknown(state, every, NOW, Policy()) == [foreign.id, id_of(9)]
    assert unknown(state, every, NOW, Policy(takes_gone_approvals=False)) == [foreign.id, gone.id, id_of(9)]


def test_an_approval_for_a_group_may_be_late() -> None:
    """C03: it was an event of the group until a moment ago."""
    state = listening()
    event = schedule(state, "web-0")
    do(state, CancelEvent(event.id))
    assert do(state, ApproveEvents((event.id,), group="set/web")) == []
    with pytest.raises(NotFound):
        do(state, ApproveEvents((event.id,), group="set/other"))


def test_an_approved_event_starts_at_the_next_tick() -> None:
    """C05: the notice is cut short."""
    state = listening()
    event = schedule(state, "alone")
    approve(state, event, vm="alone")
    (change,) = tick(state)
    assert isinstance(change, EventStarted)
    assert (change.event.phase, change.event.started_at) == (Phase.STARTED, NOW.at)


def test_approval_alone_changes_neither_document_nor_incarnation() -> None:
    """S4: what clients see is the same until it starts."""
    state = listening()
    event = schedule(state, "alone")
    before = state.document("vm/alone")
    approve(state, event, vm="alone")
    after = state.document("vm/alone")
    assert after.incarnation == before.incarnation
    assert [shown.phase for shown in after.events] == [Phase.SCHEDULED]


def test_approving_again_is_no_change() -> None:
    state = listening()
    event = schedule(state, "web-0")
    approve(state, event, vm="web-0")
    assert approve(state, event, vm="web-1") == []
    assert state.events[event.id].approved_by == "vm/web-0"


def test_approving_what_has_started_is_no_change() -> None:
    state = listening()
    event = started(state, schedule(state, "alone"))
    assert approve(state, event, vm="alone") == []


def test_approving_what_has_started_by_itself_is_no_change() -> None:
    """Nobody has approved it, and nobody can any more (S17)."""
    state = listening()
    event = schedule(state, "alone")
    tick(state, NOW.after(900 * SECOND))
    assert approve(state, event, vm="alone", now=NOW.after(901 * SECOND)) == []


def test_an_event_named_twice_in_a_request_is_approved_once() -> None:
    state = listening()
    event = schedule(state, "alone")
    assert len(approve(state, event, event, vm="alone")) == 1


def test_several_events_are_approved_by_one_request() -> None:
    state = listening()
    first, second = schedule(state, "web-0", number=1), schedule(state, "web-1", number=2)
    assert [change.event_id for change in approve(state, first, second, vm="web-3")] == [first.id, second.id]  # type: ignore[union-attr]


def test_foreign_and_unknown_ids_give_the_very_same_error() -> None:
    """S16: nothing tells a VM that an event of another scope exists."""
    told = []
    for there_is_one in (True, False):
        state = listening()
        if there_is_one:
            schedule(state, "alone")
        with pytest.raises(NotFound) as refusal:
            do(state, ApproveEvents((id_of(1),), "zonal"))
        told.append((type(refusal.value), refusal.value.message, refusal.value.hint))
    assert told[0] == told[1]


@pytest.mark.parametrize("stranger", [id_of(99), id_of(2), "no guid at all"])
def test_nothing_of_a_mixed_request_takes_effect(stranger: str) -> None:
    """C03: one id that is not the caller's spoils the whole request."""
    state = listening()
    own = schedule(state, "alone", number=1)
    schedule(state, "zonal", number=2)
    before = take(state)
    with pytest.raises(NotFound):
        do(state, ApproveEvents((own.id, stranger), "alone"))
    assert take(state) == before


def test_a_vm_of_another_placement_group_may_not_approve() -> None:
    state = listening()
    event = schedule(state, "batch_0")
    with pytest.raises(NotFound):
        approve(state, event, vm="batch_100")


@pytest.mark.parametrize("number", [1, 2])
def test_a_vm_that_has_left_the_fleet_is_refused_like_any_other(number: int) -> None:
    """S16: it was renamed, say, while its request was on its way; there is an event 1, and none with the other id."""
    state = listening()
    schedule(state, "alone", number=1)
    with pytest.raises(NotFound, match=f"There is no event {id_of(number)}"):
        do(state, ApproveEvents((id_of(number),), "nobody"))


def cancelled(state: State, vm: str) -> Event:
    """An event that was taken back."""
    event = schedule(state, vm)
    do(state, CancelEvent(event.id))
    return event


def test_an_approval_of_an_event_that_is_gone_is_taken_and_changes_nothing() -> None:
    """C03: whoever approves it is only late."""
    state = listening()
    gone = cancelled(state, "alone")
    before = take(state)
    assert approve(state, gone, vm="alone") == []
    assert take(state) == before


def test_an_event_beside_one_that_is_gone_is_approved() -> None:
    state = listening()
    gone, waiting = cancelled(state, "alone"), schedule(state, "alone", number=2)
    assert approve(state, gone, waiting, vm="alone") == [EventApproved(waiting.id, "vm/alone", "vm/alone")]


def test_a_setting_refuses_approvals_of_what_is_gone() -> None:
    """C03: like those of an unknown id."""
    state = listening()
    gone = cancelled(state, "alone")
    with pytest.raises(NotFound):
        do(state, ApproveEvents((gone.id,), "alone"), policy=Policy(takes_gone_approvals=False))


def test_an_event_that_another_scope_had_is_unknown_here() -> None:
    """S16: the very same error as for an id that never was."""
    state = listening()
    gone = cancelled(state, "alone")
    with pytest.raises(NotFound) as foreign:
        approve(state, gone, vm="zonal")
    with pytest.raises(NotFound) as unknown:
        approve(listening(), gone, vm="zonal")
    assert (foreign.value.message, foreign.value.hint) == (unknown.value.message, unknown.value.hint)


def test_the_operator_is_told_that_an_event_is_gone() -> None:
    state = listening()
    gone = cancelled(state, "alone")
    with pytest.raises(NotFound):
        approve(state, gone)


def test_a_gone_event_is_unknown_after_a_day() -> None:
    """C03: 24 hours after it went, and not a moment before; both faces of time have to say so (S34)."""
    state = listening()
    gone = cancelled(state, "alone")
    day = NOW.after(DAY)
    for known in (day.after(-SECOND), Instant(day.at, NOW.steady), Instant(NOW.at, day.steady)):
        do(state, ApproveEvents((gone.id,), "alone"), known)
    with pytest.raises(NotFound):
        do(state, ApproveEvents((gone.id,), "alone"), day)


def test_an_event_that_is_there_counts_before_one_of_the_same_id_that_is_gone() -> None:
    state = listening()
    cancelled(state, "alone")
    again = schedule(state, "alone")
    assert approve(state, again, vm="alone") == [EventApproved(again.id, "vm/alone", "vm/alone")]


def test_cancelling_takes_a_scheduled_event_back_with_its_reason() -> None:
    state = listening()
    event = schedule(state, "alone")
    assert do(state, CancelEvent(event.id, "postponed")) == [EventCancelled(event.id, "vm/alone", "postponed")]
    assert (state.document("vm/alone").incarnation, state.document("vm/alone").events) == (2, ())


def test_cancelling_what_was_approved_but_has_not_started_wins() -> None:
    """S19: one winner."""
    state = listening()
    event = schedule(state, "alone")
    approve(state, event, vm="alone")
    do(state, CancelEvent(event.id))
    assert tick(state, NOW.after(3600 * SECOND)) == []


def test_cancelling_what_has_started_is_refused_and_changes_nothing() -> None:
    state = listening()
    event = started(state, schedule(state, "alone"))
    before = take(state)
    with pytest.raises(Conflict, match="already started"):
        do(state, CancelEvent(event.id))
    assert take(state) == before


def test_cancelling_an_unknown_event_is_not_found() -> None:
    with pytest.raises(NotFound, match="no event"):
        do(listening(), CancelEvent(id_of(1)))


def test_advice_is_not_approved() -> None:
    """A VM that approves all that it reads does no harm by it; an operator is told what advice is."""
    state, policy = listening(), Policy(spot_rebalance=True)
    do(state, ScheduleEvent(id_of(1), EventType.SPOT_REBALANCE_RECOMMENDATION, ("spot",)), policy=policy)
    assert do(state, ApproveEvents((id_of(1),), vm="spot")) == []
    with pytest.raises(Conflict, match="it never starts"):
        do(state, ApproveEvents((id_of(1),)))
    assert tick(state, Instant(NOW.at + timedelta(days=9), NOW.steady + 9 * DAY)) == []
