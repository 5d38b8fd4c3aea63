"""The page of all events: filters in the address, piles, pages, and what is done to chosen rows together."""

from collections.abc import Mapping
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import asdict, replace
from starlette.responses import Response

from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.console.attention import open_plans, title_of
from duenotice.console.board import event_state
from duenotice.console.door import safe
from duenotice.console.pages import PageRoute, Visit, go
from duenotice.console.shown_rows import ShownRows, page_of, whole_page
from duenotice.console.together import TABLE, chosen, together
from duenotice.console.words import address
from duenotice.errors import NotFound
from duenotice.wire import operator as w

PAST_ROWS = 20
PAST = ",".join(w.OVER_STATES)
PILES = {"maintenance": "Maintenance", "host": "Host", "group": "Group"}
WORDS = {"": "Failed, active and upcoming", PAST: "Past", ",".join(w.EVENT_STATES): "All"}
"""The lists that have a name; others are named by their state."""

ACTS = {
    "approve": (AsyncOperatorClient.approve_event, "approved"),
    "cancel": (AsyncOperatorClient.cancel_event, "cancelled"),
    "acknowledge": (AsyncOperatorClient.acknowledge_event, "acknowledged"),
}


class Pile(NamedTuple):
    """Rows that belong together, under one title with a link if there is anything to open."""

    title: str
    href: str
    rows: list[tuple[w.EventRow, str]]


class EventList:
    """Shows events as a table, and lets chosen ones be approved or cancelled."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        return [PageRoute("GET", "/events", self.index), PageRoute("POST", "/events", self.act, "operator", TABLE)]

    async def index(self, visit: Visit) -> Response:
        """The events that the address asks for; without a state also the last that are over."""
        asked, page = asked_of(visit), page_of(visit)
        found = await whole_page(page, lambda begin, most: visit.client.event_table(asked, offset=begin, limit=most))
        past = (
            None if asked.state else await visit.client.event_table(replace(asked, state=PAST, by=""), limit=PAST_ROWS)
        )
        given = {key: value for key, value in asdict(asked).items() if value}
        return visit.page(
            "events.html",
            "Events",
            "events",
            asked=asked,
            given=given,
            piles=piles(found.items, asked.by, {plan.id: title_of(plan) for plan in open_plans(visit.attention)}),
            past=None if past is None else piles(past.items, "")[0].rows if past.items else [],
            past_total=sum(found.counts[state] for state in w.OVER_STATES),
            counts=found.counts,
            paging=ShownRows(page, found.total),
            heading=WORDS.get(asked.state, asked.state.replace(",", ", ").capitalize()),
            link=partial(address, "/events", given),
            past_states=PAST,
            all_states=",".join(w.EVENT_STATES),
            types=w.EVENT_TYPES,
            causes=w.CAUSES,
            ways=PILES,
        )

    async def act(self, visit: Visit) -> Response:
        """Approve or cancel what was chosen; each that was refused gets a line."""
        rows, form = await chosen(visit)
        if (act := form.get("act", "")) not in ACTS:
            raise NotFound("There is no such action.", hint="Use the buttons below the table.")
        do, done = ACTS[act]
        back = safe(form.get("back", "/events"))
        if not rows:
            return go(back, failed="No event was chosen.")
        outcomes = await together(rows, lambda row: do(visit.client, row))
        said = f"{outcomes.done} event{'s' if outcomes.done != 1 else ''} {done}."
        if not outcomes.refused:
            return go(back, said=said)
        refused = [(row[:8], f"/events/{row}", why) for row, why in outcomes.refused]
        return visit.page("outcomes.html", "Events", "", said=said, refused=refused, back=back, done=done)


def asked_of(visit: Visit) -> w.EventQuery:
    """What the address asks for."""
    return w.EventQuery(**{key: visit.query(key).strip() for key in w.EventQuery.__struct_fields__})


def piles(rows: tuple[w.EventRow, ...], by: str, plans: Mapping[str, str] = MappingProxyType({})) -> list[Pile]:
    """Rows that stand together become a pile; without `by` all are one. `plans` has the titles of those that run."""

    def belongs(row: w.EventRow) -> str:
        return (getattr(row, by) or "") if by in PILES else ""

    return [
        Pile(_title(by, key, plans.get(key, "")), _href(by, key), [(row, event_state(row)) for row in found])
        for key, found in groupby(rows, belongs)
    ]


def _title(by: str, key: str, known: str) -> str:
    if not by or not key:
        return f"No {PILES[by].lower()}" if by else ""
    return f"{PILES[by]} {key[:8] if by == 'maintenance' else key}{': ' if known else ''}{known}"


def _href(by: str, key: str) -> str:
    return f"/{by}s/{key}" if by and key else ""
