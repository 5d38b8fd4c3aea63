"""The page of the timeline: past, running and coming events as bars, by set or by host."""

from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from duenotice.console import gantt
from duenotice.console.board import section_of_scope
from duenotice.console.pages import Page, Visit


class TimelinePage:
    """Where time is seen."""

    def pages(self) -> list[Page]:
        """The rows of the table."""
        return [Page("GET", "/timeline", self.timeline)]

    async def timeline(self, visit: Visit) -> Response:
        """A window of time; with the header `X-Part` only the picture."""
        span, by = visit.query("span", "1h"), visit.query("by", "set")
        seen = gantt.window(visit.now, span, _moment(visit.query("at")))
        lives = (await visit.api.get("timeline", **{"from": _iso(seen.begin), "to": _iso(seen.end)}))["items"]
        lanes = gantt.lanes(lives, seen, visit.now, await _lanes(visit, lives, by))
        values = {
            "lanes": lanes,
            "ticks": gantt.ticks(seen),
            "seen": seen,
            "here": seen.mark(visit.now),
            "span": span if span in gantt.SPANS else "1h",
            "spans": list(gantt.SPANS),
            "by": by,
            "at": visit.query("at"),
            "earlier": _iso(seen.begin),
            "later": _iso(seen.end),
        }
        if visit.request.headers.get("x-part"):
            return visit.parts("timeline_part.html", **values)
        return visit.page("timeline.html", "Timeline", **values)


async def _lanes(visit: Visit, lives: list[dict[str, Any]], by: str) -> dict[str, str]:
    """The lane of each event: the group of its scope, or the host of its first VM."""
    if by != "host":
        return {life["id"]: section_of_scope(life["scope"]) for life in lives}
    hosts = {vm["name"]: vm["host"] for vm in await visit.api.all("vms", most=20_000)} if lives else {}
    return {life["id"]: hosts.get(life["resources"][0]) or "elsewhere" for life in lives}


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
