"""The engine of one of many nodes: it writes only while it leads, and follows the shared journal otherwise (N01-N10).

It is the same engine with the same writer and publisher. Before anything is shown, every member has hidden what is
older (`curtain`). What another node has written comes in through `read`, and is shown when the leader says so. A
command that comes while another node leads is passed on to that node.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from duenotice.clock import Instant, boot_micros
from duenotice.domain.commands import Tick
from duenotice.domain.enablement import SILENCE
from duenotice.domain.policy import Policy
from duenotice.domain.state import State
from duenotice.engine import membership as m
from duenotice.engine.curtain import Curtain
from duenotice.engine.engine import SELF, Engine, _answer, _Waiting
from duenotice.engine.fenced_journal import FencedJournal
from duenotice.engine.last_polls import LastPolls
from duenotice.engine.log import report
from duenotice.engine.members import Member, Members
from duenotice.engine.membership import Terms
from duenotice.engine.publisher import Publisher
from duenotice.engine.seat import Identity, Seat
from duenotice.engine.shared_time import SharedClock
from duenotice.engine.writer import Ask, News, Outcome, Records
from duenotice.errors import DuenoticeError, InvariantBroken, Unavailable

PassOn = Callable[[Member, Ask], Awaitable[Records]]
"""Has a command done by the node that leads; the answer is there when it is durable and shown (N09)."""

PATIENCE = 1.0
"""Real seconds that a command waits for a leader, and for this node to show what the leader has done."""

_NOBODY = "No node leads right now."


class NodeEngine(Engine):
    """An engine with a seat among the members; `on_lead` and `on_follow` are for what runs only where the leader is."""

    def __init__(
        self,
        journal: FencedJournal,
        clock: SharedClock,
        policy: Policy,
        state: State,
        publisher: Publisher,
        members: Members,
        identity: Identity,
        pass_on: PassOn,
        terms: Terms = Terms(),  # noqa: B008
        now: Callable[[], int] = boot_micros,
    ) -> None:
        super().__init__(journal, clock, policy, state, publisher)
        self.curtain = Curtain()
        self._fenced, self._shared_clock, self._pass_on = journal, clock, pass_on
        self._leading = False
        self._allowed = 0
        self._to_show: News | None = None
        self._trouble = ""
        self._turn = asyncio.Lock()
        self._stirred = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_polls = LastPolls(publisher, clock.now().steady)
        self.seat = Seat(members, identity, self, terms, now)
        loop = asyncio.get_running_loop()
        journal.on_deposed = lambda: _ignore(loop.call_soon_threadsafe(self.seat.tell, m.WasDeposed()))

    @property
    def leads(self) -> bool:
        """Whether commands are decided here."""
        return self._leading

    def may_answer(self) -> bool:
        """Whether VMs may be answered in this moment (N05)."""
        return self.seat.may_answer()

    def keep_time(self) -> int:
        """To be called a few times a second: time counts while VMs can be answered (S25). Tells what did not count."""
        if not self.may_answer():
            return 0
        self.clock.run()
        return self.clock.beat()

    def hand_over(self) -> None:
        """The process is about to end: another node leads at once, while this one still answers (N07)."""
        self.seat.tell(m.Stop())

    async def stop(self) -> None:
        """The doors are closed: leave; what waits is answered."""
        self.hand_over()
        self._refuse_all(Unavailable("it was stopped", hint="Start it again."))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.seat.leave()
        await self._close()

    # --- commands ---

    async def _serve(self, batch: list[_Waiting]) -> None:
        async with self._turn:
            if self._leading:
                await super()._serve(batch)
                return
        for waiting in batch:
            self._begin(self._have_done(waiting))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _have_done(self, waiting: _Waiting) -> None:
        """Pass a command on to the leader, and answer when VMs can see its result here (N09)."""
        try:
            leader = await self.leader()
            if leader is None:
                self._asks.append(waiting)
                self._wake.set()
                return
            records = await self._pass_on(leader, waiting.ask)
            await self.reach(records[-1].position if records else 0)
            _answer(waiting.answer, records)
        except DuenoticeError as error:
            _answer(waiting.answer, error)
        except asyncio.CancelledError:
            _answer(waiting.answer, Unavailable("The node was stopped.", hint="Ask another node."))
            raise

    async def leader(self) -> Member | None:
        """The node that leads, as soon as there is one; None: we do ourselves by now."""
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._leader()
        except TimeoutError:
            raise Unavailable(_NOBODY, hint="Try again in some seconds.") from None

    async def joined(self) -> None:
        """Wait until this node may answer, and knows who leads; raises what the store has refused."""
        while not self.may_answer():
            if self._broken is not None:
                raise self._broken
            await self._stir()
        await self.leader()

    async def reach(self, position: int) -> None:
        """Wait until VMs can see all up to here at this node too; not for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while self.state.position < position:
                    await self._stir()

    async def caught_up(self) -> None:
        """Wait until all that this node has read is shown: others may show it already. Not for ever."""
        await self.reach(self.seat.standing.folded)

    async def _leader(self) -> Member | None:
        while not self._leading:
            leader = self.seat.leader
            if leader is not None and leader.life != self.seat.identity.life:
                return leader
            await self._stir()
        return None

    async def _look_after_journal(self) -> None:
        if self._leading:
            await super()._look_after_journal()

    # --- the curtain ---

    async def _show(self, news: News) -> None:
        """Show it when every member has hidden it. If another node leads by then, it does that; `reveal` shows it."""
        while True:
            position = news.records[-1].position
            self._to_show = news
            self.curtain.hide(news.touched)
            self.seat.tell(m.Wrote(position))
            while self._waits_for(position) and not news.is_late(self.clock.now()):
                await self._stir()
            if not self._waits_for(position):
                break
            later = (await self._in_time(Outcome((), news))).news
            if later is None:
                break
            news = later
        self._to_show = None
        # Not `news`: if more could not be stored, its state has what the journal does not have.
        await self._show_what_is_allowed(await self._off_loop(self._writer.not_shown))

    def _waits_for(self, position: int) -> bool:
        """As long as we lead and reach the store; a node that can reach it then has it shown later."""
        return self._leading and self._allowed < position and self.seat.has_right

    async def _show_what_is_allowed(self, news: News | None) -> None:
        if news is not None and news.records[-1].position <= self._allowed:
            self.curtain.lift()  # in the same step as the showing: held polls are answered in the middle of that
            await super()._show(news)
            self._wake_up()

    async def _stir(self) -> None:
        """Wait until something has changed, or for a moment."""
        stirred = self._stirred
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await stirred.wait()

    def _wake_up(self) -> None:
        self._stirred.set()
        self._stirred = asyncio.Event()

    # --- what its seat asks for ---

    async def read(self, position: int) -> int:
        """Read and fold up to a position, and hide what that touches."""
        async with self._turn:
            return await self._take_in(position)

    async def _take_in(self, position: int | None) -> int:
        news = await self._off_loop(lambda: self._writer.take_in(position))
        if news is not None:
            self.curtain.hide(news.touched)
            await self.below.hide(news)  # a follower is a member through its node
        return self._writer.position

    def allow(self, position: int) -> None:
        """What is folded up to here may be shown."""
        self._allowed = max(self._allowed, position)
        self._wake_up()

    async def reveal(self) -> None:
        """Show what is folded, if all of it is allowed."""
        async with self._turn:
            await self._show_what_is_allowed(await self._off_loop(self._writer.not_shown))

    def is_in_time(self) -> bool:
        """Whether what is to be shown may be shown now (S2); if not, `_show` has its notice made longer."""
        is_late = self._to_show is not None and self._to_show.is_late(self.clock.now())
        if is_late:
            self._wake_up()
        return not is_late

    async def lead(self, epoch: int, steady: int) -> None:
        """Decide from now on, from the end of the journal and not before its last moment (N10)."""
        async with self._turn:
            self._fenced.epoch = epoch
            self.seat.tell(m.Folded(await self._take_in(None)))
            mark = self._writer.state.mark
            last = steady if mark is None else max(steady, mark.steady)
            self._shared_clock.lead(Instant(self._writer.state.at, last))
            self._last_polls.merge(await self.seat.polls(self.time() - SILENCE))
            self._leading = self.seat.leads and self.seat.standing.epoch == epoch
        if self._leading:
            report("info", "this node leads", action="leads", epoch=epoch)
            self._wake_up()
            for begin in self.on_lead:
                begin()
            self.submit(Tick(), SELF).add_done_callback(lambda done: _ignore(done.exception()))

    def follow(self) -> None:
        """Decide no more."""
        if self._leading:
            report("info", "this node does not lead any more", action="follows", epoch=self._fenced.epoch)
            self._leading = False
            for end in self.on_follow:
                end()
        self._wake_up()

    def hear_time(self, steady: int) -> None:
        """Go on from the leader's time."""
        self._shared_clock.follow(steady)

    def time(self) -> int:
        """The steady time here."""
        return self.clock.now().steady

    def gather_polls(self) -> Mapping[str, int]:
        """The last polls here, now and then; the leader hears of those of the others as often (N11)."""
        now = self.time()
        if not self._last_polls.is_due(now):
            return {}
        if self._leading:
            self._begin(self._hear_of_polls())
        return self._last_polls.gather(now)

    async def _hear_of_polls(self) -> None:
        with suppress(DuenoticeError):  # in some minutes again
            self._last_polls.merge(await self.seat.polls(self.time() - SILENCE))

    def worked(self, error: DuenoticeError | None) -> None:
        """Log when the store is away, and when it is back; not each try."""
        trouble = "" if error is None else error.message
        if trouble == self._trouble:
            return
        self._trouble = trouble
        if error is None:
            report("info", "the shared store works again", action="store-works-again")
        else:
            report("warning", "the shared store does not work", action="store-failed", error=trouble, hint=error.hint)

    def end(self, why: str) -> None:
        """This process cannot go on; a new one can."""
        hint = "Start it again; it goes on from what is stored. Each node needs a name of its own."
        self.give_up(InvariantBroken(why, hint=hint))


def _ignore(_: object) -> None:
    return None
