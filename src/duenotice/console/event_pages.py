"""The pages of events: those there are, one from its first day to its last, and what can be done about it."""

from typing import Any

from starlette.responses import Response

from duenotice.console.api import ApiProblem
from duenotice.console.board import event_state
from duenotice.console.fleet_pages import VERSIONS
from duenotice.console.pages import Page, Visit

DONE = {"approve": "Approved: it starts now.", "cancel": "Cancelled."}


class EventPages:
    """Where events are seen."""

    def pages(self) -> list[Page]:
        """The rows of the table."""
        return [
            Page("GET", "/events", self.index),
            Page("GET", "/events/{id}", self.event),
            Page("POST", "/events/{id}/{act}", self.act),
        ]

    async def index(self, visit: Visit) -> Response:
        """All that live, soonest first, and the last that are over."""
        events = await visit.api.all("events", most=1000, vm=visit.query("vm"), type=visit.query("type"))
        lives = (await visit.api.get("timeline", to=visit.clock["now"], **{"from": "2000-01-01T00:00:00Z"}))["items"]
        over = sorted((life for life in lives if life["outcome"]), key=lambda life: life["ended_at"], reverse=True)
        rows = [(event, event_state(event)) for event in events]
        return visit.page("events.html", "Events", events=rows, over=over[:50])

    async def event(self, visit: Visit) -> Response:
        """One event: its life as a track, who is hit and told, and what each api-version shows."""
        life = await visit.api.get("timeline", visit.request.path_params["id"])
        records = (await visit.api.get("events", life["id"], "history"))["items"]
        version = visit.query("api-version", VERSIONS[0])
        return visit.page(
            "event.html",
            f"{life['type']} {life['id'][:8]}",
            life=life,
            state_now=life["outcome"] or event_state(life),
            records=records,
            versions=VERSIONS,
            version=version,
            **await _told(visit, life, version),
        )

    async def act(self, visit: Visit) -> Response:
        """Approve or cancel it."""
        event_id, act = visit.request.path_params["id"], visit.request.path_params["act"]
        if act not in DONE:
            raise ApiProblem(404, f"Nothing is called {act}.", "Use the buttons of the event's page.")
        return await visit.done(f"/events/{event_id}", lambda: visit.api.post("events", event_id, act), DONE[act])


async def _told(visit: Visit, life: dict[str, Any], version: str) -> dict[str, Any]:
    """The recipients, and the document as the first VM that is hit reads it."""
    none: dict[str, Any] = {"recipients": [], "document": None, "first": None}
    for name in life["resources"]:
        try:
            first = await visit.api.get("vms", name)
        except ApiProblem:
            continue  # gone with its event
        recipients = (
            [vm["name"] for vm in await visit.api.all("vms", most=1000, group=first["group"])]
            if first["group"]
            else [name]
        )
        document = (
            None if life["outcome"] else await visit.api.text("vms", name, "document", **{"api-version": version})
        )
        return {"recipients": recipients, "document": document, "first": first}
    return none
