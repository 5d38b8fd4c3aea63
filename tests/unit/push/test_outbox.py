"""What a subscription sends next: in order for each event, later after a failure, and not for ever."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.backoff import Backoff
from duenotice.clock import Instant
from duenotice.domain.commands import GivenUp
from duenotice.domain.subscription import PushFormat, Subscription
from duenotice.push.outbox import AT_ONCE, MOST_PENDING, PASSED, Outbox, QueuedMessage
from duenotice.wire.azure import EventChange
from tests.unit.domain.build import DAY, HOUR, NOW, SECOND, id_of, listening, schedule

EVENT = schedule(listening(), "alone")
KNOWN = Subscription("U-1", "https://r/", PushFormat.EVENTGRID, NOW.at, NOW.at, position=10, since_steady=NOW.steady)


def outbox(known: Subscription = KNOWN) -> Outbox:
    """One whose pauses are 10, 20, 40 seconds."""
    return Outbox(known, Backoff(10.0, 3600.0), lambda: 1.0)


def change(position: int, number: int = 0, when: Instant = NOW) -> EventChange:
    event = EVENT.with_(id=id_of(number or position))
    return EventChange(position, when, event, event)


def fail(
    box: Outbox, message: QueuedMessage, now: float, shown: Instant = NOW, *, alone: bool = False, after: float = 0
) -> bool:
    return box.failed(message, "It answered 500.", now, shown, alone=alone, after=after)


def taken(box: Outbox, now: float = 0.0) -> list[QueuedMessage]:
    """All that it sends now."""
    found = []
    while (message := box.next(now)) is not None:
        found.append(message)
    return found


def test_messages_of_one_event_go_one_after_the_other() -> None:
    box = outbox()
    for position, number in ((11, 1), (12, 1), (13, 2)):
        box.put(change(position, number))
    first, other = taken(box)
    assert (first.change.position, other.change.position) == (11, 13)
    box.delivered(first)
    assert [message.change.position for message in taken(box)] == [12]


def test_only_some_are_under_way_at_once() -> None:
    box = outbox()
    for position in range(11, 11 + 2 * AT_ONCE):
        box.put(change(position))
    assert len(taken(box)) == AT_ONCE


def test_a_receiver_that_fails_is_left_alone_for_a_while_and_gets_one_at_a_time() -> None:
    """Those that were under way together fail together, which counts once."""
    box = outbox()
    for position in range(11, 14):
        box.put(change(position))
    for message in taken(box):
        fail(box, message, 100.0)
    assert (taken(box, 109.0), box.wait(109.0)) == ([], 1.0)
    (probe,) = taken(box, 110.0)
    fail(box, probe, 110.0)
    assert box.wait(110.0) == 20.0
    (probe,) = taken(box, 130.0)
    box.delivered(probe)
    assert len(taken(box, 150.0)) == 2


def test_a_message_that_is_refused_does_not_hold_up_others() -> None:
    box = outbox()
    for position in range(11, 14):
        box.put(change(position))
    bad, *good = taken(box)
    fail(box, bad, 100.0, alone=True)
    for message in good:
        box.delivered(message)
    assert taken(box, 101.0) == []
    assert taken(box, 110.0) == [bad]


def test_a_receiver_may_ask_for_a_longer_pause_but_not_for_ever() -> None:
    box = outbox()
    box.put(change(11))
    (message,) = taken(box)
    fail(box, message, 0.0, after=300.0)
    assert box.wait(0.0) == 300.0
    (message,) = taken(box, 300.0)
    fail(box, message, 300.0, after=999_999.0)
    assert box.wait(300.0) == 3600.0


def test_after_a_day_a_message_is_given_up_and_set_aside() -> None:
    """The next message of the event goes on."""
    box = outbox()
    box.put(change(11, 1))
    box.put(change(12, 1, NOW.after(DAY)))
    (message,) = taken(box)
    assert not fail(box, message, 0.0, NOW.after(DAY - SECOND))
    (message,) = taken(box, 10.0)
    assert fail(box, message, 10.0, NOW.after(DAY))
    note = box.take_note()
    assert note is not None
    assert (note.given_up, note.done) == ((GivenUp(11, id_of(1), "It answered 500."),), (11,))
    assert [message.change.position for message in taken(box, 1000.0)] == [12]


@pytest.mark.parametrize(("hours", "days", "given_up"), [(0, 2, False), (23, 2, False), (25, 0, True), (25, -2, False)])
def test_a_message_is_given_up_only_when_it_is_too_late_by_both_faces_of_time(
    hours: int, days: int, given_up: bool
) -> None:
    """S34: so many hours later, with a time of day that is wrong by so many days."""
    box = outbox()
    box.put(change(11))
    (message,) = taken(box)
    at, steady = NOW.after(hours * HOUR)
    wrong = Instant(at + timedelta(days=days), steady)
    assert (fail(box, message, 0.0, wrong), box.waiting) == (given_up, not given_up)
    if not given_up:
        (message,) = taken(box, 10.0)
        assert box.is_hopeless(message, wrong) is given_up
        box.delivered(message)
        assert box.waiting == 0


def test_what_is_old_already_is_tried_once_unless_the_receiver_fails_anyway() -> None:
    box = outbox()
    box.put(change(11))
    box.put(change(12))
    late = NOW.after(2 * DAY)
    first, second = taken(box)
    assert not box.is_hopeless(first, late)
    assert fail(box, first, 0.0, late)
    assert box.is_hopeless(second, late)
    assert box.waiting == 0


def test_a_day_begins_again_when_it_is_resumed_or_replayed() -> None:
    since = NOW.after(DAY)
    box = outbox(KNOWN.with_(since=since.at, since_steady=since.steady))
    box.put(change(11))
    (message,) = taken(box)
    assert not fail(box, message, 0.0, NOW.after(DAY + 23 * HOUR))


def test_a_note_says_what_is_done_and_what_is_left_and_only_when_there_is_news() -> None:
    box = outbox()
    assert box.take_note() is None
    for position in (11, 12):
        box.put(change(position))
    box.position = 15
    assert box.take_note() is None
    first, _ = taken(box)
    box.delivered(first)
    note = box.take_note()
    assert note is not None
    assert (note.position, note.pending, note.done) == (15, (12,), (11,))
    assert box.take_note() is None
    box.put_back(note)
    again = box.take_note()
    assert again == note
    box.position = 15 + PASSED
    assert box.take_note() is not None


def test_trouble_is_news_and_so_is_its_end() -> None:
    box = outbox()
    box.put(change(11))
    (message,) = taken(box)
    fail(box, message, 0.0)
    assert (note := box.take_note()) is not None and note.trouble == "It answered 500."
    box.put(change(12, 11))
    assert (note := box.take_note()) is not None and note.pending == (11, 12)
    (message,) = taken(box, 10.0)
    box.delivered(message)
    assert (note := box.take_note()) is not None and note.trouble == ""


def test_it_has_room_for_some_and_never_holds_a_message_twice() -> None:
    """S24."""
    box = outbox()
    box.put(change(11))
    box.put(change(11))
    assert (box.waiting, box.room, box.oldest) == (1, MOST_PENDING - 1, NOW.at)


def test_a_message_that_cannot_be_made_is_given_up() -> None:
    box = outbox()
    box.drop(4, "gone")
    note = box.take_note()
    assert note is not None
    assert (note.done, note.given_up) == ((4,), (GivenUp(4, "", "gone"),))


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["ok", "fail", "refuse"])), min_size=1, max_size=60))
def test_whatever_a_receiver_answers_nothing_is_lost_and_each_event_is_in_order(story: list[tuple[int, str]]) -> None:
    """Answers come in any order; in the end all are delivered, each event's in order."""
    box, delivered, now = outbox(), list[EventChange](), 0.0
    for position, (number, _) in enumerate(story, start=11):
        box.put(change(position, number))
    answers = iter([answer for _, answer in story])
    while box.waiting:
        under_way = taken(box, now)
        assert under_way or (box.wait(now) or 0.0) > 0
        for message in reversed(under_way):
            answer = next(answers, "ok")
            if answer == "ok":
                box.delivered(message)
                delivered.append(message.change)
            else:
                fail(box, message, now, alone=answer == "refuse")
        now += 3600.0
    note = box.take_note()
    assert note is not None
    assert sorted(note.done) == sorted(each.position for each in delivered) == list(range(11, 11 + len(story)))
    for number in range(1, 5):
        mine = [each.position for each in delivered if each.event.id == id_of(number)]
        assert mine == sorted(mine)
