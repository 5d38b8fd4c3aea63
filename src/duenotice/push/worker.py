"""Delivers for one subscription: asks its receiver first, then reads the journal from its position and sends.

Before it stands how records become changes of events: what is to be told, and the event as it was.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import structlog

from duenotice.clock import monotonic
from duenotice.domain import records as t
from duenotice.domain.event import Event, Phase
from duenotice.domain.fleet import Site
from duenotice.domain.subscription import Subscription, SubscriptionStatus
from duenotice.errors import Refused
from duenotice.push.outbox import MOST_PENDING, Outbox, QueuedMessage
from duenotice.push.receiver import PushEnd, PushOutcome
from duenotice.wire.azure import EventChange

if TYPE_CHECKING:
    from duenotice.push.service import PushService

_ENDS: dict[type, Phase] = {
    t.EventCompleted: Phase.COMPLETED,
    t.EventCancelled: Phase.CANCELLED,
    t.EventFailed: Phase.FAILED,
}

TOLD: tuple[type, ...] = (t.EventRaised, t.EventMoved, t.EventNarrowed, t.EventPostponed, t.EventStarted, *_ENDS)
"""Changes that somebody who reads documents would see; an approval is not one."""


class UnknownEvent(LookupError):
    """A record about an event that the book does not know: its earlier records do."""


class EventBook:
    """The events as they are at one place of the journal: the end of an event does not say what it was."""

    def __init__(self, events: Mapping[str, Event] | None = None) -> None:
        self._events = dict(events or {})

    def take(self, record: t.Record) -> EventChange | None:
        """Go on by one record; what it changes, if it is about an event."""
        change = record.transition
        match change:
            case (
                t.EventRaised(event)
                | t.EventMoved(event)
                | t.EventNarrowed(event)
                | t.EventPostponed(event)
                | t.EventStarted(event)
            ):
                before = self._events.get(event.id, event)
                self._events[event.id] = event
                return EventChange(record.position, record.when, event, before)
            case t.EventCompleted(event_id) | t.EventCancelled(event_id) | t.EventFailed(event_id):
                known = self._events.pop(event_id, None)
                if known is None:
                    raise UnknownEvent(event_id)
                over, why = known.with_(phase=_ENDS[type(change)]), getattr(change, "reason", "")
                return EventChange(record.position, record.when, over, known, why)
        return None

    def learn(self, event: Event) -> None:
        """An event as it is at this place."""
        self._events[event.id] = event


def event_before(position: int, records: Iterable[t.Record]) -> Event | None:
    """An event as its own records tell that it was before a position."""
    known: Event | None = None
    for record in records:
        if record.position < position and isinstance(
            record.transition, t.EventRaised | t.EventMoved | t.EventNarrowed | t.EventPostponed | t.EventStarted
        ):
            known = record.transition.event
    return known


READ_AT_ONCE = 500
"""Records per look into the journal."""

_RECORDS_OF_EVENT = 1000
"""An event has a handful."""

log = structlog.get_logger()


class Receiver(Protocol):
    """What a receiver can be asked."""

    async def validate(self, site: Site) -> PushOutcome:
        """Whether it wants messages."""

    async def deliver(self, change: EventChange, site: Site, tries: int) -> PushOutcome:
        """Whether it took one."""


def slim(record: t.Record) -> "t.Record | int":
    """What a worker keeps of a record: a whole fleet may be in one that says nothing about events."""
    return record if isinstance(record.transition, TOLD) else record.position


class PushWorker:
    """`run` never ends by itself; it is cancelled when the subscription is paused or deleted, or another node leads."""

    def __init__(self, known: Subscription, receiver: Receiver, service: "PushService") -> None:
        self._known, self._receiver, self._service = known, receiver, service
        self.outbox = Outbox(known, service.backoff, service.jitter)
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
        """What has just happened, between two positions. A worker that is behind reads it from the journal later."""
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
        for pause in self._service.backoff.pauses():
            said = await self._receiver.validate(self._service.site)
            is_late = self._known.is_too_late(self._service.clock.now())
            if said.end is PushEnd.TAKEN:
                await self._report(SubscriptionStatus.ACTIVE)
                self._known = self._known.with_(status=SubscriptionStatus.ACTIVE)
                return
            if said.end is PushEnd.GONE or is_late:
                self._is_over = True
                await self._report(SubscriptionStatus.REFUSED, said.reason)
                return
            await self._report(SubscriptionStatus.WAITING, said.reason)
            await asyncio.sleep(max(pause * self._service.jitter(), said.after))

    async def _report(self, status: SubscriptionStatus, reason: str = "") -> None:
        try:
            await self._service.report(self._known.id, status, reason)
        except Refused as refusal:  # another node delivers by now, or it is deleted
            self._is_over = True
            log.info("not needed", action="push-refused", subscription=self._known.id, error=refusal.message)

    async def _read(self) -> None:
        """As much as there is room for."""
        while self._again and self.outbox.waiting < 2 * MOST_PENDING:
            await self._read_again(self._again[0])
            self._again.pop(0)
        while self.outbox.room > 0 and not self._again and self.outbox.position < (shown := self._service.shown):
            records = await self._service.records(self.outbox.position, min(READ_AT_ONCE, self.outbox.room))
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
            event = event_before(record.position, await self._service.records_of(unknown.args[0], _RECORDS_OF_EVENT))
            if event is None:
                return None
            self._book.learn(event)
            return self._book.take(record)

    async def _read_again(self, position: int) -> None:
        """A message that was read before: by an earlier process, or it is a dead letter."""
        records = await self._service.records(position - 1, 1)
        record = records[0] if records else None
        change = None
        if isinstance(record, t.Record) and record.position == position:
            events = await self._service.records_of(_event_id(record), _RECORDS_OF_EVENT)
            before = event_before(position, events)
            with suppress(UnknownEvent):
                change = EventBook({} if before is None else {before.id: before}).take(record)
        if change is None:
            self.outbox.drop(position, "It is no longer in the journal.")
            self._service.news()
        else:
            self.outbox.put(change)

    def _wants(self, change: EventChange) -> bool:
        return self._known.wants(change.event) or self._known.wants(change.before)

    def _pass(self, position: int) -> None:
        self.outbox.position = max(self.outbox.position, position)
        if self.outbox.is_far or self.outbox.trouble:
            self._service.news()

    def _send(self) -> None:
        while not self._is_over and (message := self.outbox.next(monotonic())) is not None:
            if self.outbox.is_hopeless(message, self._service.clock.now()):
                self._service.news()
                continue
            task = asyncio.create_task(self._deliver(message), name="push")
            self._sends.add(task)
            task.add_done_callback(self._sends.discard)

    async def _deliver(self, message: QueuedMessage) -> None:
        try:
            said = await self._receiver.deliver(message.change, self._service.site, message.tries + 1)
        except Exception as error:  # a bug of ours must not stop the others, and is not a reason to forget a message
            log.error("a message cannot be sent", action="push-failed", subscription=self._known.id, error=repr(error))
            said = PushOutcome(PushEnd.FAILED, "An internal error occurred.")
        await self._ended(message, said)
        self._wake.set()
        self._service.news()

    async def _ended(self, message: QueuedMessage, said: PushOutcome) -> None:
        if said.end is PushEnd.TAKEN:
            self.delivered += 1
            self.outbox.delivered(message)
            return
        self.failed += 1
        shown, alone = self._service.clock.now(), said.end is PushEnd.NOT_THIS
        self.outbox.failed(message, said.reason, monotonic(), shown, alone=alone, after=said.after)
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
