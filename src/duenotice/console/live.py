"""Tells open pages what has changed: only names of VMs, sections, events and plans, never their content."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from typing import Any, NamedTuple

from starlette.responses import Response, StreamingResponse

from duenotice.console.api import Api, ApiProblem, Chunks
from duenotice.console.board import section_of_scope
from duenotice.console.hearing import Hearing
from duenotice.console.pages import Page, Visit

GATHERED_SECONDS = 0.1
"""Changes within this time are sent together, so that a busy fleet does not keep browsers busy."""

LOOK_SECONDS = 1.0
"""How often a clock that is not real is looked at; somebody may have set it."""

MOST_TOLD = 200
"""Names in one message; if there are more, a page loads everything again."""

FLEET_ACTIONS = ("fleet-declared", "groups-put", "groups-removed", "vms-put", "hosts-removed")


class Change(NamedTuple):
    """What records change on pages: topics that pages listen for, VMs and sections of the board."""

    topics: frozenset[str] = frozenset()
    vms: frozenset[str] = frozenset()
    sections: frozenset[str] = frozenset()

    def __or__(self, other: "Change") -> "Change":
        return Change(self.topics | other.topics, self.vms | other.vms, self.sections | other.sections)

    def to_json(self) -> dict[str, Any]:
        """As the browser reads it; `all` when there are too many names."""
        if len(self.vms) + len(self.topics) > MOST_TOLD:
            return {"all": True}
        return {"topics": sorted(self.topics), "vms": sorted(self.vms), "sections": sorted(self.sections)}


class Live:
    """The live feed of pages."""

    def __init__(self) -> None:
        self._hearing = Hearing()

    def pages(self) -> list[Page]:
        """The rows of the table."""
        return [Page("GET", "/live", self.live, at_home=True)]

    async def live(self, visit: Visit) -> Response:
        """Server-sent events from the position the page was made at, or the last one seen."""
        open_things = AsyncExitStack()
        chunks = await open_things.enter_async_context(self._hearing.hear(visit.me["id"], visit.api))
        told = _told(open_things, chunks, visit)
        return StreamingResponse(told, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _told(open_things: AsyncExitStack, chunks: Chunks, visit: Visit) -> AsyncIterator[str]:
    api, clock = visit.api, visit.clock
    async with open_things:
        with suppress(ApiProblem):  # a revoked token ends the feed
            yield f"retry: 1000\nevent: clock\ndata: {json.dumps(clock)}\n\n"
            missed = await _missed(visit)
            seen = missed[-1]["position"] if missed else visit.position
            yield _message(seen, {"all": True}) if missed is None else await _telling(api, missed)
            while (found := await _gathered(chunks, None if clock["speed"] == 1 else LOOK_SECONDS)) is not None:
                records = [record for chunk in found for record in _records(chunk) if record["position"] > seen]
                clock = await api.get("clock")
                yield f"event: clock\ndata: {json.dumps(clock)}\n\n{await _telling(api, records)}"


async def _missed(visit: Visit) -> list[dict[str, Any]] | None:
    """What happened since the page was made; the feed is open by now. None when it is too much.

    A page that saw a later position saw another journal: it loads everything again by itself.
    """
    after = visit.request.headers.get("last-event-id") or visit.query("after", str(visit.position))
    if not after.isdecimal() or int(after) < visit.position - MOST_TOLD:
        return None
    page = await visit.api.get("audit", after=min(int(after), visit.position), limit=MOST_TOLD)
    return None if page["next"] else list(page["items"])


async def _gathered(chunks: Chunks, seconds: float | None) -> list[bytes] | None:
    """Records that came together; empty when none came in these seconds, None when the feed is over."""
    try:
        async with asyncio.timeout(seconds):
            found = [await chunks.get()]
    except TimeoutError:
        return []
    await asyncio.sleep(GATHERED_SECONDS)
    while not chunks.empty():
        found.append(chunks.get_nowait())
    return None if None in found else [chunk for chunk in found if chunk is not None]


async def _telling(api: Api, records: list[dict[str, Any]]) -> str:
    """One message for all of them."""
    if not records:
        return ""
    if len(records) > MOST_TOLD:
        return _message(records[-1]["position"], {"all": True})
    changes = [changed(record) | await _beyond(api, record) for record in records]
    told = changes[0]
    for change in changes[1:]:
        told |= change
    return _message(records[-1]["position"], told.to_json())


def _message(position: int | None, change: dict[str, Any]) -> str:
    place = "" if position is None else f"id: {position}\n"
    return f"{place}data: {json.dumps(change)}\n\n"


def _records(chunk: bytes) -> Iterator[dict[str, Any]]:
    for line in chunk.split(b"\n"):
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


def changed(record: dict[str, Any]) -> Change:
    """What a record changes on pages, by itself."""
    details, action, topics = record["details"], record["action"], {"any"}
    event = details.get("event") or {}
    scopes = {scope for scope in (event.get("scope"), details.get("scope"), details.get("from_scope")) if scope}
    vms = {*event.get("resources", ()), *(details.get("names", ()) if action.startswith("vms-") else ())}
    if record["event_id"]:
        topics |= {"events", f"event:{record['event_id']}"}
    if plan := details.get("maintenance_id") or (details.get("maintenance") or {}).get("id"):
        topics |= {"maintenances", f"maintenance:{plan}"}
    if action in FLEET_ACTIONS:
        topics.add("fleet")
    if action.startswith("hosts-"):
        topics.add("hosts")
    topics |= {f"vm:{name}" for name in vms} | {f"scope:{scope}" for scope in scopes}
    return Change(frozenset(topics), frozenset(vms), frozenset(map(section_of_scope, scopes)))


async def _beyond(api: Api, record: dict[str, Any]) -> Change:
    """The VMs that a record concerns without naming them: those of an event by its id, those on a host."""
    names: set[str] = set()
    if record["event_id"] and "event" not in record["details"]:
        names = set((await api.get("timeline", record["event_id"]))["resources"])
    for host in record["details"].get("hosts", ()) if record["action"] == "hosts-put" else ():
        names |= {vm["name"] for vm in await _on(api, host["name"])}
    return Change(frozenset(f"vm:{name}" for name in names), frozenset(names))


async def _on(api: Api, host: str) -> list[Any]:
    try:
        return await api.all("vms", host=host, most=MOST_TOLD + 1)
    except ApiProblem as problem:
        if problem.status != 404:
            raise
        return []  # a host that has gone since
