"""Delivers for one subscription: asks its receiver first, then reads the journal from its position and sends."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

import structlog

from duenotice.backoff import Backoff
from duenotice.clock import Clock, monotonic
from duenotice.domain import records as t
from duenotice.domain.fleet import Site
from duenotice.domain.subscription import Subscription, SubscriptionStatus
from duenotice.errors import Refused
from duenotice.push.changes import TOLD, EventBook, UnknownEvent, event_before
from duenotice.push.outbox import MOST_PENDING, Outbox, Parcel
from duenotice.push.receiver import PushEnd, PushOutcome
from duenotice.wire.azure import EventChange

READ_AT_ONCE = 500
"""Records per look into the journal."""

_RECORDS_OF_EVENT = 1000
"""An event has a handful."""

log = structlog.get_logger()


class PushLine(Protocol):
    """What a receiver can be asked."""

    async def validate(self, site: Site) -> PushOutcome:
        """Whether it wants messages."""

    async def deliver(self, change: EventChange, site: Site, tries: int) -> PushOutcome:
        """Whether it took one."""


class PushSurroundings(NamedTuple):
    """What a courier needs to know: the journal, the clock, the site, and who writes things down."""

    clock: Clock
    site: Callable[[], Site]
    shown: Callable[[], int]
    records: "Callable[[int, int], Awaitable[Sequence[t.Record | int]]]"
    records_of: Callable[[str, int], Awaitable[Sequence[t.Record]]]
    report: Callable[[str, SubscriptionStatus, str], Awaitable[None]]
    news: Callable[[], None]
    backoff: Backoff
    jitter: Callable[[], float]


def slim(record: t.Record) -> "t.Record | int":
    """What a courier keeps of a record: a whole fleet may be in one that says nothing about events."""
    return record if isinstance(record.transition, TOLD) else record.position


class Courier:
    """`run` never ends by itself; it is cancelled when the subscription is paused or deleted, or another node leads."""

    def __init__(self, known: Subscription, line: PushLine, around: PushSurroundings) -> None:
        self._known, self._line, self._around = known, line, around
        self.outbox = Outbox(known, around.backoff, around.jitter)
        self._again = list(known.pending)
        self._book = EventBook()
        self._wake = asyncio.Event()
        self._sends: set[asyncio.Task[None]] = set()
        self._is_over = self._is_reading = False
        self.delivered = self.failed = 0

    async def run(self) -> None:
        """Ask, then deliver."""
        try:
            if self._known.status is SubscriptionStatus.WAITING:
                await self._validate()
            while not self._is_over:
                self._is_reading = True
                await self._read()
                self._is_reading = False
                self._send()
                await self._rest()
        finally:
            for task in self._sends:
                task.cancel()

    def hear(self, first: int, last: int, changes: Sequence[EventChange]) -> None:
        """What has just happened, between two positions. A courier that is behind reads it from the journal later."""
        is_next = self.outbox.position == first - 1 and not self._again and not self._is_reading
        wanted = [change for change in changes if self._wants(change)] if is_next else []
        if is_next and len(wanted) <= self.outbox.room:
            for change in wanted:
                self.outbox.put(change)
            self._pass(last)
            self._book = EventBook()  # who is not behind needs none
        self._wake.set()

    def replay(self, change: t.SubscriptionReplayed, known: Subscription) -> None:
        """Deliver these again; a day begins again."""
        self.outbox.known = known
        self._again += change.positions
        self._wake.set()

    async def _validate(self) -> None:
        for pause in self._around.backoff.pauses():
            said = await self._line.validate(self._around.site())
            is_late = self._known.is_too_late(self._around.clock.now())
            if said.end is PushEnd.TAKEN:
                await self._report(SubscriptionStatus.ACTIVE)
                self._known = self._known.with_(status=SubscriptionStatus.ACTIVE)
                return
            if said.end is PushEnd.GONE or is_late:
                self._is_over = True
                await self._report(SubscriptionStatus.REFUSED, said.reason)
                return
            await self._report(SubscriptionStatus.WAITING, said.reason)
            await asyncio.sleep(max(pause * self._around.jitter(), said.after))

    async def _report(self, status: SubscriptionStatus, reason: str = "") -> None:
        try:
            await self._around.report(self._known.id, status, reason)
        except Refused as refusal:  # another node delivers by now, or it is deleted
            self._is_over = True
            log.info("not needed", action="push-refused", subscription=self._known.id, error=refusal.message)

    async def _read(self) -> None:
        """As much as there is room for."""
        while self._again and self.outbox.waiting < 2 * MOST_PENDING:
            await self._read_again(self._again[0])
            self._again.pop(0)
        while self.outbox.room > 0 and not self._again and self.outbox.position < (shown := self._around.shown()):
            records = await self._around.records(self.outbox.position, min(READ_AT_ONCE, self.outbox.room))
            if not records:
                return
            for record in records:
                await self._take(record, shown)

    async def _take(self, record: "t.Record | int", shown: int) -> None:
        position = record if isinstance(record, int) else record.position
        if not self.outbox.position < position <= shown:  # not shown to VMs yet, or heard of while this was read
            return
        change = None if isinstance(record, int) else await self._change(record)
        if change is not None and self._wants(change):
            self.outbox.put(change)
        self._pass(position)

    async def _change(self, record: t.Record) -> EventChange | None:
        try:
            return self._book.take(record)
        except UnknownEvent as unknown:
            event = event_before(record.position, await self._around.records_of(unknown.args[0], _RECORDS_OF_EVENT))
            if event is None:
                return None
            self._book.learn(event)
            return self._book.take(record)

    async def _read_again(self, position: int) -> None:
        """A message that was read before: by an earlier process, or it is a dead letter."""
        records = await self._around.records(position - 1, 1)
        record = records[0] if records else None
        change = None
        if isinstance(record, t.Record) and record.position == position:
            events = await self._around.records_of(_event_id(record), _RECORDS_OF_EVENT)
            before = event_before(position, events)
            with suppress(UnknownEvent):
                change = EventBook({} if before is None else {before.id: before}).take(record)
        if change is None:
            self.outbox.drop(position, "It is no longer in the journal.")
            self._around.news()
        else:
            self.outbox.put(change)

    def _wants(self, change: EventChange) -> bool:
        return self._known.wants(change.event) or self._known.wants(change.before)

    def _pass(self, position: int) -> None:
        self.outbox.position = max(self.outbox.position, position)
        if self.outbox.is_far or self.outbox.trouble:
            self._around.news()

    def _send(self) -> None:
        while not self._is_over and (parcel := self.outbox.next(monotonic())) is not None:
            if self.outbox.is_hopeless(parcel, self._around.clock.now()):
                self._around.news()
                continue
            task = asyncio.create_task(self._deliver(parcel), name="push")
            self._sends.add(task)
            task.add_done_callback(self._sends.discard)

    async def _deliver(self, parcel: Parcel) -> None:
        try:
            said = await self._line.deliver(parcel.change, self._around.site(), parcel.tries + 1)
        except Exception as error:  # a bug of ours must not stop the others, and is not a reason to forget a message
            log.error("a message cannot be sent", action="push-failed", subscription=self._known.id, error=repr(error))
            said = PushOutcome(PushEnd.FAILED, "An internal error occurred.")
        await self._ended(parcel, said)
        self._wake.set()
        self._around.news()

    async def _ended(self, parcel: Parcel, said: PushOutcome) -> None:
        if said.end is PushEnd.TAKEN:
            self.delivered += 1
            self.outbox.delivered(parcel)
            return
        self.failed += 1
        shown, alone = self._around.clock.now(), said.end is PushEnd.NOT_THIS
        self.outbox.failed(parcel, said.reason, monotonic(), shown, alone=alone, after=said.after)
        if said.end is PushEnd.GONE and not self._is_over:
            self._is_over = True
            await self._report(SubscriptionStatus.PAUSED, said.reason)

    async def _rest(self) -> None:
        """Until something happens, or something is ready."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.outbox.wait(monotonic())):
                await self._wake.wait()
        self._wake.clear()


def _event_id(record: t.Record) -> str:
    change = record.transition
    if isinstance(change, t.EventCompleted | t.EventCancelled | t.EventFailed):
        return change.event_id
    return change.event.id  # type: ignore[union-attr]
