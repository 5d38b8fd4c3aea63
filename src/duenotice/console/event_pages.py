"""The pages of events: the list, the life of one event, and its actions."""

import json
from typing import Any

from starlette.responses import Response

from duenotice.console.api import ApiProblem
from duenotice.console.board import event_state
from duenotice.console.fleet_pages import VERSIONS, urgency, version_of
from duenotice.console.pages import Page, Visit
from duenotice.console.timeline_page import iso

DONE = {"approve": "Approved: it starts now.", "cancel": "Cancelled."}
MOST_LIVE = 500
MOST_OVER = 50
PAST_SECONDS = 30 * 86400
ENDPOINT = "http://169.254.169.254/metadata/scheduledevents?api-version="


class EventPages:
    """Shows events and their lives; what a visitor does to one goes through the API, with the visitor's token."""

    def pages(self) -> list[Page]:
        """The rows of the table."""
        return [
            Page("GET", "/events", self.index),
            Page("GET", "/events/{id}", self.event),
            Page("POST", "/events/{id}/{act}", self.act),
        ]

    async def index(self, visit: Visit) -> Response:
        """All live events, started ones first, then the soonest; and the last that are over."""
        events = await visit.api.all("events", most=MOST_LIVE)
        past = {"from": iso(visit.now, -PAST_SECONDS), "to": visit.clock["now"]}
        lives = (await visit.api.get("timeline", **past))["items"]
        over = sorted((life for life in lives if life["outcome"]), key=lambda life: life["ended_at"], reverse=True)
        rows = [(event, event_state(event)) for event in sorted(events, key=urgency)]
        return visit.page("events.html", "Events", "events", events=rows, over=over[:MOST_OVER])

    async def event(self, visit: Visit) -> Response:
        """One event: its life as a track, who is hit and told, and what each api-version shows."""
        life = await visit.api.get("timeline", visit.name("id"))
        version = version_of(visit)
        return visit.page(
            "event.html",
            f"{life['type']} {life['id'][:8]}",
            f"event:{life['id']}",
            life=life,
            state_now=event_state(life),
            records=(await visit.api.get("events", life["id"], "history"))["items"],
            versions=VERSIONS,
            version=version,
            **await _told(visit, life, version),
        )

    async def act(self, visit: Visit) -> Response:
        """Approve or cancel it."""
        event_id, act = visit.name("id"), visit.name("act")
        if act not in DONE:
            raise ApiProblem(f"There is no action {act}.", hint="Use the buttons of the event's page.", status=404)
        return await visit.done(f"/events/{event_id}", lambda: visit.api.post("events", event_id, act), DONE[act])


async def _told(visit: Visit, life: dict[str, Any], version: str) -> dict[str, Any]:
    """The recipients, and the document as the first VM that is hit reads it."""
    told: dict[str, Any] = {"recipients": [], "document": None, "curls": curls(life["id"], version), "reader": None}
    if (first := await _first_there(visit, life["resources"])) is None:
        return told
    group = first["group"] or None
    vms = await visit.api.all("vms", most=5000, group=group) if group else [first]
    told["recipients"] = [vm["name"] for vm in vms if vm["scope"] == life["scope"]]
    if not life["outcome"]:
        asked = {"api-version": version}
        told |= {"document": await visit.api.text("vms", first["name"], "document", **asked), "reader": first["name"]}
    return told


async def _first_there(visit: Visit, names: list[str]) -> dict[str, Any] | None:
    for name in names[:100]:
        try:
            return dict(await visit.api.get("vms", name))
        except ApiProblem as problem:
            if problem.status != 404:
                raise
    return None  # gone with their event


def curls(event_id: str, version: str) -> list[tuple[str, str]]:
    """How a VM would ask for the document and approve the event, as lines to copy."""
    approval = json.dumps({"StartRequests": [{"EventId": event_id}]}, separators=(",", ":"))
    return [
        ("Read it like a VM", f"curl -H Metadata:true '{ENDPOINT}{version}'"),
        ("Approve it like a VM", f"curl -H Metadata:true -d '{approval}' '{ENDPOINT}{version}'"),
    ]
