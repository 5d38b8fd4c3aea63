"""From records to changes of events."""

import pytest

from duenotice.domain import records as t
from duenotice.domain.event import Phase
from duenotice.push.worker import EventBook, UnknownEvent, event_before
from tests.unit.domain.build import NOW, listening, schedule

EVENT = schedule(listening(), "web-0", "web-2")
STARTED = EVENT.with_(phase=Phase.STARTED)


def record(position: int, change: t.Transition) -> t.Record:
    return t.Record(position, NOW.at, "test", change)


def test_the_life_of_an_event_is_told_change_by_change() -> None:
    """An approval is not told: who reads documents does not see it."""
    book = EventBook()
    told = [
        book.take(record(3, t.EventRaised(EVENT))),
        book.take(record(4, t.EventApproved(EVENT.id, EVENT.scope, "web-0"))),
        book.take(record(5, t.ScopeEnabled("set/web"))),
        book.take(record(6, t.EventStarted(STARTED))),
        book.take(record(7, t.EventCompleted(EVENT.id, EVENT.scope))),
    ]
    changes = [(change.position, change.event.phase, change.before.phase) for change in told if change is not None]
    assert changes == [
        (3, Phase.SCHEDULED, Phase.SCHEDULED),
        (6, Phase.STARTED, Phase.SCHEDULED),
        (7, Phase.COMPLETED, Phase.STARTED),
    ]


@pytest.mark.parametrize(
    ("end", "phase"),
    [
        (t.EventCancelled(EVENT.id, EVENT.scope), Phase.CANCELLED),
        (t.EventFailed(EVENT.id, EVENT.scope, "no"), Phase.FAILED),
    ],
)
def test_an_end_says_how_it_ended_and_what_it_was(end: t.Transition, phase: Phase) -> None:
    change = EventBook({EVENT.id: EVENT}).take(record(9, end))
    assert change is not None
    assert (change.event, change.before) == (EVENT.with_(phase=phase), EVENT)


def test_who_leaves_an_event_is_in_what_it_was() -> None:
    narrow = STARTED.with_(resources=("web-2",))
    change = EventBook({EVENT.id: STARTED}).take(record(9, t.EventNarrowed(narrow)))
    assert change is not None
    assert (change.event.resources, change.before.resources) == (("web-2",), ("web-0", "web-2"))


def test_an_end_of_an_event_that_is_not_in_the_book_is_looked_up_in_its_records() -> None:
    book, end = EventBook(), record(9, t.EventCompleted(EVENT.id, EVENT.scope))
    with pytest.raises(UnknownEvent):
        book.take(end)
    history = [record(3, t.EventRaised(EVENT)), record(6, t.EventStarted(STARTED)), end]
    assert [event_before(position, history) for position in (3, 6, 9)] == [None, EVENT, STARTED]
    book.learn(STARTED)
    change = book.take(end)
    assert change is not None
    assert change.event.phase is Phase.COMPLETED
