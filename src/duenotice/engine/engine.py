"""The one writer: takes waiting commands as a batch, decides each, commits all, then publishes and answers.

A command is answered only when what came of it is durable (S5). If the commit fails, memory is thrown away
and folded again from the journal, so that it is never ahead of the truth for longer than one attempt (S6).
An event is shown only when it is durable with all of its notice still to come, however slow the disk was (S2).
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple, TypeVar

import structlog
from msgspec import structs

from duenotice.clock import Clock, Instant, ScaledClock
from duenotice.domain.apply import fold
from duenotice.domain.commands import Command, MarkClock, PostponeEvents
from duenotice.domain.decide import decide
from duenotice.domain.due import happenings
from duenotice.domain.policy import Policy
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from duenotice.domain.transitions import EventRaised, Record, RequestAnswered, Transition
from duenotice.engine.ports import Journal
from duenotice.engine.publisher import Publisher
from duenotice.errors import Conflict, Damaged, DuenoticeError, InvariantBroken, Unavailable

T = TypeVar("T")
Records = tuple[Record, ...]

SELF = "duenotice"
"""The actor of what time brings about."""

BATCH = 1000
"""Commands decided per commit; enough to share one fsync, few enough that readers are not kept waiting."""

SNAPSHOT_EVERY = 50_000
"""Records after which a new snapshot is worth its pause."""

log = structlog.get_logger()


class Receipt(NamedTuple):
    """What is to be remembered of a command, in one commit with what comes of it; `key` is "" when it has none.

    `write` is called when the command and all that is due are applied, and sees that state. It may answer None.
    """

    key: str
    write: Callable[[State, Records, Instant], RequestAnswered | None]


class _Ask(NamedTuple):
    command: Command
    actor: str
    answer: "asyncio.Future[Records]"
    receipt: Receipt | None = None


def load(journal: Journal) -> State:
    """The state that a journal adds up to."""
    snapshot = journal.snapshot()
    state = State() if snapshot is None else restore(snapshot)
    for record in journal.read(after=state.position):
        fold(state, record)
    return state


class Engine:
    """Submit commands here; read through `publisher`."""

    def __init__(self, journal: Journal, clock: Clock, policy: Policy, state: State, publisher: Publisher) -> None:
        self.clock = clock
        self.policy = policy
        self.publisher = publisher
        self.state = state
        self.changed = asyncio.Event()
        self.on_commit: list[Callable[[Sequence[Record]], None]] = []
        self.on_recover: list[Callable[[], None]] = []
        self._journal = journal
        self._asks: list[_Ask] = []
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal") if journal.blocking else None
        self._snapshot_at = state.position
        self._unseen = list(journal.read(after=journal.seen))
        self._task: asyncio.Task[None] | None = None
        self._broken: DuenoticeError | None = None
        self.failed: asyncio.Future[DuenoticeError] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        """Begin to take commands; everything loaded is durable and may be seen."""
        self.publisher.open(self.state, self.clock.now().steady)
        self._task = asyncio.create_task(self._run(), name="engine")

    def submit(self, command: Command, actor: str, receipt: Receipt | None = None) -> "asyncio.Future[Records]":
        """What came of a command, once that is durable; or why not."""
        answer: asyncio.Future[Records] = asyncio.get_running_loop().create_future()
        if self._broken is not None:
            answer.set_exception(Unavailable(f"The service has stopped: {self._broken}", hint=self._broken.hint))
            return answer
        self._asks.append(_Ask(command, actor, answer, receipt))
        self._wake.set()
        return answer

    async def history(self, after: int, limit: int) -> list[Record]:
        """The records behind a position, oldest first, as the journal has them."""
        return await self._off_loop(lambda: list(self._journal.read(after, limit)))

    async def history_of(self, prefix: str, limit: int) -> list[Record]:
        """The first records about events whose id begins so, also of those that are gone."""
        while await self._off_loop(self._journal.index):
            pass
        return await self._off_loop(lambda: self._journal.find(prefix, limit))

    @property
    def remembers_from(self) -> int:
        """The position of the oldest record that history has."""
        return self._journal.first_position()

    async def answered(self, key: str) -> RequestAnswered | None:
        """What a request with this key was answered, if it was and that is not too long ago (S6)."""
        if not self._knows(key, self.clock.now()):
            return None
        position = self.state.requests[key].position
        found = [record.transition for record in await self.history(position - 1, 1)]
        if not (found and isinstance(found[0], RequestAnswered) and found[0].key == key):
            raise Unavailable("This request has only just been decided.", hint="Send it again in a moment.")
        return found[0]

    def set_speed(self, clock: ScaledClock, speed: float) -> None:
        """Another pace of our clock: what a commit may take grows with it, and who sleeps looks again."""
        clock.set_speed(speed)
        self.policy = structs.replace(self.policy, commit_allowance=speed)  # one real second
        self.changed.set()

    def lost(self, task: "asyncio.Task[None]") -> None:
        """A part of the service has ended that should not; without it nothing may be promised any more."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._give_up(InvariantBroken(f"{task.get_name()} has ended: {error!r}.", hint="Please report this."))

    @property
    def behind(self) -> bool:
        """Whether something is stored that could not be shown yet; a tick tries again."""
        return bool(self._unseen)

    @property
    def broken(self) -> DuenoticeError | None:
        """Why nothing is promised any more, if so."""
        return self._broken

    async def stop(self) -> None:
        """Answer what is waiting, write down the clock and a snapshot, and let the journal go."""
        try:
            if self._broken is None:
                await self.submit(MarkClock(self.clock.mark()), SELF)
                await self._save_snapshot()
        except DuenoticeError as error:
            _report("error", "no snapshot left", action="snapshot-failed", error=error.message, hint=error.hint)
        finally:
            self._refuse_all(Unavailable("it was stopped", hint="Start it again."))
            await self._close()

    async def _close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._off_loop(self._journal.close)
        if self._thread is not None:
            self._thread.shutdown()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._asks:
                batch, self._asks = self._asks[:BATCH], self._asks[BATCH:]
                await self._serve(batch)
            if self._broken is None:
                await self._look_after_journal()

    async def _serve(self, batch: list[_Ask]) -> None:
        try:
            await self._decide_and_commit(batch)
        except Exception as error:
            # A fault of ours: memory may be half changed and must not be built upon.
            broken = InvariantBroken(f"A rule failed: {error!r}.", hint="Please report this; restart to go on.")
            for ask in batch:
                _answer(ask.answer, broken)
            self._give_up(broken)
            _report("error", "a rule failed", action="invariant-broken", exc_info=error)

    async def _decide_and_commit(self, batch: list[_Ask]) -> None:
        now = self.clock.now()
        records: list[Record] = []
        self._take(self._postponed(now), SELF, now, records)
        answers = [(ask, self._attempt(ask, now, records)) for ask in batch]
        self._do_what_is_due(now, records)
        failure = await self._commit(records)
        for ask, outcome in answers:
            _answer(ask.answer, failure or outcome)

    def _attempt(self, ask: _Ask, now: Instant, records: list[Record]) -> Records | DuenoticeError:
        """Decide and apply one command; a refusal is its answer and has no effect (S6)."""
        begin = len(records)
        if ask.receipt is not None and self._knows(ask.receipt.key, now):
            return Conflict("This request was done already.", hint="Send it again with its key for the answer.")
        try:
            transitions = decide(self.state, ask.command, now, self.policy)
        except DuenoticeError as refusal:
            return refusal
        except Exception as error:
            # A fault of ours, but decide has changed nothing: only this command fails.
            _report("error", "a rule failed", action="rule-failed", command=repr(ask.command)[:500], exc_info=error)
            return InvariantBroken(f"A rule failed: {error!r}.", hint="Please report this.")
        self._take(transitions, ask.actor, now, records)
        outcome = tuple(records[begin:])
        if ask.receipt is not None:
            self._do_what_is_due(now, records)
            self._take_receipt(ask.receipt, outcome, ask.actor, now, records)
        return outcome

    def _take_receipt(
        self, receipt: Receipt, outcome: Records, actor: str, now: Instant, records: list[Record]
    ) -> None:
        try:
            written = receipt.write(self.state, outcome, now)
        except Exception as error:
            # A fault of ours, but only the answer is lost: what was asked for is done.
            _report("error", "no answer could be made", action="answer-failed", exc_info=error)
            return
        if written is not None:
            self._take([written], actor, now, records)

    def _knows(self, key: str, now: Instant) -> bool:
        known = self.state.requests.get(key)
        return known is not None and known.until > now.at

    def _do_what_is_due(self, now: Instant, records: list[Record]) -> None:
        for transitions in happenings(self.state, now, self.policy):
            self._take(transitions, SELF, now, records)

    def _take(self, transitions: list[Transition], actor: str, now: Instant, records: list[Record]) -> None:
        for transition in transitions:
            record = Record(self.state.position + 1, now.at, actor, transition)
            fold(self.state, record)
            records.append(record)

    def _postponed(self, now: Instant, spare: float = 0.0) -> list[Transition]:
        """What nobody has seen yet gets its notice from now on, if too little is left of it (S2)."""
        raised = tuple(r.transition.event.id for r in self._unseen if isinstance(r.transition, EventRaised))
        command = PostponeEvents(raised, max(spare, self.policy.commit_allowance))
        return decide(self.state, command, now, self.policy)

    async def _commit(self, records: list[Record]) -> DuenoticeError | None:
        """Make the records durable, then let them be seen; on failure nothing of them remains."""
        try:
            await self._append(records)
            await self._show(self.clock.now())
        except DuenoticeError as error:
            await self._recover(error)
            retry_after = error.retry_after if isinstance(error, Unavailable) else 1.0
            return Unavailable(
                f"The change could not be stored: {error.message}", hint=error.hint, retry_after=retry_after
            )
        return None

    async def _append(self, records: list[Record]) -> None:
        if records:
            await self._off_loop(lambda: self._journal.append(records))
            self._unseen += records

    async def _show(self, now: Instant) -> None:
        """Let what is durable be seen, after giving back the notice that a slow commit has cost (S2)."""
        took = 0.0
        while late := self._postponed(now, 2 * took):  # more room each time, so that it comes to an end
            records: list[Record] = []
            self._take(late, SELF, now, records)
            await self._append(records)
            before, now = now, self.clock.now()
            took = now.steady - before.steady
        records, self._unseen = self._unseen, []
        if records:
            self.publisher.publish(self.state, records, now.steady)
            self._journal.note_seen(records[-1].position)
            self._tell(records)
            self.changed.set()

    def _tell(self, records: list[Record]) -> None:
        """Tell those who only listen; what goes wrong with them, a full log disk say, is not the engine's end."""
        for listener in self.on_commit:
            with suppress(Exception):
                listener(records)

    async def _recover(self, error: DuenoticeError) -> None:
        """Fold again from what the journal really holds; without that nothing may be promised any more."""
        _report("error", "commit failed", action="commit-failed", error=error.message, hint=error.hint)
        try:
            self.state = await self._off_loop(lambda: load(self._journal))
            self._unseen = await self._off_loop(lambda: list(self._journal.read(after=self._journal.seen)))
        except (Damaged, InvariantBroken, Unavailable) as worse:
            self._give_up(worse)
            return
        now = self.clock.now()
        if not self._postponed(now):  # else a tick has to store that first
            await self._show(now)
        for listener in self.on_recover:  # a commit that seemed to fail may be in the journal after all
            with suppress(Exception):
                listener()
        self.changed.set()

    def _give_up(self, error: DuenoticeError) -> None:
        """Promise nothing any more: readers keep what was durable, writers are told, the process ends."""
        self._refuse_all(error)
        if not self.failed.done():
            self.failed.set_result(error)
        _report("critical", "engine stopped", action="engine-stopped", error=error.message, hint=error.hint)

    def _refuse_all(self, error: DuenoticeError) -> None:
        self._broken = self._broken or error
        waiting, self._asks = self._asks, []
        for ask in waiting:
            _answer(ask.answer, error)

    async def _look_after_journal(self) -> None:
        """Snapshots and the journal's own upkeep, when no command is waiting."""
        try:
            if self.state.position - self._snapshot_at >= SNAPSHOT_EVERY:
                await self._save_snapshot()
            if self._journal.needs_upkeep():
                await self._off_loop(self._journal.maintain)
        except Exception as error:
            # Not worth stopping for: every record is safe, only the next start or the disk pays for it.
            _report("warning", "upkeep put off", action="upkeep-failed", error=str(error))

    async def _save_snapshot(self) -> None:
        snapshot = take(self.state)  # here, where nothing changes it meanwhile
        self._snapshot_at = snapshot.position
        await self._off_loop(lambda: self._journal.save_snapshot(snapshot))

    async def _off_loop(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _report(level: str, message: str, **details: object) -> None:
    """Log; when even that fails, a full disk say, the engine goes on all the same."""
    with suppress(Exception):
        getattr(log, level)(message, **details)


def _answer(answer: "asyncio.Future[Records]", outcome: Records | DuenoticeError) -> None:
    if answer.done():
        return
    if isinstance(outcome, DuenoticeError):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
