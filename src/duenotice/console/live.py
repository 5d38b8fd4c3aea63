"""Tells open pages what has changed: only names of VMs, sections, events and plans, never their content."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, suppress
from typing import NamedTuple

import msgspec
from starlette.responses import Response, StreamingResponse

from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.console.board import section_of_scope
from duenotice.console.hearing import Hearing, Records
from duenotice.console.pages import PageRoute, Visit
from duenotice.errors import DuenoticeError, NotFound
from duenotice.wire.operator import Clock, Record, Vm

GATHERED_SECONDS = 0.1
"""Changes within this time are sent together, so that a busy fleet does not keep browsers busy."""

BEAT_SECONDS = 2.0
"""How often a page is told the time, so that it knows that the service lives; it waits for five seconds."""

LOOK_SECONDS = 1.0
"""How often a clock that is not real is looked at; somebody may have set it."""

MOST_TOLD = 200
"""Names in one message; if there are more, a page loads everything again."""

FLEET_ACTIONS = ("fleet-declared", "groups-put", "groups-removed", "vms-put", "hosts-removed")

OF_MANY = ("maintenance-retried",)
"""VMs that have failed have not any more, and no record names them."""

LISTENING = ("scope-enabled", "scope-disabled")


class PageChange(NamedTuple):
    """What records change on pages: topics that pages listen for, VMs and sections of the board."""

    topics: frozenset[str] = frozenset()
    vms: frozenset[str] = frozenset()
    sections: frozenset[str] = frozenset()
    redrawn: frozenset[str] = frozenset()
    """Sections in which more than the VMs named here has changed."""

    def __or__(self, other: "PageChange") -> "PageChange":
        return PageChange(*(mine | others for mine, others in zip(self, other, strict=True)))

    def to_json(self) -> dict[str, object]:
        """As the browser reads it; `all` when there are too many names."""
        if len(self.vms) + len(self.topics) > MOST_TOLD:
            return {"all": True}
        return {name: sorted(names) for name, names in self._asdict().items()}


class Live:
    """The live feed of pages."""

    def __init__(self) -> None:
        self._hearing = Hearing()

    @property
    def listeners(self) -> int:
        """How many connections are open."""
        return self._hearing.listeners

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        return [PageRoute("GET", "/live", self.live, at_home=True)]

    async def live(self, visit: Visit) -> Response:
        """Server-sent events from the position the page was made at, or the last one seen."""
        open_things = AsyncExitStack()
        records = await open_things.enter_async_context(self._hearing.hear(visit.me.id, visit.client))
        told = _told(open_things, records, visit)
        return StreamingResponse(told, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _told(open_things: AsyncExitStack, heard: Records, visit: Visit) -> AsyncIterator[str]:
    client, clock = visit.client, visit.clock
    async with open_things:
        with suppress(DuenoticeError):
            yield _clock(clock)
            missed = await _missed(visit)
            seen = missed[-1].position if missed else visit.position
            yield _message(seen, {"all": True}) if missed is None else await _telling(client, missed)
            while (found := await _gathered(heard, BEAT_SECONDS if clock.speed == 1 else LOOK_SECONDS)) is not None:
                records = [record for record in found if record.position > seen]
                clock = await client.clock()  # refused as soon as the session is over, of which a record tells (S35)
                yield _clock(clock) + await _telling(client, records)


def _clock(clock: Clock) -> str:
    return f"event: clock\ndata: {msgspec.json.encode(clock).decode()}\n\n"


async def _missed(visit: Visit) -> Sequence[Record] | None:
    """What happened since the page was made; the feed is open by now. None when it is too much.

    A page that saw a later position saw another journal: it loads everything again by itself.
    """
    after = visit.request.headers.get("last-event-id") or visit.query("after", str(visit.position))
    if not after.isdecimal() or int(after) < visit.position - MOST_TOLD:
        return None
    page = await visit.client.audit(after=min(int(after), visit.position)).page(limit=MOST_TOLD)
    return None if page.next else page.items


async def _gathered(heard: Records, seconds: float) -> list[Record] | None:
    """Records that came together; empty when none came in these seconds, None when the feed is over."""
    try:
        async with asyncio.timeout(seconds):
            found = [await heard.get()]
    except TimeoutError:
        return []
    await asyncio.sleep(GATHERED_SECONDS)
    while not heard.empty():
        found.append(heard.get_nowait())
    return None if None in found else [record for record in found if record is not None]


async def _telling(client: AsyncOperatorClient, records: Sequence[Record]) -> str:
    """One message for all of them."""
    if not records:
        return ""
    if len(records) > MOST_TOLD or any(record.action in OF_MANY for record in records):
        return _message(records[-1].position, {"all": True})
    changes = [changed(record) | await _beyond(client, record) for record in records]
    told = changes[0]
    for change in changes[1:]:
        told |= change
    return _message(records[-1].position, told.to_json())


def _message(position: int | None, change: dict[str, object]) -> str:
    place = "" if position is None else f"id: {position}\n"
    return f"{place}data: {json.dumps(change)}\n\n"


def changed(record: Record) -> PageChange:
    """What a record changes on pages, by itself."""
    details, action, topics = record.details, record.action, {"any"}
    event = details.event
    scopes = {scope for scope in (event and event.scope, details.scope, details.from_scope) if scope}
    vms = {*(event.resources if event else ()), *(details.names or () if action.startswith("vms-") else ())}
    if record.event_id:
        topics |= {"events", f"event:{record.event_id}"}
    if plan := details.maintenance_id or (details.maintenance and details.maintenance.id):
        topics |= {"maintenances", f"maintenance:{plan}"}
    if subscription := details.subscription_id or (details.subscription and details.subscription.id):
        topics |= {"subscriptions", f"subscription:{subscription}"}
    if action.startswith("token-"):
        topics.add("tokens")
    if action in FLEET_ACTIONS:
        topics.add("fleet")
    if action.startswith("hosts-") or action == "health-reported":
        topics.add("hosts")
    topics |= {f"vm:{name}" for name in vms} | {f"scope:{scope}" for scope in scopes}
    sections = frozenset(map(section_of_scope, scopes))
    if action in LISTENING:
        topics.add("listening")
    redrawn = sections if action in LISTENING else frozenset()
    return PageChange(frozenset(topics), frozenset(vms), sections, redrawn)


async def _beyond(client: AsyncOperatorClient, record: Record) -> PageChange:
    """The VMs that a record concerns without naming them: those of an event by its id, those on a host."""
    names: set[str] = set()
    if record.event_id and record.details.event is None:
        names = set((await client.event_life(record.event_id)).resources)
    for host in record.details.hosts or () if record.action == "hosts-put" else ():
        names |= {vm.name for vm in await _on(client, host.name)}
    return PageChange(frozenset(f"vm:{name}" for name in names), frozenset(names))


async def _on(client: AsyncOperatorClient, host: str) -> list[Vm]:
    try:
        return await client.vms(host=host).first(MOST_TOLD + 1)
    except NotFound:
        return []  # a host that has gone since
