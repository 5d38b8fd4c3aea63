"""Events as bars on a line of time."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duenotice.console import timeline
from duenotice.wire.operator import PlannedStep
from tests.support.answers import a_life

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SEEN = timeline.TimeAxis(NOW - timedelta(minutes=50), NOW + timedelta(minutes=50))


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def life(raised: float = -10, not_before: float = 10, **more: Any) -> timeline.TimelineEvent:
    moments = {key: at(more.pop(key)) for key in ("started_at", "ended_at", "approved_at") if key in more}
    told = a_life("web-0", raised_at=at(raised), not_before=at(not_before), **moments, **more)
    return timeline.of_event(told)


def bar(one: timeline.TimelineEvent) -> timeline.Bar:
    return timeline.bar_of(one, SEEN, NOW)


def test_notice_is_a_bar_from_being_told_to_not_before() -> None:
    drawn = bar(life())
    assert (drawn.notice, drawn.started, drawn.not_before, drawn.state) == ((40, 20), None, 60, "scheduled")


def test_notice_goes_on_while_a_start_is_late() -> None:
    drawn = bar(life(-30, -10))
    assert (drawn.notice, drawn.grows) == ((20, 30), "notice")


def test_started_is_a_bar_that_grows_until_it_ends() -> None:
    running = bar(life(-30, -10, started_at=-10))
    over = bar(life(-30, -10, started_at=-10, ended_at=-5, outcome="completed"))
    assert (running.notice, running.started, running.grows) == ((20, 20), (40, 10), "started")
    assert (over.started, over.grows, over.state) == ((40, 5), "", "completed")


def test_approval_is_a_mark() -> None:
    drawn = bar(life(-30, 10, approved_at=-20, approved_by="vm/web-0", started_at=-20))
    assert (drawn.approved, drawn.notice) == (30, (20, 10))
    assert "approved by vm/web-0 01 Mar 11:40:00" in drawn.description


def test_what_struck_without_warning_has_no_notice() -> None:
    drawn = bar(life(-10, -10, started_at=-10))
    assert (drawn.notice, drawn.not_before, drawn.started) == (None, None, (40, 10))


def test_what_was_called_off_has_no_not_before() -> None:
    drawn = bar(life(-30, 10, ended_at=-20, outcome="cancelled"))
    assert (drawn.notice, drawn.not_before, drawn.state) == ((20, 10), None, "cancelled")


def test_what_is_out_of_sight_is_cut_or_left_out() -> None:
    assert bar(life(-90, 90)).notice == (0, 100)
    gone = bar(life(-200, -150, ended_at=-100, outcome="cancelled"))
    assert (gone.notice, gone.started, gone.extent) == (None, None, None)


def test_bars_that_overlap_get_rows_of_their_own() -> None:
    lives = [life(-40, -20, id="A", ended_at=-20), life(-30, -10, id="B", ended_at=-10)]
    rows, left_out = timeline.packed_rows(map(bar, [*lives, life(-20, 0, id="C", ended_at=-5)]))
    assert ([[one.id for one in row] for row in rows], left_out) == ([["A", "C"], ["B"]], 0)


def test_what_does_not_fit_is_counted() -> None:
    rows, left_out = timeline.packed_rows(bar(life(id=str(n))) for n in range(20))
    assert (len(rows), left_out) == (timeline.MOST_ROWS, 8)


def test_text_stands_inside_its_own_bar_only() -> None:
    wide, less, narrow = (bar(life(-30, end, ended_at=end, outcome="cancelled")) for end in (10, -24, -29))
    assert (wide.label, wide.extent) == ("Reboot web-0", (20, 40))
    assert (less.label, narrow.label) == ("Reboot", "")


def test_the_expected_end_of_what_runs_is_drawn() -> None:
    running = bar(life(-30, -10, started_at=-10, ends_at=at(10)))
    assert (running.expected, running.extent) == ((40, 20), (20, 40))
    assert "expected to be over 01 Mar 12:10:00" in running.description
    assert bar(life(-30, -10, started_at=-10, ends_at=at(10), ended_at=-5, outcome="failed")).expected is None


def test_the_axis_says_the_date_first_and_at_each_midnight() -> None:
    assert timeline.days(timeline.axis_at(NOW, "1h")) == [(0.0, "Sun 01 Mar 2026")]
    day = timeline.days(timeline.axis_at(NOW, "1d"))
    assert [text for _, text in day] == ["Sun 01 Mar 2026", "Mon 02 Mar"]
    assert timeline.days(timeline.TimeAxis(at(11 * 60 + 59), at(13 * 60)))[0][1] == "Mon 02 Mar"
    assert len(timeline.days(timeline.TimeAxis(NOW, NOW + timedelta(days=90)))) <= 11


def test_a_step_to_come_is_a_life_with_a_way_to_its_plan() -> None:
    step = PlannedStep(
        "set/web", 1, "set/web", "host-2", ("web-1",), "waiting", None, "", at(5), at(20), at(20), at(30)
    )
    drawn = bar(timeline.of_step(step, "Reboot", "P"))
    assert (drawn.state, drawn.href, drawn.notice, drawn.started) == ("planned", "/maintenances/P", (55, 15), (70, 10))
    assert drawn.description.startswith("Planned: Reboot of web-1: to be notified")


def test_the_window_is_around_now_or_another_moment() -> None:
    assert timeline.axis_at(NOW, "1h") == (NOW - timedelta(minutes=15), NOW + timedelta(minutes=45))
    assert timeline.axis_at(NOW, "nonsense") == timeline.axis_at(NOW, timeline.DEFAULT_SPAN)
    assert timeline.axis_at(NOW, "1h", NOW) == (NOW - timedelta(minutes=30), NOW + timedelta(minutes=30))


@pytest.mark.parametrize("span", list(timeline.SPANS))
def test_every_zoom_has_a_few_round_ticks(span: str) -> None:
    seen = timeline.axis_at(NOW + timedelta(seconds=17), span)
    ticks = timeline.ticks(seen)
    assert 3 <= len(ticks) <= 9 and all(0 <= x <= 100 for x, _ in ticks)


def test_a_long_plan_has_few_ticks_too() -> None:
    assert len(timeline.ticks(timeline.TimeAxis(NOW, NOW + timedelta(days=90)))) <= 10


def test_around_has_all_of_it_and_now() -> None:
    seen = timeline.axis_around([life(10, 25, started_at=25, ended_at=40)], NOW)
    assert seen.begin < NOW and seen.end > NOW + timedelta(minutes=40)
    assert timeline.axis_around([], NOW).end > NOW
