"""Spans of time as people write them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.errors import Malformed
from duenotice.wire.spans import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("30", 30),
        ("1.5", 1.5),
        ("30s", 30),
        ("500ms", 0.5),
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("2d", 172_800),
        ("1d2h3m4s5ms", 93_784.005),
        ("PT5M", 300),
        ("PT15M", 900),
        ("PT1H30M", 5400),
        ("P1D", 86_400),
        ("P1DT1S", 86_401),
        ("PT0S", 0),
        (" 30s ", 30),
    ],
)
def test_these_are_spans(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "s", "P", "PT", "PT5", "pt5m", "PT-5M", "P1Y", "5 m", "-5m", "+5m", "5M", "m5", "5x", "1h 30m"),
        *("1e3", "inf", "nan", "٣s", "1.s", ".5s", "9" * 41),
    ],
)
def test_these_are_not(text: str) -> None:
    with pytest.raises(Malformed, match="is not a span of time") as error:
        parse_duration(text)
    assert "PT5M" in error.value.hint


def test_more_than_a_century_is_no_span_that_anybody_means() -> None:
    """Sums with it would leave the calendar."""
    assert parse_duration("36500d") == 36500 * 86400
    for text in ("36601d", "9" * 40, "9" * 39 + "d", "P" + "9" * 38 + "D"):
        with pytest.raises(Malformed):
            parse_duration(text)


def test_a_long_text_is_not_repeated_whole() -> None:
    with pytest.raises(Malformed) as error:
        parse_duration("x" * 10_000)
    assert len(error.value.message) < 100


@given(st.text())
def test_any_text_is_a_span_of_at_least_nothing_or_malformed(text: str) -> None:
    with contextlib.suppress(Malformed):
        assert parse_duration(text) >= 0
