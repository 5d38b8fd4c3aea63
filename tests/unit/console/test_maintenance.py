"""A maintenance in words and numbers, and the days of a calendar."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from duenotice.console import maintenance
from duenotice.errors import Malformed
from duenotice.wire.operator import Maintenance, PlannedStep, Step

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
"""A Wednesday."""


def step(status: str = "waiting", lane: str = "set/web") -> Step:
    return Step(lane, 0, lane, None, ("web-0", "web-1"), status, None, "")


def plan(*statuses: str, status: str = "running", **fields: Any) -> Maintenance:
    names = ("waiting", "under-way", "done", "failed", "skipped")
    progress = {name: statuses.count(name) for name in names}
    common = ("P-1", "Reboot", "maintenance", status, "", None, 0.0, 0, 0)
    vms = {name: 2 * count for name, count in progress.items()}
    return Maintenance(*common, progress=progress, vms=vms, groups=("set/web",), groups_in_all=1, **fields)


def ahead(hours: float) -> PlannedStep:
    at = NOON + timedelta(hours=hours)
    return PlannedStep(
        "set/web", 0, "set/web", None, ("web-0",), "waiting", None, "", at, at, at, at + timedelta(minutes=10)
    )


def test_the_title_is_what_was_asked_for_or_what_it_does() -> None:
    assert maintenance.title_of(plan("waiting", title="Drain host-1")) == "Drain host-1"
    assert maintenance.title_of(plan("waiting")) == "Reboot of set/web"


def test_what_waits_in_a_plan_that_is_over_was_not_run() -> None:
    assert maintenance.step_state(plan(), step()) == "waiting"
    assert maintenance.step_state(plan(status="failed"), step()) == "not run"
    assert maintenance.step_state(plan(status="failed"), step("done")) == "done"


def test_done_failed_and_skipped_are_counted_apart() -> None:
    found = maintenance.step_shares(plan("done", "failed", "skipped", "waiting", status="failed"))
    assert [(part.word, part.number, part.left) for part in found] == [
        ("done", 1, 0), ("failed", 1, 25), ("skipped", 1, 50), ("not run", 1, 75),
    ]  # fmt: skip
    assert [part.word for part in maintenance.step_shares(plan("under-way", "waiting"))] == ["under way", "to come"]


@pytest.mark.parametrize(
    ("statuses", "status", "can"),
    [
        (("failed", "waiting"), "failed", True),
        (("failed", "done"), "done", True),
        (("failed", "waiting"), "paused", True),
        (("failed", "waiting"), "running", False),
        (("failed", "waiting"), "cancelled", False),
        (("failed", "under-way"), "failed", False),
        (("done",), "done", False),
    ],
)
def test_failed_steps_can_be_retried_when_nothing_is_under_way(
    statuses: tuple[str, ...], status: str, can: bool
) -> None:
    assert maintenance.can_retry(plan(*statuses, status=status)) is can


def test_a_plan_whose_window_is_over_needs_a_new_one() -> None:
    assert maintenance.needs_window(plan("waiting", window="x"))
    assert not maintenance.needs_window(plan("waiting", window="x", window_begins=NOON))
    assert not maintenance.needs_window(plan("waiting"))


@pytest.mark.parametrize("text", ["2026-03-05", "", "nonsense"])
def test_a_calendar_begins_with_a_monday(text: str) -> None:
    assert maintenance.first_day(text, date(2026, 3, 4)) == date(2026, 3, 2)


@pytest.mark.parametrize("text", ["0001-01-01", "9999-12-31"])
def test_a_day_at_the_end_of_all_dates_is_refused_with_a_sentence(text: str) -> None:
    """Around it there would be no other days to draw."""
    with pytest.raises(Malformed, match=f"{text} is too far away"):
        maintenance.first_day(text, date(2026, 3, 4))


def test_the_steps_of_a_day_are_one_entry() -> None:
    one, other = maintenance.entries_of_plan(plan("waiting"), [ahead(1), ahead(2), ahead(24)])
    assert (one.day, one.begins, one.ends, one.vms) == (NOON.date(), ahead(1).starts_at, ahead(2).ends_at, 2)
    assert other.day == date(2026, 3, 5)


def test_a_plan_that_is_too_large_has_its_window() -> None:
    (entry,) = maintenance.entries_of_window(plan("waiting", "done", window_begins=NOON))
    assert (entry.begins, entry.ends, entry.vms) == (NOON, NOON, 2)
    assert maintenance.entries_of_window(plan("waiting")) == []


def test_the_weeks_have_all_days_and_each_entry_in_its_own() -> None:
    weeks = maintenance.weeks(
        date(2026, 3, 2), date(2026, 3, 4), maintenance.entries_of_plan(plan("waiting"), [ahead(1)])
    )
    assert (len(weeks), {len(week) for week in weeks}) == (maintenance.WEEKS, {7})
    today = weeks[0][2]
    assert (today.is_today, today.is_past, len(today.entries), weeks[0][0].is_past) == (True, False, 1, True)
