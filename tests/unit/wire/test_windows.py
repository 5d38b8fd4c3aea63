"""Windows of time as people write them."""

from datetime import UTC, date, datetime, time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.errors import Malformed
from duenotice.wire.spans import LocalTimes, Moments, parse_window

TWO, SIX, TEN = time(2), time(6), time(22)
SUNDAY, WEEKEND, ALL = frozenset({6}), frozenset({5, 6}), frozenset(range(7))


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("Sun 02:00-06:00 Europe/Berlin", LocalTimes(TWO, SIX, "Europe/Berlin", SUNDAY)),
        ("sun 2:00 - 6:00", LocalTimes(TWO, SIX, "UTC", SUNDAY)),
        ("Sat,Sun 02:00-06:00", LocalTimes(TWO, SIX, "UTC", WEEKEND)),
        ("Sat-Sun  02:00-06:00 ", LocalTimes(TWO, SIX, "UTC", WEEKEND)),
        ("Sat-Mon,Wed 02:00-06:00", LocalTimes(TWO, SIX, "UTC", frozenset({5, 6, 0, 2}))),
        ("daily 22:00-06:00 Asia/Tokyo", LocalTimes(TEN, SIX, "Asia/Tokyo", ALL)),
        ("2026-11-22 02:00-06:00 Europe/Berlin", LocalTimes(TWO, SIX, "Europe/Berlin", on=date(2026, 11, 22))),
        (
            "2026-11-22T02:00Z/2026-11-22T07:00+01:00",
            Moments(datetime(2026, 11, 22, 2, tzinfo=UTC), datetime(2026, 11, 22, 6, tzinfo=UTC)),
        ),
    ],
)
def test_these_are_windows(text: str, window: LocalTimes | Moments) -> None:
    assert parse_window(text) == window


@pytest.mark.parametrize(
    "text",
    [
        *("", "Sun", "Sun 02:00", "Sunday 02:00-06:00", "Sun 02:00-02:00", "Sun 24:00-06:00", "Sun 02:60-06:00"),
        *("Fun 02:00-06:00", "Sun, 02:00-06:00", "Sun-Fun 02:00-06:00", "2026-02-30 02:00-06:00", "never"),
        *("2026-11-22T02:00/2026-11-22T06:00", "2026-11-22T02:00Z", "a/b", "0001-01-01T00:00+14:00/2026-11-22T06:00Z"),
        "Sun 02:00-06:00 " + "x" * 200,
    ],
)
def test_these_are_not(text: str) -> None:
    with pytest.raises(Malformed, match="is not a window") as error:
        parse_window(text)
    assert "Sun 02:00-06:00 Europe/Berlin" in error.value.hint
    assert len(error.value.message) < 160


@given(st.text(max_size=60))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    try:
        parse_window(text)
    except Malformed as error:
        assert error.hint
