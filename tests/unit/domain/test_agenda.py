"""When which event is due, as a heap with stale entries."""

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.domain import timers as agenda_module
from duenotice.domain.bulk import ascending
from duenotice.domain.event import Cause, Event, EventType, Phase
from duenotice.domain.timers import NOTHING, ScopeBlockers, TimerHeap, due, due_at, next_after
from duenotice.domain.window import Opening
from tests.unit.domain.build import NOW


def event(event_id: str, notice_ends: int = 0) -> Event:
    return Event(event_id, EventType.REBOOT, Cause.MAINTENANCE, "vm/alone", ("alone",), NOW.at, notice_ends)


def put(agenda: TimerHeap, each: Event) -> None:
    agenda_module.put(agenda, each, NOTHING)


def trim(agenda: TimerHeap, events: dict[str, Event]) -> None:
    agenda_module.trim(agenda, events, {})


def due_events(agenda: TimerHeap, events: dict[str, Event], steady: int) -> list[Event]:
    """Who is due, soonest first."""
    return [events[event_id] for _, event_id in sorted(set(due(agenda, events, {}, steady)))]


def test_a_scheduled_event_is_due_when_its_notice_ends() -> None:
    assert due_at(event("A", 9), NOTHING) == 9


def test_an_approved_event_is_due_before_everything() -> None:
    assert due_at(event("A", 9).with_(approved_by="alone"), NOTHING) == -1


def test_an_approved_event_of_a_window_is_due_when_that_opens() -> None:
    assert due_at(event("A", 9).with_(approved_by="alone", opening=Opening(NOW.at, 7)), NOTHING) == 7


def test_a_started_event_is_due_when_its_impact_ends() -> None:
    assert due_at(event("A", 9).with_(phase=Phase.STARTED, impact_ends=20), NOTHING) == 20


def test_a_started_event_with_a_driver_is_never_due_and_not_on_the_agenda() -> None:
    agenda: TimerHeap = []
    driven = event("A").with_(phase=Phase.STARTED)
    put(agenda, driven)
    assert (due_at(driven, NOTHING), agenda) == (None, [])


def test_what_is_due_comes_soonest_first_then_by_id() -> None:
    agenda: TimerHeap = []
    events = {e.id: e for e in (event("C", 3), event("B", 1), event("A", 3), event("Z", 4))}
    for each in events.values():
        put(agenda, each)
    assert [each.id for each in due_events(agenda, events, 3)] == ["B", "A", "C"]


def test_an_event_that_moved_on_is_due_at_its_new_time_only() -> None:
    agenda: TimerHeap = []
    put(agenda, event("A", 5))
    moved_on = event("A", 5).with_(phase=Phase.STARTED, impact_ends=50)
    put(agenda, moved_on)
    assert due_events(agenda, {"A": moved_on}, 10) == []
    assert due_events(agenda, {"A": moved_on}, 50) == [moved_on]


def test_trimming_drops_stale_entries_at_the_front_so_that_the_first_is_true() -> None:
    agenda: TimerHeap = []
    kept = event("C", 3)
    for each in (event("A", 1), event("B", 2), kept):
        put(agenda, each)
    trim(agenda, {"C": kept})
    assert agenda == [(3, "C")]
    trim(agenda, {})
    assert agenda == []


def test_stale_entries_behind_the_front_do_not_pile_up() -> None:
    """Events scheduled for next year and cancelled today leave nothing behind (S24)."""
    agenda: TimerHeap = []
    events = {"A": event("A", 1)}
    put(agenda, events["A"])
    for number in range(5000):
        put(agenda, event(f"B{number}", 1_000_000))
        trim(agenda, events)
    assert len(agenda) <= 1100
    assert agenda[0] == (1, "A")


@given(st.lists(st.tuples(st.sampled_from("ABCDEFG"), st.integers(0, 9))), st.integers(0, 9))
def test_whatever_was_put_the_due_are_those_a_plain_search_finds(puts: list[tuple[str, int]], now: int) -> None:
    agenda: TimerHeap = []
    events: dict[str, Event] = {}
    for event_id, at in puts:
        if event_id not in events or events[event_id].notice_ends != at:
            events[event_id] = event(event_id, at)
            put(agenda, events[event_id])
            trim(agenda, events)
    searched = sorted((each.notice_ends, each.id) for each in events.values() if each.notice_ends <= now)
    assert [(each.notice_ends, each.id) for each in due_events(agenda, events, now)] == searched


@pytest.mark.parametrize(
    ("hold", "moment"),
    [
        (NOTHING, -1),
        (ScopeBlockers(((1, 2),)), -1),
        (ScopeBlockers(((2, 1),)), None),
        (ScopeBlockers(((1, 2), (2, 1))), None),
        (ScopeBlockers(((None, 1),)), None),
        (ScopeBlockers(unapproved_deletes=1), -1),
    ],
)
def test_what_another_update_domain_holds_back_is_not_due_at_all(hold: ScopeBlockers, moment: int | None) -> None:
    approved = event("A", 9).with_(approved_by="alone", update_domain=1)
    assert due_at(approved, hold) == moment


@pytest.mark.parametrize(("together", "moment"), [(True, 9), (False, -1)])
def test_an_approved_delete_that_waits_for_another_is_due_when_its_notice_ends(together: bool, moment: int) -> None:
    approved = event("A", 9).with_(approved_by="alone", type=EventType.TERMINATE, cause=Cause.DELETION)
    assert due_at(approved, ScopeBlockers(unapproved_deletes=1), together) == moment


@given(st.lists(st.integers(0, 9)))
def test_a_heap_can_be_read_in_order_and_is_still_the_same(numbers: list[int]) -> None:
    heap = list(numbers)
    heapq.heapify(heap)
    before = list(heap)
    assert (list(ascending(heap)), heap) == (sorted(numbers), before)


@given(st.lists(st.integers(0, 9)), st.integers(-1, 9))
def test_the_next_moment_is_the_least_that_is_later_and_true(moments: list[int], after: int) -> None:
    agenda: TimerHeap = []
    events = {str(number): event(str(number), moment) for number, moment in enumerate(moments)}
    for number, each in enumerate(events.values()):
        put(agenda, each)
        put(agenda, event(str(number), each.notice_ends + 1))  # true no more
    expected = min((moment for moment in moments if moment > after), default=None)
    assert next_after(agenda, events, {}, after) == expected
