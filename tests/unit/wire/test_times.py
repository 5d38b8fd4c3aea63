"""Moments as the wire writes them, and back (B08)."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.errors import Malformed
from duenotice.wire.spans import format_iso, format_rfc1123, parse_time

MOMENT = datetime(2016, 9, 19, 18, 29, 47, tzinfo=UTC)


class TestDates:
    """NotBefore in two formats (B08)."""

    @pytest.fixture(params=["UTC", "Asia/Tokyo", "America/New_York"], autouse=True)
    def _wherever_the_machine_is(
        self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[None]:
        monkeypatch.setenv("TZ", request.param)
        time.tzset()
        yield
        monkeypatch.undo()
        time.tzset()

    def test_rfc_1123_is_in_english_with_two_digits_and_gmt(self) -> None:
        assert format_rfc1123(MOMENT) == "Mon, 19 Sep 2016 18:29:47 GMT"
        assert format_rfc1123(datetime(2026, 2, 1, 3, 4, 5, tzinfo=UTC)) == "Sun, 01 Feb 2026 03:04:05 GMT"

    def test_iso_8601_ends_with_a_z(self) -> None:
        assert format_iso(MOMENT) == "2016-09-19T18:29:47Z"
        assert format_iso(datetime(987, 1, 2, tzinfo=UTC)) == "0987-01-02T00:00:00Z"

    @pytest.mark.parametrize(
        "text",
        [
            "Mon, 19 Sep 2016 18:29:47 GMT",
            "Mon, 19 Sep 2016 18:29:47 +0000",
            "Mon, 19 Sep 2016 18:29:47 -0000",
            "Mon, 19 Sep 2016 20:29:47 +0200",
            "2016-09-19T18:29:47Z",
            "2016-09-19T20:29:47+02:00",
            "2016-09-19T18:29:47",
        ],
    )
    def test_either_is_read_and_without_an_offset_it_is_utc(self, text: str) -> None:
        assert parse_time(text) == MOMENT
        assert parse_time(text).tzinfo is UTC

    @pytest.mark.parametrize(
        "text", ["", "soon", "Mon, 99 Sep 2016 18:29:47 GMT", "2016-13-01", "0001-01-01T00:00:00+23:00", "9" * 50]
    )
    def test_anything_else_is_malformed(self, text: str) -> None:
        with pytest.raises(Malformed, match="is not a time"):
            parse_time(text)


@given(st.integers(0, 253_402_300_799))
def test_every_second_from_1970_to_9999_survives_both_formats(seconds: int) -> None:
    moment = datetime.fromtimestamp(seconds, UTC)
    assert parse_time(format_rfc1123(moment)) == moment
    assert parse_time(format_iso(moment)) == moment


@given(st.text())
def test_any_text_is_a_time_or_malformed(text: str) -> None:
    try:
        assert parse_time(text).tzinfo is UTC
    except Malformed as error:
        assert error.hint
