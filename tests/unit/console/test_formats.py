"""How values read on a page."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.console import formats

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.6, "1m"), (90, "1m 30s"), (3600, "1h"), (90061, "1d 1h"), (-5, "5s")]
)
def test_a_span_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert formats.FILTERS["span"](seconds) == text


def test_a_moment_is_to_come_or_has_been() -> None:
    assert formats.when(datetime(2026, 3, 1, 12, 14, 30, tzinfo=UTC), NOW) == "in 14m 30s"
    assert formats.when(datetime(2026, 3, 1, 9, tzinfo=UTC), NOW) == "3h ago"
    assert formats.when(None, NOW) == "–"


def test_a_moment_is_written_in_utc() -> None:
    moment = datetime(2026, 3, 1, 12, 14, 30, tzinfo=UTC)
    assert formats.clock_time(moment) == "01 Mar 12:14:30"
    assert formats.plain(moment) == "2026-03-01T12:14:30Z"


def test_some_names_stand_for_many() -> None:
    assert (formats.some(["a", "b"]), formats.some(["a", "b", "c", "d"])) == ("a, b", "a, b, c +1")


def test_numbers_in_names_count() -> None:
    assert sorted(["web-10", "web-9", "db"], key=formats.natural) == ["db", "web-9", "web-10"]


@given(st.text(max_size=8), st.text(max_size=8))
def test_unlike_names_have_unlike_anchors(one: str, other: str) -> None:
    assert (formats.anchor(one) == formats.anchor(other)) == (one == other)


@given(st.text())
def test_an_anchor_needs_no_escaping(name: str) -> None:
    assert formats.anchor(name).isascii() and not set(formats.anchor(name)) & set("\"'<>& #/")
