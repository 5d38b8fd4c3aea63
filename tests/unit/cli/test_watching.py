"""What is printed of an event that is watched."""

from duenotice.cli.watching import line_of
from tests.unit.cli.values import event


def test_the_line_of_an_event_that_has_started_shows_no_not_before() -> None:
    """What it said before no longer counts."""
    assert line_of(event(phase="started")).split()[3] == "-"
    assert line_of(event()).split()[3] == "2026-01-01T12:15:00Z"
