"""Runs a worker for each subscription, where the leader is, and writes down together how far they are (N12).

The journal gets a note at most every few seconds, for all subscriptions at once: a message is delivered again if the
process dies before that. Waits here are in real time, whatever the clock.
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol
from uuid import uuid4

import structlog

from duenotice.backoff import Backoff
from duenotice.domain import records as t
from duenotice.domain.commands import ClaimPushes, Command, NotePushes, PushNote, ReportReceiver
from duenotice.domain.fleet import Site
from duenotice.domain.subscription import Subscription, SubscriptionStatus
from duenotice.engine.engine import SELF, Engine
from duenotice.engine.log import NOTES, PUSHES, RepeatedFailure
from duenotice.errors import DuenoticeError, Refused, Unavailable
from duenotice.push.worker import EventBook, PushWorker, Receiver, slim

ACTOR = "push"
MOST_UNNOTED = 1000
"""Deliveries after which a note does not wait any longer."""

BEGIN_AGAIN = 1.0
"""Real seconds before a worker that failed begins again: the journal may be away."""

LAST_SECONDS = 2.0
"""How long a stop waits for the last note."""

_STORE_AGAIN = Backoff(1.0, 30.0)
_RUNNING = (SubscriptionStatus.WAITING, SubscriptionStatus.ACTIVE)

log = structlog.get_logger()


class PushTerms(NamedTuple):
    """Real seconds: before the second try, then twice as long up to the longest; and between two notes."""

    retry_after: float = 10.0
    longest_pause: float = 3600.0
    note_every: float = 5.0


class PushMeasure(NamedTuple):
    """Numbers of one subscription since the start; `lag` in seconds on the service's clock."""

    subscription_id: str
    delivered: int
    failed: int
    waiting: int
    lag: float


class Receivers(Protocol):
    """Gives each subscription its receiver."""

    def receiver(self, known: Subscription) -> Receiver:
        """The receiver of a subscription."""

    async def close(self) -> None:
        """Nothing is asked any more."""


class PushService:
    """`start` where the leader is, `pause` where it is not any more."""

    def __init__(self, engine: Engine, receivers: Receivers, terms: PushTerms = PushTerms()) -> None:  # noqa: B008
        self._engine, self._receivers, self._terms = engine, receivers, terms
        self._random = random.Random()
        self.clock = engine.clock
        self._workers: dict[str, PushWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._open = False
        self._claim, self._claiming = "", asyncio.Lock()
        self._waits, self._unnoted = RepeatedFailure(PUSHES), RepeatedFailure(NOTES)
        self._book, self._position = EventBook(), 0
        self._news, self._many = asyncio.Event(), asyncio.Event()
        self._last: set[asyncio.Future[None]] = set()
        self._noting: asyncio.Task[None] | None = None
        engine.on_commit.append(self._look)
        engine.on_recover.append(self._find_place)

    def start(self) -> None:
        """Go on where the last process was, or where the journal is by now."""
        self.pause()
        self._open, self._claim = True, ""
        self._find_place()
        for known in self._engine.state.subscriptions.values():
            self._begin(known)

    def pause(self) -> None:
        """Deliver nothing until it is started again: another node leads."""
        self._open = False
        for subscription_id in list(self._tasks):
            self._end(subscription_id)
        if self._noting is not None:
            self._noting.cancel()
            self._noting = None

    async def stop(self) -> None:
        """Write down what was delivered, and end."""
        tasks = [*self._tasks.values(), *filter(None, [self._noting])]
        self.pause()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._last:
            await asyncio.wait(self._last, timeout=LAST_SECONDS)
        await self._receivers.close()

    async def flush(self) -> None:
        """Write down now what was delivered."""
        await self._note(self._workers)

    def measures(self) -> list[PushMeasure]:
        """Of each subscription that is delivered to here."""
        at = self._engine.clock.now().at
        return [
            PushMeasure(
                subscription_id,
                worker.delivered,
                worker.failed,
                worker.outbox.waiting,
                max(0.0, (at - (worker.outbox.oldest or at)).total_seconds()),
            )
            for subscription_id, worker in self._workers.items()
        ]

    # What workers need

    @property
    def site(self) -> Site:
        """Where the fleet is."""
        return self._engine.state.fleet.site

    @property
    def shown(self) -> int:
        """The position up to which VMs may see what has happened."""
        return self._position

    async def records(self, after: int, limit: int) -> "Sequence[t.Record | int]":
        """Records of the journal; of those that say nothing about events only the position."""
        return await self._engine.history_as(after, limit, slim)

    async def records_of(self, event_id: str, limit: int) -> Sequence[t.Record]:
        """Records about one event."""
        return await self._engine.history_of(event_id, limit)

    @property
    def backoff(self) -> Backoff:
        """Pauses between two tries."""
        return Backoff(self._terms.retry_after, max(self._terms.retry_after, self._terms.longest_pause))

    def jitter(self) -> float:
        """A factor that makes a pause shorter."""
        return self._random.uniform(0.5, 1.0)

    async def report(self, subscription_id: str, status: SubscriptionStatus, reason: str) -> None:
        """Write down what a receiver has said."""
        await self._store(ReportReceiver(self._claim, subscription_id, status, reason))

    def news(self) -> None:
        """Something is to be noted."""
        self._news.set()
        if not self._many.is_set() and sum(each.outbox.unnoted for each in self._workers.values()) >= MOST_UNNOTED:
            self._many.set()

    # What happens

    def _find_place(self) -> None:
        """Begin to listen from what is shown now; workers read what they have missed."""
        self._book, self._position = EventBook(self._engine.state.events), self._engine.state.position
        for worker in self._workers.values():
            worker.hear(self._position + 1, self._position, ())

    def _look(self, records: Sequence[t.Record]) -> None:
        if not self._open:
            return
        if self._engine.state.position < self._position:  # the database has lost its last commits (N14)
            self.start()
        fresh = [record for record in records if record.position > self._position]
        if fresh and fresh[0].position != self._position + 1:
            self._find_place()
            fresh = []
        for record in fresh:
            self._follow(record.transition)
        if fresh:
            self._hand_out(fresh)

    def _hand_out(self, records: Sequence[t.Record]) -> None:
        changes = [change for record in records if (change := self._book.take(record)) is not None]
        self._position = records[-1].position
        for worker in self._workers.values():
            worker.hear(records[0].position, self._position, changes)

    def _follow(self, change: t.Transition) -> None:
        """Begin and end what operators say; the state has it already."""
        match change:
            case t.SubscriptionCreated(known):
                self._begin(self._engine.state.subscriptions.get(known.id, known))
            case t.SubscriptionDeleted(subscription_id):
                self._end(subscription_id)
            case t.SubscriptionReplayed(subscription_id) if subscription_id in self._workers:
                now = self._engine.state.subscriptions.get(subscription_id)
                if now is not None:
                    self._workers[subscription_id].replay(change, now)
            case t.SubscriptionTurned(subscription_id, status):
                self._change_status(subscription_id, status)

    def _change_status(self, subscription_id: str, status: SubscriptionStatus) -> None:
        if status not in _RUNNING:
            self._end(subscription_id)
        elif subscription_id not in self._tasks and subscription_id in self._engine.state.subscriptions:
            self._begin(self._engine.state.subscriptions[subscription_id])

    def _begin(self, known: Subscription) -> None:
        if not self._open or known.id in self._tasks or known.status not in _RUNNING:
            return
        worker = PushWorker(known, self._receivers.receiver(known), self)
        task = asyncio.create_task(self._run(worker, known.id), name="push")
        self._workers[known.id], self._tasks[known.id] = worker, task
        if self._noting is None:
            self._noting = asyncio.create_task(self._keep_noting(), name="push-notes")
            self._noting.add_done_callback(self._engine.lost)

    async def _run(self, worker: PushWorker, subscription_id: str) -> None:
        """Whatever goes wrong with one subscription is its own affair: it begins again from what is noted."""
        try:
            await self._claim_it()
            await worker.run()
            return
        except Refused as refusal:
            log.info("not needed", action="push-refused", error=refusal.message)
            return
        except DuenoticeError as trouble:
            self._waits.failed(trouble)
        except Exception as error:
            log.error("a worker failed", action="push-failed", exc_info=error)
        await asyncio.sleep(BEGIN_AGAIN)
        with suppress(DuenoticeError):
            await self._note({subscription_id: worker})
        self._end(subscription_id)
        if (known := self._engine.state.subscriptions.get(subscription_id)) is not None:
            self._begin(known)

    def _end(self, subscription_id: str) -> None:
        worker, task = self._workers.pop(subscription_id, None), self._tasks.pop(subscription_id, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        if worker is not None and (note := worker.outbox.take_note()) is not None:
            last = asyncio.ensure_future(self._write((note,)))
            self._last.add(last)
            last.add_done_callback(self._written)

    def _written(self, done: "asyncio.Future[None]") -> None:
        self._last.discard(done)
        if not done.cancelled():
            done.exception()  # then it is delivered again

    # What is written down

    async def _claim_it(self) -> None:
        """From now on only our notes count."""
        async with self._claiming:
            if not self._claim:
                claim = str(uuid4())
                await self._engine.submit(ClaimPushes(claim), SELF)
                self._claim = claim
        self._waits.worked()

    async def _store(self, command: Command) -> None:
        """Until it is stored."""
        for pause in _STORE_AGAIN.pauses():
            try:
                await self._engine.submit(command, ACTOR)
                return
            except Unavailable:
                await asyncio.sleep(pause)

    async def _keep_noting(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._note(self._workers)
            except Refused as refusal:
                log.info("another node delivers", action="push-refused", error=refusal.message)
                self._noting = None
                self.pause()
                return
            except DuenoticeError as trouble:
                self._unnoted.failed(trouble)
                self._news.set()
            else:
                self._unnoted.worked()
            await self._pause_between_notes()

    async def _pause_between_notes(self) -> None:
        self._many.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._terms.note_every):
                await self._many.wait()

    async def _note(self, workers: dict[str, PushWorker]) -> None:
        taken = {key: note for key, worker in workers.items() if (note := worker.outbox.take_note()) is not None}
        if not taken:
            return
        try:
            await self._write(tuple(taken.values()))
        except BaseException:
            for key, note in taken.items():
                workers[key].outbox.put_back(note)
            raise

    async def _write(self, notes: tuple[PushNote, ...]) -> None:
        await self._engine.submit(NotePushes(self._claim, notes), ACTOR)
