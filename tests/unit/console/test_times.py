"""Moments on pages: an element with the exact time, so that scripts can show it in the visitor's zone."""

import re
from datetime import UTC, datetime
from pathlib import Path

import duenotice.console
from duenotice.console.formats import at

TEMPLATES = Path(duenotice.console.__file__).parent / "templates"
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def test_a_moment_is_an_element_with_the_exact_time() -> None:
    element = at(NOON)
    assert element == (
        '<time datetime="2026-03-01T12:00:00Z" data-at title="01 Mar 12:00:00 UTC">01 Mar 12:00:00</time>'
    )
    assert at(None) == "–"


def test_plain_times_stand_only_in_tooltips() -> None:
    """In the text of a page a moment is written with `at`, otherwise it stays in UTC for ever."""
    plain = re.compile(r'(?<!title=")\{\{ [\w.]+ \| clock_time \}\}')
    wrong = [f"{path.name}: {found}" for path in TEMPLATES.glob("*.html") for found in plain.findall(path.read_text())]
    assert wrong == []
