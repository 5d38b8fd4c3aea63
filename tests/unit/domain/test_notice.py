"""Minimum notice: by type, by scale set, in whole seconds (D01, S2)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.clock import MICROS as SECOND
from duenotice.clock import Instant
from duenotice.domain.event import EventType
from duenotice.domain.fleet import Group, GroupKind
from duenotice.domain.rules.timing import checked, earliest, minimum_notice
from duenotice.errors import Refused

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NOW = Instant(NOON, 0)
LATE_NOON = Instant(NOON.replace(microsecond=1), 0)


@pytest.mark.parametrize(
    ("event_type", "seconds"),
    [
        (EventType.FREEZE, 15 * 60),
        (EventType.REBOOT, 15 * 60),
        (EventType.REDEPLOY, 10 * 60),
        (EventType.PREEMPT, 30),
        (EventType.TERMINATE, 5 * 60),
    ],
)
def test_each_type_has_its_minimum(event_type: EventType, seconds: int) -> None:
    assert minimum_notice(event_type, None) == seconds * SECOND


@pytest.mark.parametrize("asked", [None, 300, 420, 900])
def test_a_scale_set_says_how_long_before_terminate(asked: int | None) -> None:
    """Five minutes unless the scale set asks for more."""
    group = Group(GroupKind.SCALE_SET, "batch", terminate_notice=asked)
    assert minimum_notice(EventType.TERMINATE, group) == (asked or 300) * SECOND


@pytest.mark.parametrize("event_type", sorted(set(EventType) - {EventType.TERMINATE}, key=str))
def test_terminate_notice_of_a_scale_set_is_for_terminate_only(event_type: EventType) -> None:
    group = Group(GroupKind.SCALE_SET, "batch", terminate_notice=900)
    assert minimum_notice(event_type, group) == minimum_notice(event_type, None)


def test_the_earliest_moment_is_now_plus_notice() -> None:
    assert earliest(NOW, 900 * SECOND) == datetime(2026, 3, 1, 12, 15, tzinfo=UTC)


def test_the_earliest_moment_is_rounded_up_to_a_whole_second() -> None:
    """Documents show whole seconds; rounding down would cut the notice short."""
    assert earliest(LATE_NOON, 900 * SECOND) == datetime(2026, 3, 1, 12, 15, 1, tzinfo=UTC)
    assert earliest(NOW, SECOND // 4) == datetime(2026, 3, 1, 12, 0, 1, tzinfo=UTC)


@given(st.timedeltas(timedelta(0), timedelta(days=36_500)).map(lambda after: NOON + after), st.integers(0, 10**13))
def test_the_earliest_moment_is_whole_never_early_and_less_than_a_second_late(at: datetime, notice: int) -> None:
    shown = earliest(Instant(at, 0), notice)
    assert shown.microsecond == 0
    assert timedelta(0) <= shown - (at + timedelta(microseconds=notice)) < timedelta(seconds=1)


def test_a_moment_that_gives_just_the_minimum_is_taken() -> None:
    assert checked(NOON + timedelta(minutes=15), NOW, 900 * SECOND) == NOON + timedelta(minutes=15)


def test_a_moment_with_a_fraction_is_rounded_up() -> None:
    assert checked(NOON + timedelta(minutes=16, microseconds=1), NOW, 900 * SECOND) == NOON + timedelta(
        minutes=16, seconds=1
    )


@pytest.mark.parametrize("short_by", [timedelta(seconds=1), timedelta(minutes=5), timedelta(days=400)])
def test_too_soon_is_refused_with_the_soonest_that_would_do(short_by: timedelta) -> None:
    with pytest.raises(Refused, match="less than the minimum notice of 900 seconds") as refusal:
        checked(NOON + timedelta(minutes=15) - short_by, NOW, 900 * SECOND)
    assert refusal.value.hint == "Ask for 2026-03-01T12:15:00Z or later, or leave NotBefore out."


def test_the_soonest_that_is_offered_is_taken_when_asked_for() -> None:
    """Just after noon 12:15:00 is too soon, and the hint counts that in."""
    with pytest.raises(Refused) as refusal:
        checked(NOON + timedelta(minutes=15), LATE_NOON, 900 * SECOND)
    assert "12:15:01Z" in refusal.value.hint
    assert checked(NOON + timedelta(minutes=15, seconds=1), LATE_NOON, 900 * SECOND)


def test_the_allowance_for_the_commit_comes_on_top_of_the_minimum() -> None:
    """Notice counts from when it can be seen, not from when it was decided (S2)."""
    with pytest.raises(Refused, match="minimum notice of 900 seconds") as refusal:
        checked(NOON + timedelta(minutes=15), NOW, 900 * SECOND, allowance=SECOND)
    assert "12:15:01Z" in refusal.value.hint
    assert checked(NOON + timedelta(minutes=15, seconds=1), NOW, 900 * SECOND, allowance=SECOND)


def test_a_year_ahead_is_taken_and_more_is_refused() -> None:
    assert checked(NOON + timedelta(days=366), NOW, 900 * SECOND) == NOON + timedelta(days=366)
    with pytest.raises(Refused, match="more than a year ahead"):
        checked(NOON + timedelta(days=366, seconds=1), NOW, 900 * SECOND)


def test_the_end_of_all_time_is_refused_like_any_other_far_moment() -> None:
    """Rounding the last moment up would overflow; odd input must not break a rule (S23)."""
    with pytest.raises(Refused, match="more than a year ahead"):
        checked(datetime.max.replace(tzinfo=UTC), NOW, 900 * SECOND)
    with pytest.raises(Refused, match="minimum notice"):
        checked(datetime.min.replace(tzinfo=UTC), NOW, 900 * SECOND)
