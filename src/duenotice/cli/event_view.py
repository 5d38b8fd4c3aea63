"""How live events look: a bar for the notice, a bar for Started, and a countdown. Pure."""

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from duenotice.cli import looks, tables
from duenotice.cli.views import WATCHED_EVENTS
from duenotice.domain.notice import MINIMUM_SECONDS
from duenotice.wire.event_names import TYPE_NAMES

NOTICE = {TYPE_NAMES[event_type]: seconds for event_type, seconds in MINIMUM_SECONDS.items()}
STEADY = 18
"""A countdown is as wide as its longest text, so that columns do not move while it runs."""
MOST = 40
"""How many rows are drawn; `events list` shows all."""
FULL = {"completed": "green", "cancelled": "bright_black", "failed": "red"}


def picture(events: list[Any], told_at: dict[str, str], now: str, clock: str) -> RenderableType:
    """The service's time, and below it all events; those that start or end next come first."""
    soonest = sorted(events, key=lambda event: str(event["not_before"]))[:MOST]
    rows = [row(event, told_at, now) for event in soonest]
    many = {0: "no events", 1: "1 event"}.get(len(events), f"{len(events)} events")
    head = Text.assemble((headline(now, clock), "bold"), (f"  {many}", "dim"))
    return Group(head, "", tables.Fitted(rows, WATCHED_EVENTS, now), *left_out(events)) if rows else head


def left_out(things: list[Any]) -> list[Text]:
    """A line that says how many more there are, if any."""
    return [Text(f"and {len(things) - MOST:,} more", "dim")] if len(things) > MOST else []


def headline(now: str, clock: str) -> str:
    """`14:03:20 UTC, 60x`."""
    return f"{looks.moment(now)}{'' if clock == 'real' else f', {clock}'}"


def row(event: Any, told_at: dict[str, str], now: str) -> Any:
    """An event with its bar and its countdown."""
    phase = "approved" if event["phase"] == "scheduled" and event["approved_by"] else event["phase"]
    return event | {"phase": phase, "bar": bar_of(event, told_at, now), "countdown": countdown(event, now)}


def bar_of(event: Any, told_at: dict[str, str], now: str) -> Text:
    """How much of the notice, or of Started, is over; each has its own colour."""
    if event["phase"] in FULL:
        return looks.bar(1.0, FULL[event["phase"]])
    if event["phase"] == "started":
        share = looks.passed(event["started_at"], event["ends_at"], now) if event["ends_at"] else 0.5
        return looks.bar(share, "red")
    begin = told_at.setdefault(event["id"], _told_at(event, now))
    return looks.bar(looks.passed(begin, event["not_before"], now), "yellow")


def _told_at(event: Any, now: str) -> str:
    """When it was raised, by a guess: its minimum notice before NotBefore, or now."""
    return min(now, looks.shifted(event["not_before"], -NOTICE[event["type"]]))


def countdown(event: Any, now: str) -> str:
    """What is next, and when."""
    return _next(event, now).ljust(STEADY)


def _next(event: Any, now: str) -> str:
    if event["phase"] == "started":
        return f"ends {looks.relative(event['ends_at'], now)}" if event["ends_at"] else "under way"
    if event["phase"] != "scheduled":
        return ""
    return "starts now" if event["not_before"] <= now else f"starts {looks.relative(event['not_before'], now)}"
