"""When which event is due, as a heap with stale entries."""

from hypothesis import given
from hypothesis import strategies as st

from duenotice.domain.agenda import Agenda, due, due_at, put, trim
from duenotice.domain.event import Cause, Event, EventType, Phase
from tests.unit.domain.build import NOW


def event(event_id: str, notice_ends: int = 0) -> Event:
    return Event(event_id, EventType.REBOOT, Cause.MAINTENANCE, "vm/alone", ("alone",), NOW.at, notice_ends)


def test_a_scheduled_event_is_due_when_its_notice_ends() -> None:
    assert due_at(event("A", 9)) == 9


def test_an_approved_event_is_due_before_everything() -> None:
    assert due_at(event("A", 9).with_(approved_by="alone")) == -1


def test_a_started_event_is_due_when_its_impact_ends() -> None:
    assert due_at(event("A", 9).with_(phase=Phase.STARTED, impact_ends=20)) == 20


def test_a_started_event_with_a_driver_is_never_due_and_not_on_the_agenda() -> None:
    agenda: Agenda = []
    driven = event("A").with_(phase=Phase.STARTED)
    put(agenda, driven)
    assert (due_at(driven), agenda) == (None, [])


def test_what_is_due_comes_soonest_first_then_by_id() -> None:
    agenda: Agenda = []
    events = {e.id: e for e in (event("C", 3), event("B", 1), event("A", 3), event("Z", 4))}
    for each in events.values():
        put(agenda, each)
    assert [each.id for each in due(agenda, events, 3)] == ["B", "A", "C"]


def test_an_event_that_moved_on_is_due_at_its_new_time_only() -> None:
    agenda: Agenda = []
    put(agenda, event("A", 5))
    moved_on = event("A", 5).with_(phase=Phase.STARTED, impact_ends=50)
    put(agenda, moved_on)
    assert due(agenda, {"A": moved_on}, 10) == []
    assert due(agenda, {"A": moved_on}, 50) == [moved_on]


def test_trimming_drops_stale_entries_at_the_front_so_that_the_first_is_true() -> None:
    agenda: Agenda = []
    kept = event("C", 3)
    for each in (event("A", 1), event("B", 2), kept):
        put(agenda, each)
    trim(agenda, {"C": kept})
    assert agenda == [(3, "C")]
    trim(agenda, {})
    assert agenda == []


def test_stale_entries_behind_the_front_do_not_pile_up() -> None:
    """Events scheduled for next year and cancelled today leave nothing behind (S24)."""
    agenda: Agenda = []
    events = {"A": event("A", 1)}
    put(agenda, events["A"])
    for number in range(5000):
        put(agenda, event(f"B{number}", 1_000_000))
        trim(agenda, events)
    assert len(agenda) <= 1100
    assert agenda[0] == (1, "A")


@given(st.lists(st.tuples(st.sampled_from("ABCDEFG"), st.integers(0, 9))), st.integers(0, 9))
def test_whatever_was_put_the_due_are_those_a_plain_search_finds(puts: list[tuple[str, int]], now: int) -> None:
    agenda: Agenda = []
    events: dict[str, Event] = {}
    for event_id, at in puts:
        if event_id not in events or events[event_id].notice_ends != at:
            events[event_id] = event(event_id, at)
            put(agenda, events[event_id])
            trim(agenda, events)
    searched = sorted((each.notice_ends, each.id) for each in events.values() if each.notice_ends <= now)
    assert [(each.notice_ends, each.id) for each in dict.fromkeys(due(agenda, events, now))] == searched
