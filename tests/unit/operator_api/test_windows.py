"""What a window of local times is in moments: on the days on which the clocks change too (decision 0014)."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from duenotice.domain.window import Window, WindowSpan
from duenotice.errors import Malformed, Refused
from duenotice.operator_api.windows import window_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""A Sunday."""


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def spans(text: str, now: datetime = NOW, start: datetime | None = None) -> tuple[WindowSpan, ...]:
    window = window_of(text, start, now)
    assert window is not None
    return window.spans


def test_without_a_window_and_a_start_there_is_none() -> None:
    assert window_of("  ", None, NOW) is None


def test_a_planned_start_is_a_window_that_stays_open() -> None:
    begins = at("2026-03-08T02:00")
    assert window_of("", begins, NOW) == Window((WindowSpan(begins),), "from 2026-03-08T02:00:00Z")


def test_two_moments_are_one_span() -> None:
    text = "2026-03-08T02:00Z/2026-03-08T06:00Z"
    assert window_of(text, None, NOW) == Window((WindowSpan(at("2026-03-08T02:00"), at("2026-03-08T06:00")),), text)


def test_a_recurring_window_has_all_spans_of_a_year() -> None:
    found = spans("Sun 02:00-06:00 Europe/Berlin")
    assert found[0] == WindowSpan(at("2026-03-08T01:00"), at("2026-03-08T05:00"))
    assert (len(found), found[-1].begins.weekday()) == (52, 6)


def test_the_window_that_is_on_now_counts_also_when_it_began_yesterday() -> None:
    found = spans("daily 22:00-04:00", at("2026-03-02T01:00"))
    assert found[0] == WindowSpan(at("2026-03-01T22:00"), at("2026-03-02T04:00"))


def test_a_window_that_is_over_today_comes_next_time() -> None:
    assert spans("Sun 02:00-06:00")[0].begins == at("2026-03-08T02:00")


def test_when_the_clocks_go_forward_a_window_is_an_hour_shorter() -> None:
    (span,) = spans("2026-03-29 01:00-06:00 Europe/Berlin")
    assert span == WindowSpan(at("2026-03-29T00:00"), at("2026-03-29T04:00"))


@pytest.mark.parametrize(
    ("times", "begins", "ends"),
    [
        ("02:30-06:00", "01:00", "04:00"),
        ("02:30-03:15", "01:00", "01:15"),
        ("01:30-02:30", "00:30", "01:00"),
        ("02:00-03:01", "01:00", "01:01"),
    ],
)
def test_of_times_that_the_clocks_skip_the_part_that_exists_is_meant(times: str, begins: str, ends: str) -> None:
    """At 02:00 the clocks go to 03:00."""
    (span,) = spans(f"2026-03-29 {times} Europe/Berlin")
    assert span == WindowSpan(at(f"2026-03-29T{begins}"), at(f"2026-03-29T{ends}"))


def test_a_window_of_which_nothing_exists_is_refused_with_the_reason() -> None:
    with pytest.raises(Refused, match="The clocks of Europe/Berlin skip these times"):
        window_of("2026-03-29 02:10-02:50 Europe/Berlin", None, NOW)


@pytest.mark.parametrize("times", ["02:00-06:00", "22:00-04:00", "00:00-23:59"])
def test_a_day_that_does_not_exist_in_a_zone_is_refused(times: str) -> None:
    """Samoa went to the other side of the date line."""
    with pytest.raises(Refused, match="The clocks of Pacific/Apia skip this day"):
        window_of(f"2011-12-30 {times} Pacific/Apia", None, at("2011-12-01T00:00"))


def test_a_recurring_window_leaves_out_a_day_that_does_not_exist() -> None:
    found = spans("Fri 22:00-04:00 Pacific/Apia", at("2011-12-20T00:00"))
    assert [span.begins for span in found[:2]] == [at("2011-12-24T08:00"), at("2012-01-06T08:00")]


def test_a_day_that_begins_later_exists() -> None:
    """In Cairo the clocks go from 00:00 to 01:00."""
    (span,) = spans("2026-04-24 00:00-02:00 Africa/Cairo")
    assert span == WindowSpan(at("2026-04-23T22:00"), at("2026-04-23T23:00"))


def test_a_window_that_is_skipped_whole_is_left_out() -> None:
    found = spans("Sun 02:00-03:00 Europe/Berlin")
    assert [span.begins for span in found[2:5]] == [
        at("2026-03-22T01:00"),
        at("2026-04-05T00:00"),
        at("2026-04-12T00:00"),
    ]


def test_when_the_clocks_go_back_a_window_is_an_hour_longer() -> None:
    (span,) = spans("2026-10-25 01:00-06:00 Europe/Berlin")
    assert span == WindowSpan(at("2026-10-24T23:00"), at("2026-10-25T05:00"))


def test_of_a_time_that_comes_twice_the_first_is_meant() -> None:
    (span,) = spans("2026-10-25 01:00-02:30 Europe/Berlin")
    assert span == WindowSpan(at("2026-10-24T23:00"), at("2026-10-25T00:30"))


def test_spans_that_touch_are_one() -> None:
    """Nights that last until the next one begins, on the day on which 02:00 comes an hour later."""
    found = spans("Sat,Sun 02:00-01:59 Europe/Berlin", at("2026-10-20T00:00"))
    assert found[0] == WindowSpan(at("2026-10-24T00:00"), at("2026-10-25T00:00") - timedelta(minutes=1))
    assert all(one.ends is not None and one.ends < other.begins for one, other in pairwise(found))
    daily = spans("daily 03:00-02:30 Europe/Berlin", at("2026-03-27T00:00"))
    assert WindowSpan(at("2026-03-28T02:00"), at("2026-03-30T00:30")) in daily


def test_of_a_window_only_what_comes_after_the_start_counts() -> None:
    found = window_of("daily 02:00-06:00", at("2026-03-08T03:00"), NOW)
    assert found is not None
    assert found.spans[0] == WindowSpan(at("2026-03-08T03:00"), at("2026-03-08T06:00"))
    assert found.said == "daily 02:00-06:00, from 2026-03-08T03:00:00Z"


@pytest.mark.parametrize("window", ["", "daily 02:00-06:00"])
def test_a_planned_start_in_the_past_is_refused(window: str) -> None:
    """It would hit as soon as the notice is over. A minute is for forms that have no seconds."""
    with pytest.raises(Refused, match=r"planned start .* is in the past") as refused:
        window_of(window, NOW - timedelta(seconds=61), NOW)
    assert "leave it out" in refused.value.hint
    assert window_of(window, NOW - timedelta(seconds=59), NOW) is not None


@pytest.mark.parametrize("start", ["2027-03-09T00:00", "9999-12-31T23:59"])
def test_a_planned_start_that_is_too_far_ahead_is_refused(start: str) -> None:
    with pytest.raises(Refused, match=r"planned start .* is more than a year ahead"):
        window_of("", at(start), NOW)


def test_a_start_after_the_window_is_refused() -> None:
    with pytest.raises(Refused, match="no time after the planned start"):
        window_of("2026-03-08 02:00-06:00", at("2026-03-09T00:00"), NOW)


@pytest.mark.parametrize("zone", ["Europe", "Europe/Atlantis", "../etc/passwd", "/etc/passwd", "x\0y"])
def test_an_unknown_zone_is_refused_with_what_to_do(zone: str) -> None:
    with pytest.raises(Malformed, match="is not a time zone") as error:
        window_of(f"Sun 02:00-06:00 {zone}", None, NOW)
    assert "Europe/Berlin" in error.value.hint


@pytest.mark.parametrize("text", ["0001-01-01 01:00-02:00", "9999-12-31 23:00-02:00"])
def test_a_date_at_the_end_of_the_calendar_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="out of range"):
        window_of(f"{text} Asia/Tokyo", None, NOW)
