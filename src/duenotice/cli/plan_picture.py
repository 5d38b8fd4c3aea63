"""A maintenance, drawn while somebody watches: one line of progress, and one row for each step. Pure."""

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from duenotice.cli import looks, tables
from duenotice.cli.event_view import MOST, STEADY, bar_of, countdown, headline, left_out
from duenotice.cli.output import Column
from duenotice.cli.views import WATCHED_STEPS

WIDTH = 24
FIRST = ("under-way", "failed", "waiting", "skipped", "done")
ENDED = {"done": "green", "failed": "red", "skipped": "bright_black"}


def picture(plan: Any, events: dict[str, Any], told_at: dict[str, str], now: str, clock: str) -> RenderableType:
    """The whole picture; if there are very many steps, only those that matter now."""
    steps = plan["steps"]
    shown = steps if len(steps) <= MOST else sorted(steps, key=lambda step: FIRST.index(step["status"]))[:MOST]
    rows = [_row(step, events.get(step["event_id"]), told_at, now) for step in shown]
    return Group(_head(plan, now, clock), "", tables.Fitted(rows, _view(plan), now), *left_out(steps))


def _head(plan: Any, now: str, clock: str) -> Text:
    total, over = len(plan["steps"]), sum(plan["progress"][status] for status in ENDED)
    return Text.assemble(
        (f"{plan['type']} of {_what(plan)}  ", "bold"),
        looks.state(plan["status"]),
        "  ",
        looks.bar(over / max(total, 1), "green", WIDTH),
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


def _row(step: Any, event: Any, told_at: dict[str, str], now: str) -> Any:
    if event is None:
        share = 1.0 if step["status"] in ENDED else 0.0
        return step | {
            "bar": looks.bar(share, ENDED.get(step["status"], "")),
            "countdown": " " * STEADY,
            "reason": _reason(step),
        }
    approved = event["phase"] == "scheduled" and event["approved_by"]
    state = "approved" if approved else event["phase"]
    bar = bar_of(event, told_at, now)
    return step | {"status": state, "bar": bar, "countdown": countdown(event, now), "reason": _reason(step)}


def _reason(step: Any) -> str:
    return step["reason"] or " "
