"""What a person sees while events or a maintenance are watched: bars, countdowns, a row for each. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rich.console import Group, RenderableType
from rich.text import Text

from duenotice.cli.output import Fields, columns, fields_of
from duenotice.cli.terminal import AdaptiveTable, share_bar, state
from duenotice.cli.views import WATCHED_EVENTS, WATCHED_STEPS, relative
from duenotice.domain.rules.timing import MINIMUM_SECONDS
from duenotice.wire.api_versions import ADVICE, TYPE_NAMES
from duenotice.wire.operator import Event, Maintenance, Step

NOTICE = {TYPE_NAMES[event_type]: timedelta(seconds=seconds) for event_type, seconds in MINIMUM_SECONDS.items()}
STEADY = 18
"""A countdown is as wide as its longest text, so that columns do not move while it runs."""
MOST_ROWS = 40
"""How many rows are drawn; `events list` shows all."""
FULL = {"completed": "green", "cancelled": "bright_black", "failed": "red"}
WIDTH = 24
FIRST = {"under-way": 0, "failed": 1, "waiting": 2, "skipped": 3, "done": 4}
"""Which steps matter most; a status that we do not know matters too."""
ENDED = {"done": "green", "failed": "red", "skipped": "bright_black"}

ToldAt = dict[str, datetime]
"""When each event was raised, by its id: as the feed said, or as we guess."""


def passed(begin: datetime, end: datetime, now: datetime) -> float:
    """How much of the time between two moments is over, from 0 to 1."""
    return 1.0 if end <= begin else min(1.0, max(0.0, (now - begin) / (end - begin)))


def events_picture(events: Sequence[Event], told_at: ToldAt, now: datetime, clock: str) -> RenderableType:
    """The service's time, and below it all events; those that start or end next come first."""
    soonest = sorted(events, key=lambda event: event.not_before)[:MOST_ROWS]
    rows = [_event_row(event, told_at, now) for event in soonest]
    many = {0: "no events", 1: "1 event"}.get(len(events), f"{len(events)} events")
    head = Text.assemble((headline(now, clock), "bold"), (f"  {many}", "dim"))
    return Group(head, "", AdaptiveTable(rows, WATCHED_EVENTS, now), *left_out(len(events))) if rows else head


def left_out(count: int) -> list[Text]:
    """A line that says how many more there are, if any."""
    return [Text(f"and {count - MOST_ROWS:,} more", "dim")] if count > MOST_ROWS else []


def headline(now: datetime, clock: str) -> str:
    """`14:03:20 UTC, 60x`."""
    return f"{now:%H:%M:%S} UTC{'' if clock == 'real' else f', {clock}'}"


def _event_row(event: Event, told_at: ToldAt, now: datetime) -> Fields:
    """An event with its bar and its countdown."""
    bar = bar_of(event, told_at, now)
    return fields_of(event) | {"phase": _phase(event), "bar": bar, "countdown": countdown(event, now)}


def _phase(event: Event) -> str:
    return "approved" if event.phase == "scheduled" and event.approved_by else event.phase


def bar_of(event: Event, told_at: ToldAt, now: datetime) -> Text:
    """How much of the notice, or of Started, is over; each has its own colour."""
    if event.phase in FULL:
        return share_bar(1.0, FULL[event.phase])
    if event.phase == "started":
        begin, end = event.started_at, event.ends_at
        return share_bar(passed(begin, end, now) if begin and end else 0.5, "red")
    told = told_at.setdefault(event.id, _told_at(event, now))
    return share_bar(passed(told, event.not_before, now), "yellow")


def _told_at(event: Event, now: datetime) -> datetime:
    """When it was raised, by a guess: its minimum notice before NotBefore, or now."""
    return min(now, event.not_before - NOTICE.get(event.type, timedelta()))


def countdown(event: Event, now: datetime) -> str:
    """What is next, and when."""
    if event.phase == "started":
        what = f"ends {relative(event.ends_at, now)}" if event.ends_at else "under way"
    elif event.phase != "scheduled":
        what = ""
    elif event.type == ADVICE:
        what = "advice"
    else:
        what = "starts now" if event.not_before <= now else f"starts {relative(event.not_before, now)}"
    return what.ljust(STEADY)


def plan_picture(
    plan: Maintenance, steps: Sequence[Step], events: dict[str, Event], told_at: ToldAt, now: datetime, clock: str
) -> RenderableType:
    """The whole picture; if there are very many steps, only those that matter now."""
    if len(steps) > MOST_ROWS:
        steps = sorted(steps, key=lambda step: FIRST.get(step.status, 0))[:MOST_ROWS]
    rows = [_step_row(step, events.get(step.event_id or ""), told_at, now) for step in steps]
    group = columns("GROUP=group") if plan.groups_in_all > 1 else ()  # if several take part, each step names its own
    return Group(
        _head(plan, now, clock),
        "",
        AdaptiveTable(rows, WATCHED_STEPS._replace(columns=group + WATCHED_STEPS.columns), now),
        *left_out(sum(plan.progress.values())),
    )


def _head(plan: Maintenance, now: datetime, clock: str) -> Text:
    total, over = sum(plan.progress.values()), sum(plan.progress.get(status, 0) for status in ("done", "skipped"))
    failed = plan.progress.get("failed", 0)
    what = f"{plan.groups[0]} and {plan.groups_in_all - 1} more" if plan.groups_in_all > 1 else plan.groups[0]
    return Text.assemble(
        (f"{plan.type} of {what}  ", "bold"),
        state(plan.status),
        "  ",
        share_bar(over / max(total, 1), "green", WIDTH),
        f"  {over}/{total}  ",
        (f"{failed} failed  " if failed else "", "bold red"),
        (headline(now, clock), "dim"),
    )


def _step_row(step: Step, event: Event | None, told_at: ToldAt, now: datetime) -> Fields:
    shown = fields_of(step) | {"reason": step.reason or " "}
    if event is None:
        bar = share_bar(1.0 if step.status in ENDED else 0.0, ENDED.get(step.status, ""))
        return shown | {"bar": bar, "countdown": " " * STEADY}
    return shown | {"status": _phase(event), "bar": bar_of(event, told_at, now), "countdown": countdown(event, now)}
