"""What has changed, told to open pages: names of VMs, sections, events and plans, never the things themselves."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from starlette.responses import Response, StreamingResponse

from duenotice.console.board import section_of_scope
from duenotice.console.pages import Page, Visit

GATHERED_SECONDS = 0.1
"""What happens within this time is told together: a fleet that moves must not keep browsers busy."""

FLEET_ACTIONS = ("fleet-declared", "groups-put", "groups-removed", "hosts-put", "hosts-removed")


class Live:
    """Where pages listen."""

    def pages(self) -> list[Page]:
        """The rows of the table."""
        return [Page("GET", "/live", self.live)]

    async def live(self, visit: Visit) -> Response:
        """Server-sent events from the position the page was made at, or the last one seen."""
        after = visit.request.headers.get("last-event-id") or visit.query("after", "0")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(_told(visit.api.feed(after)), media_type="text/event-stream", headers=headers)


async def _told(feed: AsyncIterator[bytes]) -> AsyncIterator[str]:
    async for chunk in feed:
        found = [changed(record) for record in _records(chunk)]
        if not found:
            yield ": still here\n\n"
        for position, change in found:
            yield f"id: {position}\ndata: {json.dumps(change)}\n\n"
        await asyncio.sleep(0)


def _records(chunk: bytes) -> Iterator[dict[str, Any]]:
    for line in chunk.split(b"\n"):
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


def changed(record: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """What a record changes on pages."""
    details = record["details"]
    event = details.get("event") or {}
    scopes = {event.get("scope"), details.get("scope"), details.get("from_scope")} - {None}
    plan = details.get("maintenance_id") or (details.get("maintenance") or {}).get("id")
    return record["position"], {
        "vms": [*event.get("resources", []), *details.get("names", [])],
        "sections": sorted(section_of_scope(scope) for scope in scopes),
        "events": [record["event_id"]] if record["event_id"] else [],
        "maintenances": [plan] if plan else [],
        "fleet": record["action"] in FLEET_ACTIONS,
        "at": record["at"],
    }
