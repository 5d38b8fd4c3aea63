"""A maintenance in words and numbers: its title, how its steps stand, what can be done with it, its days. Pure."""

from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from typing import NamedTuple

from duenotice.console.words import some, some_of
from duenotice.errors import Malformed
from duenotice.wire.operator import Event, Maintenance, PlannedStep, Step

OPEN = ("running", "paused")
FARTHEST = timedelta(days=36_525)
WEEKS = 5
"""How many weeks a calendar shows."""


class StepShare(NamedTuple):
    """How many steps stand alike; `left` and `width` in percent of all."""

    state: str
    word: str
    number: int
    left: float
    width: float


class Entry(NamedTuple):
    """What a plan, or an event without one, does on one day; `vms` is how many VMs are hit."""

    day: date
    begins: datetime
    ends: datetime
    title: str
    href: str
    vms: int


class Day(NamedTuple):
    """A day of the calendar."""

    day: date
    is_past: bool
    is_today: bool
    entries: list[Entry]


def title_of(plan: Maintenance) -> str:
    """`Drain host-1` when that was asked for, else `Reboot of set/web`."""
    return plan.title or f"{plan.type} of {some_of(plan.groups, plan.groups_in_all, 2)}"


def step_state(plan: Maintenance, step: Step) -> str:
    """How a step stands; one that waits in a plan that is over was not run, and will not be."""
    return "not run" if step.status == "waiting" and plan.status not in OPEN else step.status


def tallies(plan: Maintenance) -> list[StepShare]:
    """Done, failed and skipped apart, then what is under way and what is left."""
    words = {"done": "done", "failed": "failed", "skipped": "skipped", "under-way": "under way"}
    words["waiting"] = "to come" if plan.status in OPEN else "not run"
    found, left, all_ = [], 0.0, max(1, sum(plan.progress.values()))
    for state, word in words.items():
        if number := plan.progress.get(state, 0):
            width = round(100 * number / all_, 2)
            found.append(StepShare(state, word, number, round(left, 2), width))
            left += width
    return found


def can_retry(plan: Maintenance) -> bool:
    """Whether failed steps can be tried again now."""
    may_go_on = plan.steps_kept and plan.status not in ("running", "cancelled")
    return may_go_on and bool(plan.progress["failed"]) and not _is_under_way(plan)


def needs_window(plan: Maintenance) -> bool:
    """Whether it can only go on in a new window."""
    return bool(plan.window) and plan.window_begins is None


def _is_under_way(plan: Maintenance) -> bool:
    return plan.progress["under-way"] > 0


def first_day(text: str, today: date) -> date:
    """The Monday that a calendar begins with."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = today
    check_distance(day, today)
    return day - timedelta(days=day.weekday())


def check_distance(day: date, today: date) -> None:
    """Refuse a day around which there may be no other dates to draw."""
    if abs(day - today) > FARTHEST:
        raise Malformed(f"{day.isoformat()} is too far away to be drawn.", hint="Choose a day of this century.")


def entries_of_plan(plan: Maintenance, timeline: Iterable[PlannedStep]) -> list[Entry]:
    """The days of a plan: from the first step that starts there to the last that ends."""
    days: dict[date, list[PlannedStep]] = {}
    for step in timeline:
        days.setdefault(step.starts_at.date(), []).append(step)
    return [
        Entry(
            day,
            min(step.starts_at for step in steps),
            max(step.ends_at for step in steps),
            title_of(plan),
            f"/maintenances/{plan.id}",
            sum(len(step.resources) for step in steps),
        )
        for day, steps in days.items()
    ]


def entries_of_window(plan: Maintenance) -> list[Entry]:
    """A plan that is too large to look ahead has its window, if it has one."""
    begins, ends = plan.window_begins, plan.window_ends
    if begins is None:
        return []
    vms = plan.vms["waiting"]
    return [Entry(begins.date(), begins, ends or begins, title_of(plan), f"/maintenances/{plan.id}", vms)]


def entries_of_events(events: Iterable[Event]) -> list[Entry]:
    """Events that are announced, a line for each."""
    return [
        Entry(
            event.not_before.date(),
            event.not_before,
            event.not_before,
            f"{event.type} of {some(event.resources, 1)}",
            f"/events/{event.id}",
            len(event.resources),
        )
        for event in events
    ]


def weeks(first: date, today: date, entries: Iterable[Entry]) -> list[list[Day]]:
    """The calendar from a Monday on."""
    by_day: dict[date, list[Entry]] = {}
    for entry in sorted(entries, key=lambda one: (one.begins, one.title)):
        by_day.setdefault(entry.day, []).append(entry)
    days = [first + timedelta(days=number) for number in range(7 * WEEKS)]
    drawn = [Day(day, day < today, day == today, by_day.get(day, [])) for day in days]
    return [drawn[begin : begin + 7] for begin in range(0, len(drawn), 7)]


FILTERS: dict[str, Callable[..., object]] = {
    "title_of": title_of,
    "tallies": tallies,
    "can_retry": can_retry,
    "needs_window": needs_window,
}
