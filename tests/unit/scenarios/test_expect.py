"""A VM's document held against what is expected of it."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from duenotice.scenarios.expect import Expectation, compare, next_moment
from duenotice.wire.operator import Document

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def event(number: int, status: str = "Scheduled", *vms: str, **more: Any) -> dict[str, Any]:
    return {
        "EventId": f"E{number}",
        "EventStatus": status,
        "EventType": "Reboot",
        "Resources": list(vms or ["a", "b"]),
        "NotBefore": "Thu, 01 Jan 2026 12:15:00 GMT" if status == "Scheduled" else "",
        "EventSource": "User",
        "ResourceType": "VirtualMachine",
        **more,
    }


def document(*events: dict[str, Any]) -> Document:
    return msgspec.convert({"DocumentIncarnation": 1, "Events": events}, Document)


DOCUMENT = document(event(1), event(2, "Started", "c", EventType="Freeze"))


@pytest.mark.parametrize(
    ("expected", "ok"),
    [
        (Expectation("Scheduled"), True),
        (Expectation("Scheduled", total=2), True),
        (Expectation("Scheduled", total=1), False),
        (Expectation("Scheduled", "E1"), True),
        (Expectation("Scheduled", "E2"), False),
        (Expectation("Started", "E2", {"not_before": ""}), True),
        (Expectation("Scheduled", "E1", {"not_before": ""}), False),
        (Expectation("Started", wanted={"type": "Freeze"}), True),
        (Expectation("Started", wanted={"type": "Reboot"}), False),
        (Expectation("Started", wanted={"duration": 9}), False),
        (Expectation("Scheduled", hits="b"), True),
        (Expectation("Scheduled", hits="c"), False),
        (Expectation("Scheduled", resources=frozenset("ba")), True),
        (Expectation("Scheduled", resources=frozenset("a")), False),
        (Expectation("Scheduled", notice=900), True),
        (Expectation("Scheduled", notice=901), False),
        (Expectation("gone"), False),
        (Expectation("gone", "E3"), True),
        (Expectation("gone", "E1"), False),
        (Expectation("gone", hits="d"), True),
        (Expectation("gone", hits="d", total=1), False),
    ],
)
def test_an_expectation_is_met_or_not(expected: Expectation, ok: bool) -> None:
    """By one event that fits in everything; gone means that none does."""
    assert compare(expected, DOCUMENT, NOW, 0).ok is ok


def test_what_a_fast_clock_loses_on_the_way_is_forgiven() -> None:
    """Notice is measured with some slack there."""
    assert compare(Expectation("Scheduled", notice=1000), DOCUMENT, NOW, 100).ok


def test_what_is_seen_is_said_in_a_few_words() -> None:
    """The event that fits, else all there are; a far NotBefore with its day."""
    assert compare(Expectation("Started"), DOCUMENT, NOW, 0).seen == "Freeze Started: c"
    assert compare(Expectation("Started", "E1"), DOCUMENT, NOW, 0).seen == (
        "Reboot Scheduled, NotBefore 12:15:00: a b; Freeze Started: c"
    )
    yesterday = datetime(2025, 12, 31, tzinfo=UTC)
    assert "NotBefore 01 Jan 12:15:00" in compare(Expectation("Scheduled"), DOCUMENT, yesterday, 0).seen
    assert compare(Expectation("gone"), document(), NOW, 0).seen == "no events"


def test_the_next_moment_is_the_nearest_not_before() -> None:
    """What has passed or has none is no moment."""
    assert next_moment(DOCUMENT, NOW) == 900
    assert next_moment(DOCUMENT, datetime(2026, 1, 1, 12, 15, tzinfo=UTC)) is None
