"""The one way in for changes: gathers commands in batches, has them decided and stored off the loop, then publishes.

A command is answered only when its result is durable (S5) and shown. The loop that answers polls does nothing
here that grows with a batch: deciding, folding and storing are the work of `Writer`, in a thread of its own (S26).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from msgspec import structs

from duenotice.clock import MICROS, Clock, ScaledClock, micros, seconds_since_2020
from duenotice.domain.apply import fold
from duenotice.domain.commands import Command, LiftIncarnations, MarkClock, Tick
from duenotice.domain.policy import Policy
from duenotice.domain.records import Record, RequestAnswered
from duenotice.domain.snapshot import Snapshot, restore
from duenotice.domain.state import State, answered_before
from duenotice.engine.followers import Below, Nobody
from duenotice.engine.log import UPKEEP, RepeatedFailure, report
from duenotice.engine.ports import Journal
from duenotice.engine.publisher import Publisher
from duenotice.engine.threads import WorkerThread, free_in_steps, run_in
from duenotice.engine.waiting import SpentCommands, WaitingCommand
from duenotice.engine.writer import SELF, Ask, News, Outcome, Receipt, Records, Writer
from duenotice.errors import DuenoticeError, InvariantBroken, Unavailable

__all__ = ["SELF", "Engine", "Receipt", "Records", "load"]

T = TypeVar("T")

BATCH = 1000
"""Commands decided per commit; enough to share one fsync."""

SNAPSHOT_EVERY = 50_000
"""Number of records after which a new snapshot is taken."""

_TOLD_AT_ONCE = 200
"""Records that listeners hear of in one turn of the loop."""

MOST_LOOKS = 64
"""Looks under way and waiting; more would only pile up."""

MOST_FORESIGHTS = 8
"""Previews under way and waiting."""

MOST_SPARE = 3600 * MICROS
"""Notice that is added at the most to what was late to be seen."""

_LONG_LAG = 1000
"""With this many records to catch up with, the writer does it at once and does not wait for the next command."""


def load(journal: Journal) -> State:
    """The state that results from all records of a journal."""
    snapshot = journal.snapshot()
    state = State() if snapshot is None else restore(snapshot)
    for record in journal.read(after=state.position):
        fold(state, record)
    return state


def more_spare(spare: int) -> int:
    """The time that is allowed next, until something is seen, when this was not enough."""
    return min(max(MICROS, 2 * spare), MOST_SPARE)


class Engine:
    """Submit commands here; read through `publisher`. `threaded` None: if the journal may wait for a disk.

    It always leads; one of many nodes has its own answers (`node_engine`). `on_lead` and `on_follow` are for what runs
    only where the leader is.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        policy: Policy,
        state: State,
        publisher: Publisher,
        threaded: bool | None = None,
    ) -> None:
        self.clock, self.publisher = clock, publisher
        self.changed = asyncio.Event()
        self.trouble: Unavailable | None = None
        """Why nothing can be stored, if the files of the journal were taken away."""
        self.below: Below = Nobody()
        self.on_commit: list[Callable[[Sequence[Record]], None]] = []
        self.on_recover: list[Callable[[], None]] = []
        self.on_lead: list[Callable[[], None]] = []
        self.on_follow: list[Callable[[], None]] = []
        self._journal, self._writer = journal, Writer(journal, clock, policy, state)
        self._commit_failures, self._upkeep_failures = RepeatedFailure(), RepeatedFailure(UPKEEP)
        self._asks = list[WaitingCommand]()
        self._wake, self._is_serving = asyncio.Event(), False
        threads = journal.blocking if threaded is None else threaded
        self._writing = WorkerThread("writer") if threads else None
        self._reading = WorkerThread("history") if threads else None
        self._looking = WorkerThread("look", threads=2) if threads else None
        self._spent = SpentCommands(self.free) if threads else None
        self._foreseeing = WorkerThread("foresight") if threads else None
        self._looks, self._foresights, self._snapshot_at = 0, 0, state.position
        self._task: asyncio.Task[None] | None = None
        self._broken: DuenoticeError | None = None
        self._kept: dict[type, Any] = {}
        self.failed: asyncio.Future[DuenoticeError] = asyncio.get_running_loop().create_future()
        publisher.open(state, clock.now().steady)

    def kept_once(self, kind: type[T], make: Callable[[], T]) -> T:
        """The only one of its kind beside this engine. All who ask share it, and it ends with the engine."""
        if kind not in self._kept:
            self._kept[kind] = make()
        kept: T = self._kept[kind]
        return kept

    @property
    def state(self) -> State:
        """What is durable; nobody outside sees anything else."""
        return self.publisher.state

    @property
    def policy(self) -> Policy:
        """The settings that rules depend on."""
        return self._writer.policy

    @property
    def leads(self) -> bool:
        """Whether commands are decided here."""
        return True

    def may_answer(self) -> bool:
        """Whether VMs may be answered in this moment (N05)."""
        return True

    def keep_time(self) -> int:
        """To be called a few times a second: time counts while VMs can be answered (S25). Tells what did not count."""
        return self.clock.beat()

    def lifting(self) -> LiftIncarnations:
        """What to ask for when the journal is an older copy (S3)."""
        return LiftIncarnations(seconds_since_2020())

    def hand_over(self) -> None:
        """The process is about to end (N07)."""

    def start(self) -> None:
        """Begin to take commands."""
        self._task = asyncio.create_task(self._run(), name="engine")

    def submit(self, command: Command, actor: str, receipt: Receipt | None = None) -> "asyncio.Future[Records]":
        """The result of a command, once it is durable; or an error."""
        answer: asyncio.Future[Records] = asyncio.get_running_loop().create_future()
        if self._broken is not None:
            answer.set_exception(Unavailable(f"The service has stopped: {self._broken}", hint=self._broken.hint))
            return answer
        self._asks.append(WaitingCommand(Ask(command, actor, receipt), answer))
        self._wake.set()
        return answer

    async def history(self, after: int, limit: int) -> list[Record]:
        """The records behind a position, oldest first, as the journal has them."""
        return await run_in(self._reading, lambda: list(self._journal.read(after, limit)))

    async def history_as(self, after: int, limit: int, convert: Callable[[Record], T]) -> list[T]:
        """The same records, each made into something smaller before the next is read: a large one is not kept."""
        return await run_in(self._reading, lambda: [convert(each) for each in self._journal.read(after, limit)])

    async def history_of(self, prefix: str, limit: int) -> list[Record]:
        """The first records about events whose id begins like this, also of those that are gone."""
        while await run_in(self._reading, self._journal.index):
            pass
        return await run_in(self._reading, lambda: self._journal.find(prefix, limit))

    async def snapshot(self) -> Snapshot:
        """The newest state as a value. It may be ahead of what is shown."""
        return await self._off_loop(self._writer.snapshot)

    async def look(self, work: Callable[[State], T]) -> T:
        """What a look at the whole durable state finds; it runs off the loop, on a copy that nobody changes (S26)."""
        if self._looks >= MOST_LOOKS:
            raise Unavailable("Too many large questions are asked at once.", hint="Try again in a moment.")
        frozen = [self.publisher.freeze()]
        try:
            return await self.aside(lambda: work(frozen[0]))
        finally:
            self.free(frozen)

    async def foresee(self, work: Callable[[State], T]) -> T:
        """The same for what may take seconds: one at a time, so that other looks do not wait for it."""
        if self._foresights >= MOST_FORESIGHTS:
            raise Unavailable("Too many previews are asked for at once.", hint="Try again in a moment.")
        frozen = [self.publisher.freeze()]
        self._foresights += 1
        try:
            return await run_in(self._foreseeing, lambda: work(frozen[0]))
        finally:
            self._foresights -= 1
            self.free(frozen)

    async def aside(self, work: Callable[[], T]) -> T:
        """The result of work off the loop; it may only use what never changes. Never refused: it may be an answer."""
        self._looks += 1
        try:
            return await run_in(self._looking, work)
        finally:
            self._looks -= 1

    def free(self, things: list[Any]) -> None:
        """Let go of things off the loop: it takes a while to give a million objects back."""
        if self._looking is not None:
            with suppress(RuntimeError):  # the engine is being stopped, and nobody waits
                self._looking.do(lambda: free_in_steps(things))

    @property
    def remembers_from(self) -> int:
        """The position of the oldest record that history has."""
        return self._journal.first_position()

    async def answered(self, key: str) -> RequestAnswered | None:
        """What a request with this key was answered, if it was and that is not too long ago (S6)."""
        # It may be about to be stored, or stored and not shown yet: what is asked behind it is answered after it.
        if self._is_serving or self._writer.behind:
            await self.submit(Tick(), SELF)
        kept = answered_before(self.state.idempotency, key, self.clock.now())
        if kept is None:
            return None
        (record,) = await self.history(kept.position - 1, 1)
        assert isinstance(record.transition, RequestAnswered)
        return record.transition

    def set_speed(self, clock: ScaledClock, speed: float) -> None:
        """The clock has another speed: the time allowed for a commit grows with it, and the ticker looks again."""
        clock.set_speed(speed)
        self._writer.policy = structs.replace(self.policy, commit_allowance=micros(speed))  # one real second
        self.changed.set()

    def lost(self, task: "asyncio.Task[None]") -> None:
        """A part of the service has ended by mistake; without it no promise can be kept."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.give_up(InvariantBroken(f"{task.get_name()} has ended: {error!r}.", hint="Please report this."))

    @property
    def is_busy(self) -> bool:
        """Whether something is under way that may have made very many things."""
        return self._is_serving or self._looks + self._foresights > 0

    @property
    def behind(self) -> bool:
        """Whether something is stored that could not be shown yet, or more is due than was done; a tick goes on."""
        return self._writer.behind or self._writer.unfinished

    @property
    def broken(self) -> DuenoticeError | None:
        """Why the engine has stopped, if it has."""
        return self._broken

    async def stop(self) -> None:
        """Answer what is waiting, store the clock and a snapshot, and close the journal."""
        try:
            if self._broken is None:
                await self._leave_snapshot()
        finally:
            self._refuse_all(Unavailable("it was stopped", hint="Start it again."))
            await self._close()

    async def _leave_snapshot(self) -> None:
        try:
            await self.submit(MarkClock(self.clock.mark()), SELF)
            await self._save_snapshot()
        except DuenoticeError as error:
            report("error", "no snapshot left", action="snapshot-failed", error=error.message, hint=error.hint)

    async def _close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for thread in (self._foreseeing, self._looking, self._reading):
            if thread is not None:
                # Only history uses the journal that is closed next; a long look may end by itself.
                thread.shutdown(wait=thread is self._reading, cancel=True)
        await self._off_loop(self._journal.close)
        if self._writing is not None:
            self._writing.shutdown()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._asks:
                batch, self._asks = self._asks[:BATCH], self._asks[BATCH:]
                self._is_serving = True
                await self._serve(batch)
                self._is_serving = False
                if self._spent is not None:
                    self._spent.add(batch)
            if self._broken is None:
                await self._look_after_journal()

    async def _serve(self, batch: list[WaitingCommand]) -> None:
        asks = [waiting.ask for waiting in batch]
        try:
            outcome = await self._in_time(await self._off_loop(lambda: self._writer.serve(asks)))
            await self._make_known(outcome)
        except Exception as error:
            # A bug that is not about one command: the state in memory cannot be trusted.
            broken = InvariantBroken(f"The engine failed: {error!r}.", hint="Please report this; restart to go on.")
            report("error", "the engine failed", action="engine-failed", exc_info=error)
            self.give_up(broken)
            outcome = Outcome([broken] * len(batch), None)
        for waiting, came_of_it in zip(batch, outcome.answers, strict=True):
            self._conclude(waiting, came_of_it)

    def _conclude(self, waiting: WaitingCommand, came_of_it: Records | DuenoticeError) -> None:
        waiting.end(came_of_it)

    async def _in_time(self, outcome: Outcome, spare: int = 0) -> Outcome:
        """What may be shown, as nobody shows anything older (N06). If that was slow, notice is made longer (S2).

        It is held when all have applied it, and in time: while it is held, VMs are not answered (N19). `spare` is the
        time that was allowed until it is seen, and not enough.
        """
        spare = spare or self.policy.commit_allowance
        while outcome.news is not None:
            await self._apply_below(outcome.news)
            if not self._is_late(outcome.news):
                await self._hold_below(outcome.news)
                if not self._is_late(outcome.news):
                    break
            if not self._decides:
                break  # the node that leads now makes its notice longer
            spare = more_spare(spare)
            outcome = await self._off_loop(
                partial(self._writer.make_ready, outcome.answers, spare, self._showing_takes)
            )
        return outcome

    async def _apply_below(self, news: News) -> None:
        await self.below.apply(news)

    async def _hold_below(self, news: News) -> None:
        await self.below.hold(news.records[-1].position)

    @property
    def _decides(self) -> bool:
        """Whether what is late is for us to put right."""
        return True

    @property
    def _showing_takes(self) -> int:
        """Microseconds between the last look whether news are in time, and the moment in which VMs see them."""
        return 0

    def _is_late(self, news: News) -> bool:
        return news.until is not None and news.is_late(self.clock.now().after(self._showing_takes))

    async def _make_known(self, outcome: Outcome) -> None:
        if outcome.failure is not None:
            self._commit_failures.failed(outcome.failure)
        elif outcome.news is not None:
            self._commit_failures.worked()
        if outcome.lost is not None:
            self.give_up(outcome.lost)
            return
        if outcome.news is not None:
            await self._show(outcome.news)
        if outcome.failure is not None:
            for listener in self.on_recover:  # a commit that seemed to fail may be in the journal after all
                with suppress(Exception):
                    listener()
            self.changed.set()

    async def _show(self, news: News) -> None:
        self.publisher.publish(news.state, news.touched, self.clock.now().steady)
        self.below.show(news.records[-1].position)
        self._writer.showed(news)
        self._note_seen(news.records[-1].position)
        await self._tell(news.records)
        # A moment later: who asked is answered before the ticker looks what is due.
        asyncio.get_running_loop().call_soon(self.changed.set)
        if self._writer.lags > _LONG_LAG:
            await self._off_loop(self._writer.catch_up)
        if self._spent is not None:
            self._spent.keep(news)  # last of all: then a thread gives it back, and not the loop

    def opened(self) -> None:
        """From now on VMs can read what is shown."""
        self._note_seen(self._writer.seen)

    def _note_seen(self, position: int) -> None:
        """Not before VMs can read it (S27).

        A start may fail before that. The next one waits for followers that still show what was before, but only if
        something is left that nobody has seen.
        """
        if self.below.is_open:
            self._journal.note_seen(position)

    async def _tell(self, records: Records) -> None:
        """Tell those who only listen; an error in a listener does not stop the engine."""
        for begin in range(0, len(records), _TOLD_AT_ONCE):
            if begin:
                await asyncio.sleep(0)
            some = records[begin : begin + _TOLD_AT_ONCE]
            for listener in self.on_commit:
                try:  # noqa: SIM105 - who asked waits meanwhile, and `suppress` takes ten times as long
                    listener(some)
                except Exception:
                    pass

    def give_up(self, error: DuenoticeError) -> None:
        """Stop: readers keep what was durable, writers get an error, the process ends."""
        self._refuse_all(error)
        if not self.failed.done():
            self.failed.set_result(error)
        report("critical", "engine stopped", action="engine-stopped", error=error.message, hint=error.hint)

    def _refuse_all(self, error: DuenoticeError) -> None:
        self._broken = self._broken or error
        waiting, self._asks = self._asks, []
        for one in waiting:
            one.end(error)

    async def _look_after_journal(self) -> None:
        """Snapshots and the journal's own upkeep, when no command is waiting."""
        try:
            if self.state.position - self._snapshot_at >= SNAPSHOT_EVERY:
                await self._save_snapshot()
            if self._journal.needs_upkeep():
                await self._off_loop(self._journal.maintain)
        except Exception as error:
            # Not a reason to stop: every record is safe; only the next start is slower or the disk fuller.
            self._upkeep_failures.failed(error)
        else:
            self._upkeep_failures.worked()

    async def _save_snapshot(self) -> None:
        self._snapshot_at = self.state.position
        await self._off_loop(self._writer.save_snapshot)

    def _off_loop(self, work: Callable[[], T]) -> Awaitable[T]:
        return run_in(self._writing, work)
