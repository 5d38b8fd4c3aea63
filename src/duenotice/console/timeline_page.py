"""The page of the timeline: past, running and coming events, and coming steps of maintenances, by set or by host."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime

from starlette.responses import Response

from duenotice.console import gantt, tracks
from duenotice.console.board import ALONE, section_of_scope
from duenotice.console.pages import PageRoute, Visit
from duenotice.console.plan_views import check_distance
from duenotice.errors import NotFound
from duenotice.wire.operator import Maintenance
from duenotice.wire.spans import format_iso

ELSEWHERE = "no host"
MOST_PLANS = 20
MOST_STEPS = 1000
"""Coming steps of one plan that are drawn."""
ONE_BY_ONE = 200
"""VMs up to which each is asked for its host alone."""

MOST_VMS = 20_000


class TimelinePage:
    """Draws past, running and coming events in one picture, by set or by host."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        return [PageRoute("GET", "/timeline", self.timeline)]

    async def timeline(self, visit: Visit) -> Response:
        """A window of time."""
        span = visit.query("span") if visit.query("span") in gantt.SPANS else gantt.DEFAULT_SPAN
        by, at = "host" if visit.query("by") == "host" else "set", _moment(visit.query("at"), visit.now)
        seen = gantt.window(visit.now, span, at)
        found = await visit.client.timeline(from_=whole_seconds(seen.begin), to=whole_seconds(seen.end))
        lives = [*map(gantt.drawn, found.items), *await _planned(visit, seen)]
        names = list(gantt.SPANS)
        place = names.index(span)
        return visit.page(
            "timeline.html",
            "Timeline",
            "events maintenances fleet",
            lanes=tracks.lanes(lives, seen, visit.now, await _lanes_of(visit, lives, by), _track_of(by)),
            ticks=gantt.ticks(seen),
            days=gantt.days(seen),
            seen=seen,
            here=seen.mark(visit.now),
            left_out=found.left_out,
            span=span,
            spans=names,
            by=by,
            at=at and format_iso(at),
            earlier=format_iso(seen.begin),
            later=format_iso(seen.end),
            closer=names[max(0, place - 1)],
            wider=names[min(len(names) - 1, place + 1)],
        )


async def _planned(visit: Visit, seen: gantt.Stretch) -> list[gantt.Drawn]:
    """The coming steps of all running maintenances, as far as they are shown."""
    if seen.end < visit.now:
        return []
    plans = (await visit.client.maintenances(status="running").all())[-MOST_PLANS:]
    coming = [step for plan in plans for step in await steps_to_come(visit, plan)]
    stopped = (await visit.client.maintenances(status="paused").all())[-MOST_PLANS:]
    for plan in stopped:
        waiting = await visit.client.steps(plan.id, status="waiting").first(MOST_STEPS)
        coming += tracks.paused(plan, waiting, seen, visit.now)
    return coming


async def steps_to_come(visit: Visit, plan: Maintenance) -> list[gantt.Drawn]:
    """The steps of a plan that have not begun, as lives."""
    ahead = await visit.client.outlook(plan.id, limit=MOST_STEPS)
    return [gantt.planned(step, plan.type, plan.id) for step in ahead.timeline]


def _track_of(by: str) -> tracks.TrackOf:
    """The rows of a lane: update domains; on a host of several sets, each with its own."""
    if by == "set":
        return tracks.track
    return lambda life: f"{_lane(section_of_scope(life.scope))} {tracks.track(life)}"


LanesOf = Callable[[gantt.Drawn], Iterable[str]]


async def _lanes_of(visit: Visit, lives: list[gantt.Drawn], by: str) -> LanesOf:
    """The lanes of an event: the group of its scope, or the hosts of its VMs."""
    if by == "set":
        return lambda life: [_lane(section_of_scope(life.scope))]
    hosts = await _hosts(visit, sorted({name for life in lives for name in life.resources}))
    return lambda life: {hosts.get(name) or life.host or ELSEWHERE for name in life.resources}


def _lane(section: str) -> str:
    return "Standalone VMs" if section == ALONE else section


async def _hosts(visit: Visit, names: list[str]) -> dict[str, str | None]:
    if len(names) > ONE_BY_ONE:
        return {vm.name: vm.host for vm in await visit.client.vms().first(MOST_VMS)}
    found: dict[str, str | None] = {}
    for name in names:
        with suppress(NotFound):
            found[name] = (await visit.client.vm(name)).host
    return found


def whole_seconds(moment: datetime) -> datetime:
    """A moment as addresses have it."""
    return moment.replace(microsecond=0)


def _moment(text: str, now: datetime) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        at = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    check_distance(at.date(), now.date())
    return at
