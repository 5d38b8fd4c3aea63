"""The past of events is a fold of the journal, with a limit, and says since when it is whole."""

from datetime import UTC, datetime, timedelta

import pytest

from duenotice.domain import records as t
from duenotice.domain.event import Cause, Event, EventType
from duenotice.engine import past_events
from duenotice.engine.past_events import PastEvent, PastEvents

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def event(name: str, **fields: object) -> Event:
    whole = Event(name, EventType.REBOOT, Cause.USER, "set/web", ("web-0",), NOON + timedelta(minutes=15), 0)
    return whole.with_(**fields)


def past(*changes: tuple[int, t.Transition]) -> PastEvents:
    """Changes, each so many minutes after noon."""
    found = PastEvents()
    records = [
        t.Record(place, NOON + timedelta(minutes=at), "test", change) for place, (at, change) in enumerate(changes, 1)
    ]
    found.note(records)
    return found


def test_an_event_has_all_of_its_moments() -> None:
    one = event("A")
    known = past(
        (0, t.EventRaised(one)),
        (5, t.EventApproved("A", "set/web", "vm/web-0")),
        (6, t.EventStarted(one)),
        (9, t.EventCompleted("A", "set/web")),
    )
    at = [NOON + timedelta(minutes=number) for number in (0, 5, 6, 9, 15)]
    assert known.all() == (
        PastEvent(
            "A", EventType.REBOOT, "set/web", ("web-0",), at[4], at[0], at[1], "vm/web-0", at[2], at[3], "completed"
        ),
    )


@pytest.mark.parametrize(
    ("change", "outcome"),
    [(t.EventCancelled("A", "set/web"), "cancelled"), (t.EventFailed("A", "set/web", "Broken."), "failed")],
)
def test_how_it_ended_is_known(change: t.Transition, outcome: str) -> None:
    (one,) = past((0, t.EventRaised(event("A"))), (1, change)).all()
    assert (one.outcome, one.started_at) == (outcome, None)


def test_what_was_told_before_the_first_record_is_not_there() -> None:
    assert past((0, t.EventStarted(event("A"))), (1, t.EventCompleted("A", "set/web"))).all() == ()


def test_only_the_newest_are_kept_and_it_says_since_when(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_events, "MOST_EVENTS", 2)
    known = past(*((number, t.EventRaised(event(f"E-{number}"))) for number in range(4)))
    assert [one.id for one in known.all()] == ["E-2", "E-3"]
    assert known.complete_since == NOON + timedelta(minutes=1)
