"""What live views draw, from values alone: bars, countdowns, and which step a maintenance is at."""

import io
from typing import Any

import pytest
from rich.console import Console

from duenotice.cli import pictures, tables

NOON = "2026-01-01T12:00:00Z"
EVENT: dict[str, Any] = {
    "id": "ABCDEFGH-1",
    "type": "Reboot",
    "phase": "scheduled",
    "approved_by": None,
    "not_before": "2026-01-01T12:15:00Z",
    "started_at": None,
    "ends_at": None,
    "resources": ["web-0"],
    "cause": "user",
}
STARTED = EVENT | {"phase": "started", "started_at": NOON, "ends_at": "2026-01-01T12:10:00Z"}


def text_of(picture: Any) -> list[str]:
    out = Console(width=100, file=io.StringIO())
    with out.capture() as captured:
        out.print(picture)
    return [line.rstrip() for line in captured.get().splitlines()]


def full(bar: Any) -> int:
    """How many cells of a bar are filled."""
    return tables.BAR - sum(int(span.end - span.start) for span in bar.spans if span.style == "bright_black")


@pytest.mark.parametrize(
    ("event", "now", "said"),
    [
        (EVENT, NOON, "starts in 15m"),
        (EVENT, "2026-01-01T12:14:30Z", "starts in 30s"),
        (EVENT, "2026-01-01T12:20:00Z", "starts now"),
        (STARTED, "2026-01-01T12:04:00Z", "ends in 6m"),
        (STARTED | {"ends_at": None}, NOON, "under way"),
        (EVENT | {"phase": "completed"}, NOON, ""),
    ],
)
def test_a_countdown_says_what_is_next(event: Any, now: str, said: str) -> None:
    """And is as wide as the longest, so that nothing beside it moves."""
    shown = pictures.countdown(event, now)
    assert (shown.strip(), len(shown)) == (said, pictures.STEADY)


def test_a_bar_fills_with_the_notice_and_again_with_started() -> None:
    """From when it was told to its NotBefore, then from its start to its end."""
    told = {EVENT["id"]: NOON}
    assert [full(pictures.bar_of(EVENT, told, f"2026-01-01T12:{m:02}:00Z")) for m in (0, 7, 15)] == [0, 7, 16]
    assert [full(pictures.bar_of(STARTED, told, f"2026-01-01T12:{m:02}:00Z")) for m in (0, 5, 10)] == [0, 8, 16]


@pytest.mark.parametrize(("now", "cells"), [("2026-01-01T12:07:30Z", 8), ("2025-12-25T12:00:00Z", 0)])
def test_a_bar_of_an_event_we_did_not_see_begin_goes_by_its_minimum_notice(now: str, cells: int) -> None:
    """One that is told days ahead begins when we first see it."""
    assert full(pictures.bar_of(EVENT, {}, now)) == cells


def test_events_stand_soonest_first_under_the_time() -> None:
    later = EVENT | {"id": "ZZ", "not_before": "2026-01-02T12:00:00Z"}
    head, _, _, first, second = text_of(
        pictures.events_picture([later, EVENT | {"approved_by": "vm/web-0"}], {}, NOON, "60x")
    )
    assert head == "12:00:00 UTC, 60x  2 events"
    assert (first.split()[:3], second.split()[0]) == (["ABCDEFGH", "Reboot", "approved"], "ZZ")
    assert text_of(pictures.events_picture([], {}, NOON, "real")) == ["12:00:00 UTC  no events"]


def test_a_maintenance_shows_how_far_it_is_and_what_each_step_does() -> None:
    step = {"lane": "set/web", "host": None, "event_id": None, "reason": "", "resources": ["web-9"]}
    steps = [
        step | {"turn": 0, "status": "done"},
        step | {"turn": 1, "status": "under-way", "event_id": "ABCDEFGH-1"},
        step | {"turn": 2, "status": "waiting"},
    ]
    progress = {"waiting": 1, "under-way": 1, "done": 1, "failed": 0, "skipped": 0}
    plan = {"type": "Reboot", "status": "running", "steps": steps, "progress": progress}
    head, _, _, *rows = text_of(pictures.plan_picture(plan, {"ABCDEFGH-1": STARTED}, {}, NOON, "60x"))
    assert head.split()[:4] == ["Reboot", "of", "set/web", "running"]
    assert head.endswith("1/3  12:00:00 UTC, 60x")
    assert [row.split()[1] for row in rows] == ["done", "started", "waiting"]
    assert "ends in 10m" in rows[1]


def test_of_very_many_steps_those_are_drawn_that_matter_now() -> None:
    """And how many more there are."""
    step = {"host": None, "event_id": None, "reason": "", "resources": ["vm"], "turn": 0}
    steps = [step | {"lane": f"vm/{number}", "status": "done"} for number in range(500)]
    steps.append(step | {"lane": "vm/last", "status": "under-way"})
    progress = {"waiting": 0, "under-way": 1, "done": 500, "failed": 0, "skipped": 0}
    plan = {"type": "Reboot", "status": "running", "steps": steps, "progress": progress}
    head, _, _, first, *_, more = text_of(pictures.plan_picture(plan, {}, {}, NOON, "60x"))
    assert head.startswith("Reboot of vm/0 and 500 more  running")
    assert first.split()[:3] == ["vm/last", "0", "under-way"]
    assert more == "and 461 more"
