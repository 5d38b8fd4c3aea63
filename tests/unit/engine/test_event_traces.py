"""What became of events, folded from the records of the journal."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from duenotice.domain import records as t
from duenotice.domain.event import Event, EventType, Phase
from duenotice.engine import event_traces as module
from duenotice.engine.event_traces import EventTrace, EventTraces, between
from tests.unit.domain.build import NOW, SECOND, id_of, schedule, state_of


def event_of(number: int = 1) -> Event:
    return schedule(state_of(), "web-0", type=EventType.REBOOT, number=number)


EVENT = event_of()
STARTED = EVENT.with_(phase=Phase.STARTED, started_at=NOW.after(60 * SECOND).at)


def records(*changes: t.Transition, actor: str = "token/ann") -> list[t.Record]:
    """One record a minute."""
    return [t.Record(n + 1, NOW.at + timedelta(minutes=n), actor, change) for n, change in enumerate(changes)]


def folded(*changes: t.Transition) -> EventTraces:
    traces = EventTraces()
    traces.note(records(*changes))
    return traces


def only(traces: EventTraces) -> EventTrace:
    (trace,) = traces.find(EVENT.id)
    return trace


RAISED, STARTS = t.EventRaised(EVENT), t.EventStarted(STARTED)
APPROVED, COMPLETED = t.EventApproved(EVENT.id, EVENT.scope, "operator"), t.EventCompleted(EVENT.id, EVENT.scope)
CANCELLED = t.EventCancelled(EVENT.id, EVENT.scope, "Not today.")


def test_a_trace_has_its_moments_and_who_approved() -> None:
    trace = only(folded(RAISED, APPROVED, STARTS, COMPLETED))
    minutes = [NOW.at + timedelta(minutes=minute) for minute in range(4)]
    assert (trace.raised_at, trace.approved_at, trace.ended_at) == (minutes[0], minutes[1], minutes[3])
    assert (trace.approved_by, trace.outcome, trace.event.phase) == ("token/ann", "completed", Phase.STARTED)


def test_one_that_is_taken_back_has_its_reason() -> None:
    trace = only(folded(RAISED, CANCELLED))
    assert (trace.outcome, trace.reason, trace.event.phase) == ("cancelled", "Not today.", Phase.SCHEDULED)


def test_one_that_failed_says_so() -> None:
    assert only(folded(RAISED, STARTS, t.EventFailed(EVENT.id, EVENT.scope, "No power."))).outcome == "failed"


def test_a_start_that_knows_only_the_state_learns_the_rest() -> None:
    """After a restart an event that traces is known without its past; a look back brings that."""
    history = records(RAISED, APPROVED, STARTS, COMPLETED)
    for restart in range(1, 4):
        state = EVENT if restart < 3 else STARTED
        traces, before = EventTraces([state]), EventTraces()
        traces.note(history[restart:])
        before.note(history[:restart])
        traces.learn(before)
        assert only(traces) == only(folded(RAISED, APPROVED, STARTS, COMPLETED))


@given(st.integers(0, 4))
def test_a_look_back_at_any_moment_gives_the_same_as_having_been_there(cut: int) -> None:
    history = records(RAISED, t.EventPostponed(EVENT), APPROVED, STARTS)
    before, since = EventTraces(), EventTraces([STARTED] if cut == 4 else [EVENT] if cut else [])
    before.note(history[:cut])
    since.note(history[cut:])
    since.learn(before)
    assert only(since) == only(folded(*(record.transition for record in history)))


def test_only_what_had_a_part_in_a_span_is_found() -> None:
    traces = folded(RAISED, CANCELLED)
    minute = timedelta(minutes=1)
    assert list(between(traces.all(), NOW.at + 2 * minute, NOW.at + 9 * minute)) == []
    assert list(between(traces.all(), NOW.at - 9 * minute, NOW.at - minute)) == []
    assert list(between(traces.all(), NOW.at + minute, NOW.at + 9 * minute)) == [only(traces)]


def test_the_oldest_that_are_over_are_forgotten(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_OVER", 2)
    traces = EventTraces()
    for number in (1, 2, 3):
        event = event_of(number)
        traces.note(records(t.EventRaised(event), t.EventCompleted(event.id, event.scope)))
    assert [bool(traces.find(id_of(number))) for number in (1, 2, 3)] == [False, True, True]
