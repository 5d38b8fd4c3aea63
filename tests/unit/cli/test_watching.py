"""What is printed of an event that is watched."""

from duenotice.cli.watching import line_of

EVENT = {
    "id": "805C2F53-88EE-4045-95F8-788FD1634F66",
    "type": "Reboot",
    "phase": "scheduled",
    "not_before": "2026-01-01T12:14:30Z",
    "resources": ["web-0", "web-5"],
}


def test_the_line_of_an_event_that_has_started_shows_no_not_before() -> None:
    """What it said before no longer counts."""
    assert line_of(EVENT | {"phase": "started"}).split()[3] == "-"
    assert line_of(EVENT).split()[3] == EVENT["not_before"]
