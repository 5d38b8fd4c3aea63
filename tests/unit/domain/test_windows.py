"""A maintenance with a window hits only inside of it, is told of in time, and never waits for ever (decision 0014)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.apply import apply
from duenotice.domain.event import Event, EventType, Phase
from duenotice.domain.plan import Maintenance, Status, StepStatus, tally_of
from duenotice.domain.policy import Policy
from duenotice.domain.rules.due import next_due, window_is_due
from duenotice.domain.rules.maintenance import (
    CLOCK_SET_BACK,
    NOT_SURE_YET,
    WINDOW_ENDED,
    missed,
    reason_of,
    waits_until,
)
from duenotice.domain.rules.preview import outlook, preview
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from duenotice.domain.window import Window, WindowSpan, opening
from duenotice.errors import Conflict, InvariantBroken, Refused
from tests.unit.domain.build import (
    HOUR,
    MINUTE,
    NOW,
    POLICY,
    SECOND,
    approve,
    do,
    failed,
    id_of,
    listening,
    maintain,
    schedule,
    state_of,
    tick,
)
from tests.unit.domain.stories import window_of

WEBS = ("web-0", "web-1", "web-2", "web-3")
"""Update domain 0 is one step; update domain 1 stands on two hosts, and is two."""
DRIVEN = Policy(simulated_impact=False)
TWO_HOURS = window_of((3600, 2 * 3600))
RUNNING, PAUSED, DONE, FAILED, CANCELLED = Status
WAITING, UNDER_WAY, STEP_DONE, STEP_FAILED, SKIPPED = StepStatus


def plan_of(state: State, number: int = 1) -> Maintenance:
    return state.maintenances[id_of(number)]


def steps_of(state: State, number: int = 1) -> list[StepStatus]:
    return [step.status for step in plan_of(state, number).steps]


def spans_of(state: State) -> tuple[WindowSpan, ...]:
    window = plan_of(state).window
    return () if window is None else window.spans


def only_event(state: State) -> Event:
    (event,) = state.events.values()
    return event


def later(hours: float) -> Instant:
    return NOW.after(round(hours * HOUR))


def goes_on(state: State, now: Instant, policy: Policy = POLICY) -> list[tuple[datetime, Event]]:
    """Let time pass until nothing more is due; the events that started, and when."""
    started: list[tuple[datetime, Event]] = []
    for _ in range(200):
        changes = tick(state, now, policy)
        started += [(now.at, change.event) for change in changes if isinstance(change, t.EventStarted)]
        due = next_due(state, now.steady, now.at)
        if due is None:
            return started
        now = now.after(due - now.steady)
    raise AssertionError("It goes on for ever.")


class TestBefore:
    """VMs are told so early that the window can be used from its first moment on, and no earlier."""

    def test_nothing_is_announced_long_before_the_window(self) -> None:
        state = listening()
        maintain(state, *WEBS, window=TWO_HOURS)
        assert (state.events, steps_of(state)) == ({}, [WAITING] * 3)
        assert not window_is_due(state, NOW, POLICY)

    def test_it_says_until_when_it_waits(self) -> None:
        plan = maintain(listening(), *WEBS, window=TWO_HOURS)
        assert waits_until(plan, NOW.at) == later(1).at
        assert waits_until(plan, later(1).at) is None
        assert waits_until(structs.replace(plan, status=PAUSED), NOW.at) is None

    def test_vms_are_told_a_minute_before_their_notice_has_to_begin(self) -> None:
        state = listening()
        maintain(state, *WEBS, window=TWO_HOURS)
        told = NOW.after(44 * MINUTE)
        assert next_due(state, NOW.steady, NOW.at) == told.steady
        assert not window_is_due(state, told.after(-1), POLICY)
        assert window_is_due(state, told, POLICY)
        tick(state, told)
        assert (only_event(state).resources, only_event(state).not_before) == (("web-0", "web-2"), later(1).at)
        assert not window_is_due(state, told, POLICY)

    def test_it_starts_with_the_window(self) -> None:
        state = listening()
        maintain(state, *WEBS, window=TWO_HOURS)
        assert [at for at, _ in goes_on(state, NOW)] == [later(1).at, *[NOW.after(85 * MINUTE).at] * 2]
        assert plan_of(state).status is DONE

    def test_an_approval_before_the_window_lets_it_start_with_the_window(self) -> None:
        state = listening()
        maintain(state, "web-0", window=TWO_HOURS)
        told = NOW.after(44 * MINUTE)
        tick(state, told)
        approve(state, only_event(state), vm="web-1", now=told)
        tick(state, later(1).after(-1))
        assert only_event(state).phase is Phase.SCHEDULED
        tick(state, later(1))
        assert only_event(state).phase is Phase.STARTED

    def test_an_approval_inside_the_window_starts_it_at_once(self) -> None:
        state = listening()
        maintain(state, "web-0", window=TWO_HOURS, now=later(2))
        assert only_event(state).not_before == later(2.25).at
        approve(state, only_event(state), now=later(2))
        tick(state, later(2))
        assert only_event(state).phase is Phase.STARTED

    def test_where_nobody_listens_it_waits_for_the_window_too(self) -> None:
        state = state_of()
        maintain(state, "alone", window=TWO_HOURS)
        assert [at for at, _ in goes_on(state, NOW)] == [later(1).at]

    def test_a_planned_start_in_the_first_year_that_there_is_lets_it_begin_at_once(self) -> None:
        """S23: nothing can be told of before that; when it was tried, no service came up on the journal any more."""
        state = listening()
        maintain(state, *WEBS, window=Window((WindowSpan(datetime.min.replace(tzinfo=UTC)),)))
        assert only_event(state).not_before == later(0.25).at

    def test_a_planned_start_is_a_window_without_an_end(self) -> None:
        state = listening()
        maintain(state, *WEBS, window=Window((WindowSpan(later(5).at),)), at_once=1)
        assert next(at for at, _ in goes_on(state, NOW)) == later(5).at
        assert plan_of(state).status is DONE


class TestEnd:
    """Nothing starts after the end of a span; what has started is finished."""

    def test_no_step_is_announced_that_would_hit_after_the_end(self) -> None:
        state = listening()
        maintain(state, *WEBS, window=TWO_HOURS, now=later(2.75))
        assert state.events == {}
        state = listening()
        maintain(state, *WEBS, window=TWO_HOURS, now=later(2.75).after(-SECOND))
        assert only_event(state).not_before == later(3).after(-SECOND).at

    def test_the_time_a_commit_may_take_counts(self) -> None:
        state, slow = listening(), Policy(commit_allowance=2 * SECOND)
        maintain(state, *WEBS, window=TWO_HOURS, now=later(2.75).after(-SECOND), policy=slow)
        assert state.events == {}

    def test_after_a_single_window_it_pauses_and_says_why(self) -> None:
        state = listening()
        maintain(state, *WEBS, window=window_of((3600, 1200)))
        started = goes_on(state, NOW)
        assert [event.resources for _, event in started] == [("web-0", "web-2")]
        assert (plan_of(state).status, plan_of(state).reason) == (PAUSED, WINDOW_ENDED)
        assert steps_of(state) == [STEP_DONE, WAITING, WAITING]

    def test_in_a_recurring_window_it_goes_on_in_the_next(self) -> None:
        state = listening()
        maintain(state, *WEBS, window=window_of((3600, 1200), (3600, 1200)))
        started = goes_on(state, NOW)
        begins = later(1).after(1200 * SECOND).after(HOUR).at
        assert {(at, event.resources) for at, event in started[1:]} == {(begins, ("web-3",)), (begins, ("web-1",))}
        assert plan_of(state).status is DONE

    def test_a_step_that_has_started_is_finished(self) -> None:
        state = listening()
        maintain(state, "web-0", window=window_of((3600, 60)))
        goes_on(state, NOW)
        assert (plan_of(state).status, steps_of(state)) == (DONE, [STEP_DONE])

    def test_when_all_that_is_left_is_under_way_there_is_nothing_to_pause(self) -> None:
        state = listening()
        maintain(state, "web-0", window=window_of((3600, 60)))
        tick(state, NOW.after(44 * MINUTE))
        tick(state, later(1))
        changes = tick(state, later(1).after(MINUTE))
        assert changes == [t.WindowClosed(id_of(1), 1)]
        assert (plan_of(state).status, said(state)) == (RUNNING, "")

    def test_an_event_that_no_plan_waits_for_is_just_taken_back(self) -> None:
        state = listening()
        event = schedule(state, "web-0", number=7)
        assert missed(state, event, NOW) == [t.EventCancelled(event.id, "set/web", WINDOW_ENDED)]

    def test_what_is_only_scheduled_at_the_end_is_taken_back_and_waits_for_the_next(self) -> None:
        """Another update domain of its set was being hit for the whole window."""
        state = listening()
        other = schedule(state, "web-1", number=7)
        do(state, c.ApproveEvents((other.id,)), NOW, DRIVEN)
        tick(state, NOW, DRIVEN)
        maintain(state, "web-0", window=window_of((3600, 60), (3600, 3600)), policy=DRIVEN)
        tick(state, NOW.after(44 * MINUTE), DRIVEN)
        first = plan_of(state).steps[0].event_id
        tick(state, later(1), DRIVEN)
        changes = tick(state, later(1).after(MINUTE), DRIVEN)
        assert changes == [t.EventCancelled(first or "", "set/web", WINDOW_ENDED), t.WindowClosed(id_of(1), 1, (0,))]
        assert (plan_of(state).status, steps_of(state), state.step_of_event, state.unprocessed_outcomes) == (
            RUNNING,
            [WAITING],
            {},
            {},
        )
        do(state, c.ReportImpact(other.id), later(1.5), DRIVEN)
        tick(state, later(2), DRIVEN)
        assert steps_of(state) == [UNDER_WAY]
        assert plan_of(state).steps[0].event_id != first  # an id is never used again (S7)

    def test_a_late_event_does_not_start_although_its_time_has_come(self) -> None:
        """The service stood still over the end of the window, and finds an approved event."""
        state = listening()
        maintain(state, "web-0", window=TWO_HOURS, now=later(2))
        approve(state, only_event(state), now=later(2))
        tick(state, later(4))
        assert (state.events, plan_of(state).status, plan_of(state).reason) == ({}, PAUSED, WINDOW_ENDED)

    def test_the_window_of_a_paused_plan_ends_too(self) -> None:
        state = listening()
        maintain(state, *WEBS, window=TWO_HOURS)
        do(state, c.PauseMaintenance(id_of(1)))
        assert goes_on(state, NOW) == []
        assert (plan_of(state).status, plan_of(state).reason) == (PAUSED, WINDOW_ENDED)

    def test_windows_that_were_slept_through_are_left_out(self) -> None:
        state = listening()
        window = window_of((3600, 600), (3000, 600), (3000, 600))
        maintain(state, "web-0", window=window)
        tick(state, NOW.after(7900 * SECOND))
        assert plan_of(state).present_span == window.spans[2]

    def test_a_plan_that_is_over_has_no_window_to_wait_for(self) -> None:
        state = listening()
        maintain(state, *WEBS, window=TWO_HOURS)
        do(state, c.CancelMaintenance(id_of(1)))
        assert (next_due(state, NOW.steady, NOW.at), window_is_due(state, later(5), POLICY)) == (None, False)
        assert plan_of(state).over_at == NOW.at


class TestClock:
    """A wall clock that jumps makes it late, never early."""

    def test_set_forward_it_waits_for_its_notice(self) -> None:
        state = listening()
        maintain(state, "web-0", window=TWO_HOURS)
        tick(state, NOW.after(44 * MINUTE))
        approve(state, only_event(state), now=NOW.after(44 * MINUTE))
        jumped = Instant(later(1.1).at, NOW.after(50 * MINUTE).steady)
        tick(state, jumped)
        assert only_event(state).phase is Phase.SCHEDULED
        tick(state, jumped.after(10 * MINUTE))
        assert only_event(state).phase is Phase.STARTED

    @pytest.mark.parametrize("approved", [True, False])
    def test_set_back_it_waits_for_the_time_of_day(self, approved: bool) -> None:
        state = listening()
        maintain(state, "web-0", window=TWO_HOURS)
        tick(state, NOW.after(44 * MINUTE))
        approve(state, *[only_event(state)] * approved, now=NOW.after(44 * MINUTE))
        tick(state, Instant(NOW.after(45 * MINUTE).at, later(2).steady))
        assert only_event(state).phase is Phase.SCHEDULED

    def test_a_jump_into_the_window_is_noticed_without_any_other_change(self) -> None:
        state = listening()
        maintain(state, "web-0", window=TWO_HOURS)
        assert window_is_due(state, Instant(later(1).at, NOW.steady + 1), POLICY)

    def test_a_lane_that_has_settled_outside_of_the_window_is_noticed_too(self) -> None:
        state = listening()
        maintain(state, *WEBS, window=window_of((3600, 1200), (36000, 1200)), settle=HOUR)
        now = NOW
        for _ in range(5):
            due = next_due(state, now.steady, now.at)
            assert due is not None
            now = now.after(due - now.steady)
            tick(state, now)
        assert steps_of(state) == [STEP_DONE, WAITING, WAITING]
        assert window_is_due(state, later(1).after(1200 * SECOND).after(10 * HOUR), POLICY)

    def test_with_no_room_for_another_step_nothing_is_due(self) -> None:
        state = listening()
        maintain(state, *WEBS, "alone", window=TWO_HOURS, at_once=1, now=later(1))
        assert not window_is_due(state, later(1), POLICY)
        do(state, c.PauseMaintenance(id_of(1)), later(1))
        assert not window_is_due(state, later(1.2), POLICY)

    @pytest.mark.parametrize(
        ("steady", "at", "lets"),
        [(1, 1, True), (1, 0, False), (0, 1, False), (2, 3.0 - 1e-6, True), (2, 3, False), (9, 2, True)],
    )
    def test_a_span_lets_start_when_both_faces_of_its_begin_have_come_and_before_its_end(
        self, steady: float, at: float, lets: bool
    ) -> None:
        """In hours from now; the span is from 1 to 3 (S1)."""
        (span,) = TWO_HOURS.spans
        assert opening(span, NOW).lets(Instant(later(at).at, later(steady).steady)) is lets


def said(state: State) -> str:
    return reason_of(plan_of(state), tally_of(plan_of(state).steps))


def wrong(now: Instant, days: float) -> Instant:
    """The same moment, while the time of day is wrong by so many days."""
    return Instant(now.at + timedelta(days=days), now.steady)


class TestWrongForAMoment:
    """A time of day that is wrong for some seconds loses no window: what is given up needs both faces (S34)."""

    @pytest.mark.parametrize("days", [2, 400, -2])
    def test_a_plan_before_its_only_window_is_not_paused(self, days: int) -> None:
        state = listening()
        maintain(state, *WEBS, window=TWO_HOURS)
        tick(state, wrong(NOW.after(SECOND), days))
        assert plan_of(state).status is RUNNING
        tick(state, NOW.after(6 * SECOND))
        assert [at for at, _ in goes_on(state, NOW.after(6 * SECOND))] == [
            later(1).at,
            *[NOW.after(85 * MINUTE).at] * 2,
        ]
        assert plan_of(state).status is DONE

    def test_what_is_scheduled_for_a_window_stays_so(self) -> None:
        """VMs have prepared for it, and approved it."""
        state = listening()
        maintain(state, "web-0", window=window_of((3600, 3600), (90_000, 3600)))
        told = NOW.after(44 * MINUTE)
        tick(state, told)
        event = only_event(state)
        assert [type(change) for change in tick(state, wrong(told.after(SECOND), 2))] == [t.WindowClosed]
        assert only_event(state) == event
        tick(state, told.after(6 * SECOND))
        assert [(at, hit.id) for at, hit in goes_on(state, told.after(6 * SECOND))] == [(later(1).at, event.id)]

    def test_no_window_is_left_out(self) -> None:
        """Two days ahead it is told of a window then; when the clock is right again, of today's."""
        state = listening()
        window = window_of((3600, 7200), (79_200, 7200), (79_200, 7200))
        maintain(state, "web-0", window=window)
        ahead = wrong(NOW.after(SECOND), 2)
        tick(state, Instant(ahead.at + timedelta(minutes=50), ahead.steady))
        early = only_event(state)
        assert (early.opening is not None and early.opening.begins, plan_of(state).span) == (window.spans[2].begins, 2)
        changes = tick(state, NOW.after(6 * SECOND))
        assert changes == [t.EventCancelled(early.id, "set/web", CLOCK_SET_BACK), t.WindowClosed(id_of(1), 0, (0,))]
        assert [at for at, _ in goes_on(state, NOW.after(6 * SECOND))] == [later(1).at]

    def test_set_back_by_a_second_at_the_end_of_a_window_it_keeps_what_it_has_told_for_the_next(self) -> None:
        """NTP does that; nothing would fit into the rest of the earlier window."""
        state = listening()
        maintain(state, "web-0", window=window_of((3600, 600), (600, 3600)), now=NOW.after(64 * MINUTE))
        end = NOW.after(70 * MINUTE)
        tick(state, end)
        event = only_event(state)
        back = Instant(end.at - timedelta(seconds=1), end.steady + SECOND)
        assert tick(state, back) == [t.WindowClosed(id_of(1), 0)]
        tick(state, end.after(2 * SECOND))
        assert only_event(state) == event

    def test_the_end_of_the_last_window_has_to_come_by_both_faces_too(self) -> None:
        state = listening()
        maintain(state, *WEBS, window=TWO_HOURS)
        over = later(3)
        for early in (Instant(over.at, over.steady - 1), Instant(over.at - timedelta(microseconds=1), over.steady)):
            tick(state, early)
            assert plan_of(state).status is RUNNING
        tick(state, over)
        assert (plan_of(state).status, plan_of(state).reason) == (PAUSED, WINDOW_ENDED)

    def test_in_between_it_says_what_it_waits_for(self) -> None:
        """The service was away for three hours, so its steady clock is behind."""
        state = listening()
        plan = maintain(state, *WEBS, window=TWO_HOURS)
        assert reason_of(plan, tally_of(plan.steps)) == ""
        tick(state, Instant(later(4).at, later(1).steady))
        assert said(state) == NOT_SURE_YET
        assert next_due(state, later(1).steady, later(4).at) == later(3).steady
        tick(state, Instant(later(6).at, later(3).steady))
        assert said(state) == WINDOW_ENDED

    def test_after_an_absence_a_late_event_goes_into_the_next_window(self) -> None:
        """The service was away over the whole window: the event is taken back when its own time is over."""
        state = listening()
        maintain(state, "web-0", window=window_of((3600, 3600), (79_200, 3600)))
        told = NOW.after(44 * MINUTE)
        tick(state, told)
        back = Instant(later(5).at, told.steady)
        tick(state, back)
        first = only_event(state)
        assert (first.phase, plan_of(state).span) == (Phase.SCHEDULED, 1)
        tick(state, back.after(76 * MINUTE))
        assert not state.events
        assert [at for at, _ in goes_on(state, back.after(76 * MINUTE))] == [later(24).at]

    def test_what_waits_for_another_update_domain_is_on_the_agenda_for_the_end_of_its_span(self) -> None:
        """Nothing else would wake the service then."""
        state = listening()
        other = schedule(state, "web-1", number=7)
        do(state, c.ApproveEvents((other.id,)), NOW, DRIVEN)
        tick(state, NOW, DRIVEN)
        maintain(state, "web-0", window=window_of((3600, 60), (3600, 3600)), policy=DRIVEN)
        tick(state, NOW.after(44 * MINUTE), DRIVEN)
        late = Instant(later(1).at + timedelta(hours=3), NOW.after(45 * MINUTE).steady)
        assert next_due(state, late.steady) == later(1).after(MINUTE).steady


class TestRefused:
    """A window in which nothing could ever happen is refused, and so is one that is too large."""

    @pytest.mark.parametrize(
        ("window", "says"),
        [
            (Window(()), "1 to 1000 spans"),
            (window_of(*[(1, 1)] * 1001), "1 to 1000 spans"),
            (Window(TWO_HOURS.spans, "x" * 201), "1 to 1000 spans"),
            (Window((WindowSpan(later(2).at, later(1).at),)), "ends before it begins"),
            (Window((WindowSpan(later(1).at, later(1).at),)), "ends before it begins"),
            (Window((WindowSpan(later(1).at), WindowSpan(later(2).at))), "ends before it begins"),
            (
                Window((WindowSpan(later(1).at, later(3).at), WindowSpan(later(2).at, later(4).at))),
                "ends before it begins",
            ),
            (Window((WindowSpan(later(-2).at, NOW.at),)), "over already"),
            (Window((WindowSpan(NOW.at + timedelta(days=367)),)), "more than a year ahead"),
            (Window((WindowSpan(NOW.at, datetime(9999, 12, 31, tzinfo=UTC)),)), "ends more than two years ahead"),
        ],
    )
    def test_it_changes_nothing(self, window: Window, says: str) -> None:
        state = listening()
        before = take(state)
        with pytest.raises(Refused, match=says) as refusal:
            maintain(state, *WEBS, window=window)
        assert refusal.value.hint
        assert take(state) == before

    def test_a_title_that_is_too_long_is_refused(self) -> None:
        with pytest.raises(Refused, match="1001 characters"):
            maintain(listening(), *WEBS, title="x" * 1001)


class TestResuming:
    """After its window a plan needs a new one."""

    def paused(self) -> State:
        state = listening()
        maintain(state, *WEBS, window=window_of((3600, 1200)))
        goes_on(state, NOW)
        return state

    def test_without_a_new_window_it_is_refused(self) -> None:
        with pytest.raises(Conflict, match="window of this maintenance is over"):
            do(self.paused(), c.ResumeMaintenance(id_of(1)), later(5))

    def test_with_a_new_window_it_goes_on_there(self) -> None:
        state, window = self.paused(), window_of((3600, 3600), after=later(5))
        do(state, c.ResumeMaintenance(id_of(1), window), later(5))
        assert (spans_of(state), plan_of(state).reason) == (window.spans, "")
        assert [at for at, _ in goes_on(state, later(5))] == [later(6).at] * 2
        assert plan_of(state).status is DONE

    @pytest.mark.parametrize(("first", "told"), [(TWO_HOURS, NOW.after(44 * MINUTE)), (None, NOW)])
    def test_what_was_only_scheduled_for_another_time_waits_for_the_new_window(
        self, first: Window | None, told: Instant
    ) -> None:
        """It would hit outside of the new window, or never: the event keeps the span that it was raised in."""
        state = listening()
        maintain(state, *WEBS, window=first)
        tick(state, told)
        before = set(state.events)
        do(state, c.PauseMaintenance(id_of(1)), told)
        do(state, c.ResumeMaintenance(id_of(1), Window((WindowSpan(later(9).at),))), told)
        hit = goes_on(state, told)
        assert next(at for at, _ in hit) == later(9).at
        assert not before & {event.id for _, event in hit}
        assert plan_of(state).status is DONE

    def test_what_has_started_goes_on_when_there_is_a_new_window(self) -> None:
        state = listening()
        maintain(state, "web-0", window=TWO_HOURS)
        tick(state, NOW.after(44 * MINUTE))
        tick(state, later(1))
        do(state, c.PauseMaintenance(id_of(1)), later(1))
        do(state, c.ResumeMaintenance(id_of(1), Window((WindowSpan(later(9).at),))), later(1))
        assert only_event(state).phase is Phase.STARTED
        goes_on(state, later(1))
        assert plan_of(state).status is DONE

    def test_inside_its_window_it_goes_on_in_it(self) -> None:
        state = listening()
        maintain(state, *WEBS, window=TWO_HOURS)
        do(state, c.PauseMaintenance(id_of(1)))
        do(state, c.ResumeMaintenance(id_of(1)))
        assert spans_of(state) == TWO_HOURS.spans
        goes_on(state, NOW)
        assert plan_of(state).status is DONE


class TestRetrying:
    """Failed steps wait again, each with an event of its own."""

    def test_a_failed_plan_goes_on_with_what_has_failed_and_what_was_not_run(self) -> None:
        state = listening()
        maintain(state, *WEBS, policy=DRIVEN)
        first = self.fail_first(state)
        assert (plan_of(state).status, steps_of(state)) == (FAILED, [STEP_FAILED, WAITING, WAITING])
        assert do(state, c.RetryMaintenance(id_of(1)), later(1)) == [t.MaintenanceRetried(id_of(1), (0,))]
        assert (plan_of(state).status, plan_of(state).reason, plan_of(state).over_at) == (RUNNING, "", None)
        goes_on(state, later(1))
        assert (plan_of(state).status, steps_of(state)) == (DONE, [STEP_DONE] * 3)
        assert plan_of(state).steps[0].event_id != first

    def fail_first(self, state: State) -> str:
        event = next(event for event in state.events.values() if "web-0" in event.resources)
        do(state, c.ApproveEvents((event.id,)), NOW, DRIVEN)
        tick(state, NOW, DRIVEN)
        do(state, c.ReportImpact(event.id, "Broken."), NOW, DRIVEN)
        tick(state, NOW, DRIVEN)
        return event.id

    def test_a_step_whose_event_was_taken_back_with_the_failure_is_retried_too(self) -> None:
        state = listening()
        maintain(state, "web-0", "alone", policy=DRIVEN)
        self.fail_first(state)
        assert steps_of(state) == [STEP_FAILED, SKIPPED]
        do(state, c.RetryMaintenance(id_of(1)))
        tick(state)
        assert steps_of(state) == [UNDER_WAY, UNDER_WAY]

    def test_a_step_that_an_operator_has_cancelled_is_not(self) -> None:
        state = listening()
        maintain(state, "web-0", "alone", policy=DRIVEN)
        do(state, c.CancelEvent(next(e.id for e in state.events.values() if "alone" in e.resources)))
        self.fail_first(state)
        do(state, c.RetryMaintenance(id_of(1)))
        assert steps_of(state) == [WAITING, SKIPPED]

    def test_a_paused_plan_begins_with_what_has_failed(self) -> None:
        state = listening()
        maintain(state, *WEBS, failures_allowed=1, policy=DRIVEN)
        do(state, c.PauseMaintenance(id_of(1)), NOW, DRIVEN)
        self.fail_first(state)
        do(state, c.RetryMaintenance(id_of(1)))
        tick(state)
        assert steps_of(state) == [UNDER_WAY, WAITING, WAITING]
        assert state.plans_by_group == restore(take(state)).plans_by_group == {"set/web": (id_of(1),)}

    def test_after_its_window_it_needs_a_new_one(self) -> None:
        state = listening()
        maintain(state, "web-0", window=TWO_HOURS, now=later(1), policy=DRIVEN)
        event = only_event(state)
        do(state, c.ApproveEvents((event.id,)), later(1), DRIVEN)
        tick(state, later(1), DRIVEN)
        tick(state, later(4), DRIVEN)
        do(state, c.ReportImpact(event.id, "Broken."), later(4), DRIVEN)
        tick(state, later(4), DRIVEN)
        with pytest.raises(Conflict, match="window"):
            do(state, c.RetryMaintenance(id_of(1)), later(4))
        do(state, c.RetryMaintenance(id_of(1), window_of((1, 1), open_at_the_end=True, after=later(4))), later(4))
        goes_on(state, later(4))
        assert plan_of(state).status is DONE

    def test_a_plan_that_runs_or_was_cancelled_is_not_retried(self) -> None:
        state = listening()
        maintain(state, *WEBS)
        with pytest.raises(Conflict, match="is running") as refusal:
            do(state, c.RetryMaintenance(id_of(1)))
        assert "Pause it" in refusal.value.hint
        do(state, c.CancelMaintenance(id_of(1)))
        with pytest.raises(Conflict, match="is cancelled") as refusal:
            do(state, c.RetryMaintenance(id_of(1)))
        assert "new maintenance" in refusal.value.hint

    def test_while_steps_are_under_way_it_is_refused(self) -> None:
        state = listening()
        maintain(state, *WEBS)
        do(state, c.PauseMaintenance(id_of(1)))
        with pytest.raises(Conflict, match="still under way"):
            do(state, c.RetryMaintenance(id_of(1)))

    def test_where_nothing_has_failed_there_is_nothing_to_retry(self) -> None:
        state = listening()
        maintain(state, "alone")
        goes_on(state, NOW)
        with pytest.raises(Conflict, match="No step"):
            do(state, c.RetryMaintenance(id_of(1)))

    def test_a_set_that_another_plan_has_by_now_is_refused(self) -> None:
        state = listening()
        failed(state, "web-0", number=1)
        maintain(state, "web-1", number=2)
        with pytest.raises(Conflict, match=f"under maintenance {id_of(2)}"):
            do(state, c.RetryMaintenance(id_of(1)))

    @pytest.mark.parametrize("number", [-1, 0, 3, 99])
    def test_a_step_that_waits_or_is_not_there_cannot_wait_again(self, number: int) -> None:
        state = listening()
        maintain(state, *WEBS, window=TWO_HOURS)
        with pytest.raises(InvariantBroken):
            apply(state, t.WindowClosed(id_of(1), 1, (number,)))
        assert state.plans[id_of(1)].plan.span == 0


class TestAhead:
    """The preview says when."""

    def test_steps_are_where_the_window_puts_them(self) -> None:
        window = window_of((3600, 1200), (36000, 1200))
        asked = c.StartMaintenance(id_of(1), EventType.REBOOT, WEBS, window=window)
        seen = preview(listening(), asked, NOW, POLICY)
        assert [step.starts_at for step in seen] == [span.begins for span in (window.spans[0], *window.spans[1:] * 2)]

    def test_it_says_where_nobody_listens_although_the_window_is_later(self) -> None:
        asked = c.StartMaintenance(id_of(1), EventType.REBOOT, ("web-0", "alone"), window=TWO_HOURS)
        seen = preview(listening("alone"), asked, NOW, POLICY)
        assert {step.step.group: step.silent for step in seen} == {"set/web": True, "vm/alone": False}

    def test_steps_that_do_not_fit_are_not_there(self) -> None:
        asked = c.StartMaintenance(id_of(1), EventType.REBOOT, WEBS, window=window_of((3600, 1200)))
        assert [step.step.resources for step in preview(listening(), asked, NOW, POLICY)] == [("web-0", "web-2")]

    def test_the_outlook_holds_when_the_two_faces_of_time_were_read_a_moment_apart(self) -> None:
        state = listening()
        maintain(state, *WEBS, window=TWO_HOURS)
        told = NOW.after(44 * MINUTE)
        tick(state, told)
        approve(state, only_event(state), now=told)
        drifted = Instant(told.at - timedelta(microseconds=7), told.steady)
        steps = outlook(state, plan_of(state), drifted, POLICY)
        assert [step.starts_at for step in steps] == [NOW.after(85 * MINUTE).at] * 2


@given(
    gaps=st.lists(st.tuples(*[st.sampled_from([1, 60, 1200, 4000, 90_000])] * 2), min_size=1, max_size=4),
    acts=st.lists(
        st.tuples(st.sampled_from(["", "approve", "pause", "resume", "jump"]), st.integers(-7200, 7200)), max_size=12
    ),
    quiet=st.booleans(),
)
def test_whatever_happens_it_hits_only_inside_its_window_and_comes_to_an_end(
    gaps: list[tuple[int, int]], acts: list[tuple[str, int]], quiet: bool
) -> None:
    """The wall clock is set forth and back, VMs approve, operators pause: each start is inside, and told of (S1)."""
    window = window_of(*gaps)
    state, now = state_of() if quiet else listening(), NOW
    changes = [
        (now, change) for change in do(state, c.StartMaintenance(id_of(1), EventType.REBOOT, WEBS, window=window))
    ]
    for act, seconds in acts:
        now = (
            Instant(now.at + timedelta(seconds=seconds), now.steady)
            if act == "jump"
            else now.after(abs(seconds) * SECOND)
        )
        if act == "approve":
            approve(state, *state.events.values(), now=now)
        elif act == "pause" and plan_of(state).status is RUNNING:
            do(state, c.PauseMaintenance(id_of(1)), now)
        elif act == "resume" and plan_of(state).status is PAUSED and not plan_of(state).is_out_of_window:
            do(state, c.ResumeMaintenance(id_of(1)), now)
        changes += [(now, change) for change in tick(state, now)]
    hit = [(at, change.event) for at, change in changes if isinstance(change, t.EventStarted)]
    for at, event in [*((now.at, event) for now, event in hit), *goes_on(state, now)]:
        assert any(span.begins <= at and not span.is_over(at) for span in window.spans)
        assert event.approved_by or event.not_before <= at
    plan = plan_of(state)
    assert plan.status is DONE or (plan.status is PAUSED and (plan.reason == WINDOW_ENDED or "pause" in dict(acts)))
