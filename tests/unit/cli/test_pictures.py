"""What live views draw, from values alone: bars, countdowns, and which step a maintenance is at."""

import io
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from duenotice.cli import pictures, terminal
from duenotice.wire.operator import Event, Maintenance, Step
from tests.unit.cli.values import NOON, at, event

EVENT = event()
STARTED = event(phase="started", started_at=NOON, ends_at=at(12, 10))
PROGRESS = dict.fromkeys(("waiting", "under-way", "done", "failed", "skipped"), 0)


def step(**fields: Any) -> Step:
    usual: dict[str, Any] = {"scope": "", "host": None, "event_id": None, "reason": "", "resources": ("web-9",)}
    return Step(**usual | {"group": "set/web", "domain": 0} | fields)


def plan(steps: list[Step]) -> Maintenance:
    return Maintenance(
        id="M",
        type="Reboot",
        cause="maintenance",
        status="running",
        reason="",
        description=None,
        settle=0.0,
        at_once=0,
        failures_allowed=0,
        progress=PROGRESS | Counter(step.status for step in steps),
        vms={},
        groups=tuple(dict.fromkeys(step.group for step in steps))[:20],
        groups_in_all=len({step.group for step in steps}),
    )


def text_of(picture: Any) -> list[str]:
    out = Console(width=100, file=io.StringIO())
    with out.capture() as captured:
        out.print(picture)
    return [line.rstrip() for line in captured.get().splitlines()]


def full(bar: Any) -> int:
    """How many cells of a bar are filled."""
    return terminal.BAR - sum(int(span.end - span.start) for span in bar.spans if span.style == "bright_black")


@pytest.mark.parametrize(
    ("event", "now", "said"),
    [
        (EVENT, NOON, "starts in 15m"),
        (EVENT, at(12, 14, 30), "starts in 30s"),
        (EVENT, at(12, 20), "starts now"),
        (STARTED, at(12, 4), "ends in 6m"),
        (event(phase="started", started_at=NOON), NOON, "under way"),
        (event(phase="completed"), NOON, ""),
    ],
)
def test_a_countdown_says_what_is_next(event: Event, now: datetime, said: str) -> None:
    """And is as wide as the longest, so that nothing beside it moves."""
    shown = pictures.countdown(event, now)
    assert (shown.strip(), len(shown)) == (said, pictures.STEADY)


def test_a_bar_fills_with_the_notice_and_again_with_started() -> None:
    """From when it was told to its NotBefore, then from its start to its end."""
    told = {EVENT.id: NOON}
    assert [full(pictures.bar_of(EVENT, told, at(12, m))) for m in (0, 7, 15)] == [0, 7, 16]
    assert [full(pictures.bar_of(STARTED, told, at(12, m))) for m in (0, 5, 10)] == [0, 8, 16]


@pytest.mark.parametrize(("now", "cells"), [(at(12, 7, 30), 8), (NOON - timedelta(days=7), 0)])
def test_a_bar_of_an_event_we_did_not_see_begin_goes_by_its_minimum_notice(now: datetime, cells: int) -> None:
    """One that is told days ahead begins when we first see it."""
    assert full(pictures.bar_of(EVENT, {}, now)) == cells


def test_events_stand_soonest_first_under_the_time() -> None:
    later, approved = event(id="ZZ", not_before=at(12, day=2)), event(approved_by="vm/web-0")
    head, _, _, first, second = text_of(pictures.events_picture([later, approved], {}, NOON, "60x"))
    assert head == "12:00:00 UTC, 60x  2 events"
    assert (first.split()[:3], second.split()[0]) == (["ABCDEFGH", "Reboot", "approved"], "ZZ")
    assert text_of(pictures.events_picture([], {}, NOON, "real")) == ["12:00:00 UTC  no events"]


def test_a_maintenance_shows_how_far_it_is_and_what_each_step_does() -> None:
    steps = [
        step(domain=0, status="done"),
        step(domain=1, status="under-way", event_id=STARTED.id),
        step(domain=2, status="waiting"),
    ]
    head, _, _, *rows = text_of(pictures.plan_picture(plan(steps), steps, {STARTED.id: STARTED}, {}, NOON, "60x"))
    assert head.split()[:4] == ["Reboot", "of", "set/web", "running"]
    assert head.endswith("1/3  12:00:00 UTC, 60x")
    assert [row.split()[1] for row in rows] == ["done", "started", "waiting"]
    assert "ends in 10m" in rows[1]


def test_of_very_many_steps_those_are_drawn_that_matter_now() -> None:
    """And how many more there are."""
    steps = [step(group=f"vm/{number}", status="done") for number in range(500)]
    steps.append(step(group="vm/last", status="under-way"))
    head, _, _, first, *_, more = text_of(pictures.plan_picture(plan(steps), steps, {}, {}, NOON, "60x"))
    assert head.startswith("Reboot of vm/0 and 500 more  running")
    assert first.split()[:3] == ["vm/last", "0", "under-way"]
    assert more == "and 461 more"
