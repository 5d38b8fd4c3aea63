"""What a person sees while events or a maintenance are watched: bars, countdowns, a row for each. Pure."""

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from duenotice.cli import tables
from duenotice.cli.output import Column
from duenotice.cli.views import WATCHED_EVENTS, WATCHED_STEPS
from duenotice.domain.notice import MINIMUM_SECONDS
from duenotice.wire.event_names import TYPE_NAMES

NOTICE = {TYPE_NAMES[event_type]: seconds for event_type, seconds in MINIMUM_SECONDS.items()}
STEADY = 18
"""A countdown is as wide as its longest text, so that columns do not move while it runs."""
MOST = 40
"""How many rows are drawn; `events list` shows all."""
FULL = {"completed": "green", "cancelled": "bright_black", "failed": "red"}
WIDTH = 24
FIRST = ("under-way", "failed", "waiting", "skipped", "done")
ENDED = {"done": "green", "failed": "red", "skipped": "bright_black"}


def events_picture(events: list[Any], told_at: dict[str, str], now: str, clock: str) -> RenderableType:
    """The service's time, and below it all events; those that start or end next come first."""
    soonest = sorted(events, key=lambda event: str(event["not_before"]))[:MOST]
    rows = [_event_row(event, told_at, now) for event in soonest]
    many = {0: "no events", 1: "1 event"}.get(len(events), f"{len(events)} events")
    head = Text.assemble((headline(now, clock), "bold"), (f"  {many}", "dim"))
    return Group(head, "", tables.Fitted(rows, WATCHED_EVENTS, now), *left_out(events)) if rows else head


def left_out(things: list[Any]) -> list[Text]:
    """A line that says how many more there are, if any."""
    return [Text(f"and {len(things) - MOST:,} more", "dim")] if len(things) > MOST else []


def headline(now: str, clock: str) -> str:
    """`14:03:20 UTC, 60x`."""
    return f"{tables.moment(now)}{'' if clock == 'real' else f', {clock}'}"


def _event_row(event: Any, told_at: dict[str, str], now: str) -> Any:
    """An event with its bar and its countdown."""
    phase = "approved" if event["phase"] == "scheduled" and event["approved_by"] else event["phase"]
    return event | {"phase": phase, "bar": bar_of(event, told_at, now), "countdown": countdown(event, now)}


def bar_of(event: Any, told_at: dict[str, str], now: str) -> Text:
    """How much of the notice, or of Started, is over; each has its own colour."""
    if event["phase"] in FULL:
        return tables.bar(1.0, FULL[event["phase"]])
    if event["phase"] == "started":
        share = tables.passed(event["started_at"], event["ends_at"], now) if event["ends_at"] else 0.5
        return tables.bar(share, "red")
    begin = told_at.setdefault(event["id"], _told_at(event, now))
    return tables.bar(tables.passed(begin, event["not_before"], now), "yellow")


def _told_at(event: Any, now: str) -> str:
    """When it was raised, by a guess: its minimum notice before NotBefore, or now."""
    return min(now, tables.shifted(event["not_before"], -NOTICE[event["type"]]))


def countdown(event: Any, now: str) -> str:
    """What is next, and when."""
    return _next(event, now).ljust(STEADY)


def _next(event: Any, now: str) -> str:
    if event["phase"] == "started":
        return f"ends {tables.relative(event['ends_at'], now)}" if event["ends_at"] else "under way"
    if event["phase"] != "scheduled":
        return ""
    return "starts now" if event["not_before"] <= now else f"starts {tables.relative(event['not_before'], now)}"


def plan_picture(plan: Any, events: dict[str, Any], told_at: dict[str, str], now: str, clock: str) -> RenderableType:
    """The whole picture; if there are very many steps, only those that matter now."""
    steps = plan["steps"]
    shown = steps if len(steps) <= MOST else sorted(steps, key=lambda step: FIRST.index(step["status"]))[:MOST]
    rows = [_step_row(step, events.get(step["event_id"]), told_at, now) for step in shown]
    return Group(_head(plan, now, clock), "", tables.Fitted(rows, _view(plan), now), *left_out(steps))


def _head(plan: Any, now: str, clock: str) -> Text:
    total, over = len(plan["steps"]), sum(plan["progress"][status] for status in ENDED)
    return Text.assemble(
        (f"{plan['type']} of {_what(plan)}  ", "bold"),
        tables.state(plan["status"]),
        "  ",
        tables.bar(over / max(total, 1), "green", WIDTH),
        f"  {over}/{total}  ",
        (headline(now, clock), "dim"),
    )


def _what(plan: Any) -> str:
    first, *others = _lanes(plan)
    return f"{first} and {len(others)} more" if others else first


def _lanes(plan: Any) -> list[str]:
    return list(dict.fromkeys(step["lane"] for step in plan["steps"]))


def _view(plan: Any) -> Any:
    """If several groups take part, each step names its group."""
    lanes = (Column("LANE", "lane"),) if len(_lanes(plan)) > 1 else ()
    return WATCHED_STEPS._replace(columns=(*lanes, *WATCHED_STEPS.columns))


def _step_row(step: Any, event: Any, told_at: dict[str, str], now: str) -> Any:
    if event is None:
        share = 1.0 if step["status"] in ENDED else 0.0
        return step | {
            "bar": tables.bar(share, ENDED.get(step["status"], "")),
            "countdown": " " * STEADY,
            "reason": _reason(step),
        }
    approved = event["phase"] == "scheduled" and event["approved_by"]
    state = "approved" if approved else event["phase"]
    bar = bar_of(event, told_at, now)
    return step | {"status": state, "bar": bar, "countdown": countdown(event, now), "reason": _reason(step)}


def _reason(step: Any) -> str:
    return step["reason"] or " "
