"""The calendar of maintenances: on which day which VMs are hit, as far as that is planned."""

from datetime import date, timedelta

from starlette.responses import Response

from duenotice.console import plan_views as v
from duenotice.console.pages import PageRoute, Visit
from duenotice.errors import DuenoticeError
from duenotice.wire.operator import Maintenance

MOST_PLANS = 20
MOST_STEPS = 2000
"""Steps left up to which a plan is looked ahead."""

MOST_EVENTS = 500


class CalendarPage:
    """Draws weeks with what is planned."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        return [PageRoute("GET", "/maintenances/calendar", self.calendar)]

    async def calendar(self, visit: Visit) -> Response:
        """Some weeks, from the present one or another on."""
        today = visit.now.date()
        first = v.first_day(visit.query("from"), today)
        plans = (await visit.client.maintenances(status="running").all())[-MOST_PLANS:]
        entries = [entry for plan in plans for entry in await _entries(visit, plan)]
        events = [event for event in await visit.client.events().first(MOST_EVENTS) if event.phase == "scheduled"]
        return visit.page(
            "calendar.html",
            "Calendar",
            "events maintenances",
            weeks=v.weeks(first, today, [*entries, *v.entries_of_events(events)]),
            first=first,
            earlier=_moved(first, -v.WEEKS),
            later=_moved(first, v.WEEKS),
            waits=await visit.client.maintenances(status="paused").all(),
        )


def _moved(first: date, weeks: int) -> str:
    try:
        return (first + timedelta(weeks=weeks)).isoformat()
    except OverflowError:
        return first.isoformat()


async def _entries(visit: Visit, plan: Maintenance) -> list[v.Entry]:
    if plan.progress["waiting"] > MOST_STEPS:
        return v.entries_of_window(plan)
    try:
        return v.entries_of_plan(plan, (await visit.client.outlook(plan.id)).timeline)
    except DuenoticeError:
        return v.entries_of_window(plan)  # too many look ahead at once
