"""Tells open pages what has changed: only names of VMs, sections, events and plans, never their content.

All open pages of a token together use one connection of the feed.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import NamedTuple

import msgspec
from starlette.responses import Response, StreamingResponse

from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.console.board import section_of_scope
from duenotice.console.visit import Visit
from duenotice.errors import DuenoticeError, NotFound, Unavailable
from duenotice.wire.operator import Clock, Record, Vm

GATHER_SECONDS = 0.1
"""Changes within this time are sent together, so that a busy fleet does not keep browsers busy."""

BEAT_SECONDS = 2.0
"""How often a page is told the time, so that it knows that the service lives; it waits for five seconds."""

LOOK_SECONDS = 1.0
"""How often a clock that is not real is looked at; somebody may have set it."""

MOST_NAMES = 200
"""Names in one message; if there are more, a page loads everything again."""

FLEET_ACTIONS = ("fleet-declared", "groups-put", "groups-removed", "vms-put", "hosts-removed")

OF_MANY_VMS = ("maintenance-retried",)
"""VMs that have failed have not any more, and no record names them."""

LISTENING = ("scope-enabled", "scope-disabled")

MOST_PAGES = 50
"""Live pages of one token; each is a connection, and the port has 200."""

MOST_QUEUED = 1000
"""Records that may wait for one page."""

PageQueue = asyncio.Queue[Record | None]
"""Records for one page; None is the end."""


class SharedFeed:
    """An open feed, and the pages that get it."""

    def __init__(self, client: AsyncOperatorClient) -> None:
        self.pages: set[PageQueue] = set()
        self.is_over = False
        self.is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._pass_on(client), name="console-feed")

    async def close(self) -> None:
        """Close the feed."""
        self.is_over = True
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _pass_on(self, client: AsyncOperatorClient) -> None:
        try:
            async with client.feed(on_lost=_give_up) as feed:
                self.is_open.set_result(None)
                async for record in feed:
                    for page in list(self.pages):
                        self._tell(page, record)
        except DuenoticeError as problem:
            self._refuse(problem)
        finally:
            self.is_over = True
            self._refuse(Unavailable("The feed did not open.", hint="Try again."))
            for page in list(self.pages):
                self._end(page)

    def _refuse(self, problem: DuenoticeError) -> None:
        if not self.is_open.done():
            self.is_open.set_exception(problem)
            self.is_open.exception()  # perhaps no page is left

    def _tell(self, page: PageQueue, record: Record) -> None:
        try:
            page.put_nowait(record)
        except asyncio.QueueFull:  # the page comes back and continues where it was
            self._end(page)

    def _end(self, page: PageQueue) -> None:
        self.pages.discard(page)
        while not page.empty():
            page.get_nowait()
        page.put_nowait(None)


def _give_up(error: DuenoticeError) -> None:
    """The pages come back by themselves; and when the service ends, nothing must hold it up."""
    raise error


class Live:
    """The live feed of pages, and the open feeds of the service by the id of the token."""

    def __init__(self) -> None:
        self._feeds: dict[str, SharedFeed] = {}

    @property
    def listeners(self) -> int:
        """How many pages are connected."""
        return sum(len(feed.pages) for feed in self._feeds.values())

    async def stream(self, visit: Visit) -> Response:
        """Server-sent events from the position the page was made at, or the last one seen."""
        resources = AsyncExitStack()
        queue = await resources.enter_async_context(self._subscribed(visit))
        messages = _messages(resources, queue, visit)
        return StreamingResponse(messages, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    @asynccontextmanager
    async def _subscribed(self, visit: Visit) -> AsyncIterator[PageQueue]:
        """Records from now on, for one page; raises when too many pages are live."""
        token_id = visit.me.id
        feed = self._feeds.get(token_id)
        if feed is None or feed.is_over:
            feed = self._feeds[token_id] = SharedFeed(visit.client)
        if len(feed.pages) >= MOST_PAGES:
            raise Unavailable(f"{MOST_PAGES} pages of this token are live.", hint="Close some.")
        page = PageQueue(MOST_QUEUED)
        feed.pages.add(page)
        try:
            await asyncio.shield(feed.is_open)
            yield page
        finally:
            feed.pages.discard(page)
            if not feed.pages:
                if self._feeds.get(token_id) is feed:
                    del self._feeds[token_id]
                await feed.close()


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
        if len(self.vms) + len(self.topics) > MOST_NAMES:
            return {"all": True}
        return {name: sorted(names) for name, names in self._asdict().items()}


async def _messages(resources: AsyncExitStack, queue: PageQueue, visit: Visit) -> AsyncIterator[str]:
    client, clock = visit.client, visit.clock
    async with resources:
        with suppress(DuenoticeError):
            yield _clock_message(clock)
            missed = await _missed(visit)
            seen = missed[-1].position if missed else visit.position
            yield _message(seen, {"all": True}) if missed is None else await _change_message(client, missed)
            while (found := await _next_records(queue, BEAT_SECONDS if clock.speed == 1 else LOOK_SECONDS)) is not None:
                records = [record for record in found if record.position > seen]
                clock = await client.clock()  # refused as soon as the session is over, of which a record tells (S35)
                yield _clock_message(clock) + await _change_message(client, records)


def _clock_message(clock: Clock) -> str:
    return f"event: clock\ndata: {msgspec.json.encode(clock).decode()}\n\n"


async def _missed(visit: Visit) -> Sequence[Record] | None:
    """What happened since the page was made; the feed is open by now. None when it is too much.

    A page that saw a later position saw another journal: it loads everything again by itself.
    """
    after = visit.request.headers.get("last-event-id") or visit.query("after", str(visit.position))
    if not after.isdecimal() or int(after) < visit.position - MOST_NAMES:
        return None
    page = await visit.client.audit(after=min(int(after), visit.position)).page(limit=MOST_NAMES)
    return None if page.next else page.items


async def _next_records(queue: PageQueue, seconds: float) -> list[Record] | None:
    """Records that came together; empty when none came in these seconds, None when the feed is over."""
    try:
        async with asyncio.timeout(seconds):
            found = [await queue.get()]
    except TimeoutError:
        return []
    await asyncio.sleep(GATHER_SECONDS)
    while not queue.empty():
        found.append(queue.get_nowait())
    return None if None in found else [record for record in found if record is not None]


async def _change_message(client: AsyncOperatorClient, records: Sequence[Record]) -> str:
    """One message for all of them."""
    if not records:
        return ""
    if len(records) > MOST_NAMES or any(record.action in OF_MANY_VMS for record in records):
        return _message(records[-1].position, {"all": True})
    changes = [page_change(record) | await _vms_not_named(client, record) for record in records]
    whole = changes[0]
    for change in changes[1:]:
        whole |= change
    return _message(records[-1].position, whole.to_json())


def _message(position: int | None, change: dict[str, object]) -> str:
    place = "" if position is None else f"id: {position}\n"
    return f"{place}data: {json.dumps(change)}\n\n"


def page_change(record: Record) -> PageChange:
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


async def _vms_not_named(client: AsyncOperatorClient, record: Record) -> PageChange:
    """The VMs that a record concerns without naming them: those of an event by its id, those on a host."""
    names: set[str] = set()
    if record.event_id and record.details.event is None:
        names = set((await client.event_life(record.event_id)).resources)
    for host in record.details.hosts or () if record.action == "hosts-put" else ():
        names |= {vm.name for vm in await _vms_on(client, host.name)}
    return PageChange(frozenset(f"vm:{name}" for name in names), frozenset(names))


async def _vms_on(client: AsyncOperatorClient, host: str) -> list[Vm]:
    try:
        return await client.vms(host=host).first(MOST_NAMES + 1)
    except NotFound:
        return []  # a host that has gone since
