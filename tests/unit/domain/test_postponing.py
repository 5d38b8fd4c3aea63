"""What is seen late gets its notice whole (S2)."""

from datetime import timedelta

from duenotice.clock import Instant, micros
from duenotice.domain.apply import apply
from duenotice.domain.commands import (
    PostponeEvents,
)
from duenotice.domain.event import EventType
from duenotice.domain.records import EventCancelled, EventPostponed, EventRaised, Record, Transition, VmsRemoved
from duenotice.domain.rules.timing import owed, to_be_seen_by
from tests.unit.domain.build import (
    NOW,
    SECOND,
    do,
    id_of,
    listening,
    schedule,
    started,
    tick,
)

REBOOT, REDEPLOY, TERMINATE = EventType.REBOOT, EventType.REDEPLOY, EventType.TERMINATE


def test_whole_notice_is_owed_for_what_is_new_and_for_what_nobody_could_be_told_of() -> None:
    """S2: not for what VMs have known for a while and what only says its time again."""
    state = listening()
    event, known = schedule(state, "alone"), schedule(state, "zonal", number=2)
    changes: list[tuple[Instant, Transition]] = [
        (NOW, EventRaised(event)),
        (NOW, EventPostponed(event)),
        (NOW.after(SECOND), EventPostponed(known)),
        (NOW, EventPostponed(event)),
        (NOW, EventCancelled(known.id, known.scope)),
    ]
    records = [Record(number, at.at, "test", change) for number, (at, change) in enumerate(changes, start=1)]
    assert owed(state, records) == (event.id,)
    assert owed(state, records[1:]) == (event.id,)
    assert owed(state, records[2:3]) == ()


class TestToBeSeenBy:
    """Until when events may be shown as they are, so that each has its whole notice from then on (S2)."""

    def test_of_several_the_earliest_counts_for_each_face_of_time_on_its_own(self) -> None:
        state = listening()
        first = schedule(state, "alone", not_before=NOW.at + timedelta(seconds=1000))
        later_by_day = Instant(NOW.at + timedelta(seconds=60), NOW.steady)
        second = schedule(state, "zonal", number=2, now=later_by_day)
        assert (second.not_before, second.notice_ends) == (NOW.after(960 * SECOND).at, NOW.steady + 900 * SECOND)
        expected = Instant(NOW.after(60 * SECOND).at, NOW.steady)
        assert to_be_seen_by(state, (first.id, second.id)) == expected
        assert to_be_seen_by(state, (second.id, first.id)) == expected
        assert to_be_seen_by(state, (first.id,)) == NOW.after(100 * SECOND)

    def test_what_does_not_wait_for_its_notice_may_be_seen_at_any_time(self) -> None:
        state = listening()
        running = started(state, schedule(state, "alone"))
        assert to_be_seen_by(state, (running.id, id_of(9))) is None


class TestPostponed:
    """What is seen late must not come out of the notice (S2)."""

    def test_both_faces_of_its_time_move_until_the_notice_is_whole_again(self) -> None:
        state, late = listening(), NOW.after(micros(7.5))
        event = schedule(state, "alone")
        do(state, PostponeEvents((event.id,), 2 * SECOND), late)
        later = state.events[event.id]
        assert later.not_before == NOW.at + timedelta(seconds=900 + 10)
        assert later.notice_ends == NOW.steady + 900 * SECOND + 10 * SECOND
        assert state.document("vm/alone").incarnation == 2

    def test_steady_time_counts_also_while_the_time_of_day_stands_still_or_goes_back(self) -> None:
        """A new leader's clock may be behind that of the last one, or somebody sets it during a slow commit."""
        for at in (NOW.at, NOW.at - timedelta(hours=1)):
            state, late = listening(), Instant(at, NOW.steady + 7 * SECOND)
            event = schedule(state, "alone")
            do(state, PostponeEvents((event.id,), 0), late)
            later = state.events[event.id]
            assert later.notice_ends >= late.steady + 900 * SECOND
            assert later.not_before >= event.not_before

    def test_the_time_of_day_counts_also_while_steady_time_stands_still(self) -> None:
        """Somebody sets the clock forward during a slow commit: what is shown must say the whole notice (D01)."""
        state, late = listening(), Instant(NOW.at + timedelta(seconds=7), NOW.steady)
        event = schedule(state, "alone")
        do(state, PostponeEvents((event.id,), 0), late)
        assert state.events[event.id].not_before == late.at + timedelta(seconds=900)

    def test_the_notice_is_the_one_of_its_group_even_if_some_of_its_vms_are_gone(self) -> None:
        state, late = listening(), NOW.after(SECOND)
        event = schedule(state, "batch_0", "batch_1", type=EventType.TERMINATE)
        apply(state, VmsRemoved(("batch_0",)))
        do(state, PostponeEvents((event.id,), 0), late)
        assert state.events[event.id].not_before == late.at + timedelta(seconds=420)

    def test_an_event_whose_vms_are_all_gone_gets_the_notice_of_its_type(self) -> None:
        state, late = listening(), NOW.after(SECOND)
        event = schedule(state, "alone")
        apply(state, VmsRemoved(("alone",)))
        do(state, PostponeEvents((event.id,), 0), late)
        assert state.events[event.id].not_before == late.at + timedelta(minutes=15)

    def test_what_has_enough_left_stays_as_it_is(self) -> None:
        """Days ahead, or just enough."""
        state = listening()
        tomorrow = schedule(state, "alone", not_before=NOW.at + timedelta(days=1))
        just = schedule(state, "zonal", number=2)
        assert do(state, PostponeEvents((tomorrow.id, just.id), SECOND)) == []

    def test_what_is_approved_started_or_gone_stays_as_it_is(self) -> None:
        state = listening()
        running = started(state, schedule(state, "alone"))
        assert do(state, PostponeEvents((running.id, id_of(9)), SECOND), NOW.after(60 * SECOND)) == []

    def test_it_is_due_at_its_new_moment_and_not_before(self) -> None:
        state = listening()
        event = schedule(state, "alone")
        do(state, PostponeEvents((event.id,), 0), NOW.after(8 * SECOND))
        assert tick(state, NOW.after(907 * SECOND)) == []
        assert tick(state, NOW.after(908 * SECOND)) != []
