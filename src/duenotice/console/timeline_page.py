"""The page of the timeline: past, running and coming events, and coming steps of maintenances, by set or by host."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.responses import Response

from duenotice.console import gantt
from duenotice.console.api import ApiProblem
from duenotice.console.board import ALONE, section_of_scope
from duenotice.console.pages import Page, Visit

ELSEWHERE = "no host"
MOST_PLANS = 20
ONE_BY_ONE = 200
"""VMs up to which each is asked for its host alone."""


class TimelinePage:
    """Draws past, running and coming events in one picture, by set or by host."""

    def pages(self) -> list[Page]:
        """The rows of the table."""
        return [Page("GET", "/timeline", self.timeline)]

    async def timeline(self, visit: Visit) -> Response:
        """A window of time."""
        span = visit.query("span") if visit.query("span") in gantt.SPANS else gantt.DEFAULT_SPAN
        by, at = "host" if visit.query("by") == "host" else "set", _moment(visit.query("at"))
        seen = gantt.window(visit.now, span, at)
        found = await visit.api.get("timeline", **{"from": iso(seen.begin), "to": iso(seen.end)})
        lives = [*found["items"], *await _planned(visit, seen)]
        names = list(gantt.SPANS)
        place = names.index(span)
        return visit.page(
            "timeline.html",
            "Timeline",
            "events maintenances fleet",
            lanes=gantt.lanes(lives, seen, visit.now, await _lanes_of(visit, lives, by)),
            ticks=gantt.ticks(seen),
            seen=seen,
            here=seen.mark(visit.now),
            left_out=found["left_out"],
            span=span,
            spans=names,
            by=by,
            at=iso(at) if at else "",
            earlier=iso(seen.begin),
            later=iso(seen.end),
            closer=names[max(0, place - 1)],
            wider=names[min(len(names) - 1, place + 1)],
        )


async def _planned(visit: Visit, seen: gantt.Window) -> list[dict[str, Any]]:
    """The coming steps of all running maintenances, as far as they are shown."""
    if seen.end < visit.now:
        return []
    plans = (await visit.api.all("maintenances", status="running"))[-MOST_PLANS:]
    return [step for plan in plans for step in await steps_to_come(visit, plan)]


async def steps_to_come(visit: Visit, plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of a plan that have not begun, as lives."""
    ahead = await visit.api.get("maintenances", plan["id"], "outlook")
    return [gantt.planned(step, plan) for step in ahead["timeline"]]


LanesOf = Callable[[gantt.Json], Iterable[str]]


async def _lanes_of(visit: Visit, lives: list[dict[str, Any]], by: str) -> LanesOf:
    """The lanes of an event: the group of its scope, or the hosts of its VMs."""
    if by == "set":
        return lambda life: [_lane(section_of_scope(life["scope"]))]
    hosts = await _hosts(visit, sorted({name for life in lives for name in life["resources"]}))
    return lambda life: {hosts.get(name) or life.get("host") or ELSEWHERE for name in life["resources"]}


def _lane(section: str) -> str:
    return "on their own" if section == ALONE else section


async def _hosts(visit: Visit, names: list[str]) -> dict[str, str]:
    if len(names) > ONE_BY_ONE:
        return {vm["name"]: vm["host"] for vm in await visit.api.all("vms", most=20_000)}
    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = (await visit.api.get("vms", name))["host"]
        except ApiProblem as problem:
            if problem.status != 404:
                raise
    return found


def iso(moment: datetime, seconds: float = 0) -> str:
    """A moment, or one that much later, as text for addresses and the API."""
    return (moment + timedelta(seconds=seconds)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
