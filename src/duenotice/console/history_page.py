"""The page of the past in numbers: charts for a span of days, of all, of a group or of a VM, and as CSV."""

import csv
import io
from collections.abc import Iterable
from datetime import timedelta
from urllib.parse import urlencode

from starlette.responses import Response

from duenotice.console.charts import charts
from duenotice.console.pages import PageRoute, Visit
from duenotice.console.words import csv_cell
from duenotice.wire.operator import History, PastDay, PastLife

SPANS = {"7d": 7, "30d": 30, "90d": 90, "365d": 365}
DEFAULT_SPAN = "30d"
MOST_GROUPS = 500
DAY_COLUMNS = ("day", "events", "failed", "cancelled", "promised_seconds", "given_seconds", "to_approval_seconds",
               "impact_seconds", "impact_in_all_seconds", "whole", "cut", "silent")  # fmt: skip
EVENT_COLUMNS = ("id", "type", "scope", "vms", "raised_at", "approved_at", "approved_by", "started_at", "ended_at",
                 "outcome", "promised_seconds", "given_seconds", "to_approval_seconds", "impact_seconds")  # fmt: skip

"""A text that begins like this would be run by a spreadsheet."""


class HistoryPage:
    """Draws the past, and writes it down."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        return [
            PageRoute("GET", "/history", self.history),
            PageRoute("GET", "/history/days.csv", self.days),
            PageRoute("GET", "/history/events.csv", self.events),
        ]

    async def history(self, visit: Visit) -> Response:
        """The charts; they do not move by themselves, as a day is long."""
        found, filters = await _found(visit), _filters(visit)
        query = {key: value for key, value in filters.items() if value}
        return visit.page(
            "history.html",
            "History",
            "",
            charts=charts(found.days),
            found=found,
            rows=[day for day in found.days if day.types][::-1],
            filters=filters,
            spans=list(SPANS),
            groups=[group.key for group in await visit.client.groups().first(MOST_GROUPS)],
            query=urlencode(query),
        )

    async def days(self, visit: Visit) -> Response:
        """A line for each day."""
        return _csv("days", DAY_COLUMNS, map(_day, (await _found(visit)).days))

    async def events(self, visit: Visit) -> Response:
        """A line for each event."""
        return _csv("events", EVENT_COLUMNS, map(_event, (await _found(visit)).events))


def _filters(visit: Visit) -> dict[str, str]:
    span = visit.query("span")
    return {
        "span": span if span in SPANS else DEFAULT_SPAN,
        "group": visit.query("group").strip(),
        "vm": visit.query("vm").strip(),
    }


async def _found(visit: Visit) -> History:
    asked = _filters(visit)
    today = visit.now.replace(hour=0, minute=0, second=0, microsecond=0)
    begin = today - timedelta(days=SPANS[asked["span"]] - 1)
    return await visit.client.history(
        from_=begin, to=visit.now.replace(microsecond=0), group=asked["group"], vm=asked["vm"]
    )


def _day(day: PastDay) -> list[object]:
    return [
        day.day, sum(day.types.values()), day.outcomes.get("failed", 0), day.outcomes.get("cancelled", 0),
        day.promised, day.given, day.to_approval, day.impact, day.impact_in_all, day.whole, day.cut, day.silent,
    ]  # fmt: skip


def _event(event: PastLife) -> list[object]:
    return [
        event.id, event.type, event.scope, " ".join(event.resources), event.raised_at, event.approved_at,
        event.approved_by, event.started_at, event.ended_at, event.outcome, event.promised, event.given,
        event.to_approval, event.impact,
    ]  # fmt: skip


def _csv(name: str, columns: tuple[str, ...], rows: Iterable[list[object]]) -> Response:
    """Lines as RFC 4180 has them."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([csv_cell(value) for value in row] for row in rows)
    headers = {"Content-Disposition": f'attachment; filename="duenotice-{name}.csv"'}
    return Response(text.getvalue(), headers=headers, media_type="text/csv; charset=utf-8")
