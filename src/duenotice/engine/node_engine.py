"""The engine of one of many nodes: it writes only while it leads, and follows the shared journal otherwise (N01-N10).

It is the same engine with the same writer and publisher. Before anything is shown, every member has applied it (VMs
still see what was before), and then hidden what is older (`curtain`, N19). What another node has written comes in
through `read`, and is shown when the leader says so. What happens to commands while another node leads is in
`passing_on`.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from duenotice.clock import MICROS, Instant, boot_micros
from duenotice.domain.commands import MarkClock, Tick
from duenotice.domain.policy import Policy
from duenotice.domain.rules.decide import SILENCE
from duenotice.domain.state import State
from duenotice.engine import membership as m
from duenotice.engine.curtain import Curtain
from duenotice.engine.engine import SELF, more_spare
from duenotice.engine.fenced_journal import FencedJournal
from duenotice.engine.last_polls import LastPolls
from duenotice.engine.log import report
from duenotice.engine.members import Members
from duenotice.engine.membership import Terms
from duenotice.engine.passing_on import PassingEngine, PassOn
from duenotice.engine.publisher import Publisher
from duenotice.engine.seat import Identity, Seat, StorePart
from duenotice.engine.shared_time import SharedClock
from duenotice.engine.tally import Tally
from duenotice.engine.writer import News, Outcome
from duenotice.errors import DuenoticeError, InvariantBroken, Rewound, Unavailable

MOST_BEHIND = 10.0
"""Seconds that the clocks of two nodes may differ without a word."""


class StoreTrouble(NamedTuple):
    """Why the shared store does not work, and since when, in microseconds since boot."""

    error: DuenoticeError
    since: int


class NodeEngine(PassingEngine):
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
        super().__init__(journal, clock, policy, state, publisher, pass_on)
        self.curtain, self.tally = Curtain(), Tally()
        self._shared_clock = clock
        self._writer.is_read = False
        self._allowed = 0
        self._to_show: News | None = None
        """What we have asked to show, until it is shown: the seat asks again, also long after we gave up waiting."""
        self._store_troubles: dict[StorePart, StoreTrouble] = {}
        self._boot_now = now
        self._unshown: News | None = None
        """What is folded and not shown yet; VMs still see what was before, until it is held."""
        self._last_polls = LastPolls(publisher, clock.now().steady)
        self.seat = Seat(members, identity, self, terms, now)
        loop = asyncio.get_running_loop()
        journal.on_deposed = lambda: _ignore(loop.call_soon_threadsafe(self.seat.tell, m.WasDeposed()))

    def may_answer(self) -> bool:
        """Whether VMs may be answered in this moment (N05)."""
        return self.seat.may_answer()

    def keep_time(self) -> int:
        """To be called a few times a second: time counts while VMs can be answered (S25). Tells what did not count."""
        self._writer.is_read = True  # it is called as long as the doors are open
        if not self.may_answer():
            return 0
        self.clock.run()
        return self.clock.beat()

    def hand_over(self) -> None:
        """The process is about to end: another node leads at once, while this one still answers (N07)."""
        if self.seat.standing.others:
            self.seat.tell(m.Stop())

    async def stop(self) -> None:
        """The doors are closed: leave; what waits is answered. The last node leaves a snapshot first."""
        self.hand_over()
        if self.leads_under() and self._broken is None:
            await self._leave_snapshot()
        self.seat.tell(m.Stop())
        self._refuse_all(Unavailable("it was stopped", hint="Start it again."))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.seat.leave()
        await self._close()

    async def caught_up(self) -> None:
        """Wait until all that this node has read is shown: others may show it already. Not for ever.

        While somebody holds back a change, nobody shows it; who looks why must not wait for it at each question (N23).
        """
        behind_since = self.seat.behind_since
        if not behind_since or self._boot_now() - behind_since < self.patience * MICROS:
            await self.reach(self.seat.standing.folded)

    async def _look_after_journal(self) -> None:
        async with self._turn:
            if self._leading:
                await super()._look_after_journal()

    # --- the curtain ---

    async def _show(self, news: News) -> None:
        """Show it when every member has hidden it. If another node leads by then, it does that; `reveal` shows it."""
        spare = 0
        while True:
            position = news.records[-1].position
            self._to_show = self._unshown = news
            self.seat.tell(m.Wrote(position))
            while self._waits_for(position) and not self._is_late(news):
                await self.stir()
            if not self._waits_for(position):
                break
            spare = more_spare(spare)  # each time: a member that hears no news takes two beats (N08)
            later = (await self._in_time(Outcome((), news), spare)).news
            if later is None:
                break
            news = later
        if not self._leading:
            self._to_show = None
        # Not `news`: if more could not be stored, its state has what the journal does not have.
        await self._show_what_is_allowed(await self._off_loop(self._writer.not_shown))

    @property
    def _decides(self) -> bool:
        return self._leading

    @property
    def _showing_takes(self) -> int:
        """Half of what is allowed for a commit is kept for the call that lets all nodes show it (S2).

        While VMs cannot ask here, they see it first at a node that hears of it, which may take a beat or two.
        """
        call = self.policy.commit_allowance // 2
        if self._writer.is_read:
            return call
        return call + int(2 * self.seat.standing.terms.every * self.clock.speed)

    def _note_seen(self, position: int) -> None:
        """Other nodes may show it already (N14)."""
        self._journal.note_seen(position)

    def _waits_for(self, position: int) -> bool:
        """As long as we lead and reach the store; a node that can reach it then has it shown later."""
        return self._leading and self._allowed < position and self.seat.has_right

    async def _show_what_is_allowed(self, news: News | None) -> None:
        if news is not None and news.records[-1].position <= self._allowed:
            self._fenced.losses.note_lifted(news.state.raised_at, news.state.least_incarnation)
            self.curtain.lift()  # in the same step as the showing: held polls are answered in the middle of that
            await super()._show(news)
            self._to_show = self._unshown = None
            self._wake_up()

    # --- what its seat asks for ---

    async def read(self, position: int) -> int:
        """Read and fold up to a position."""
        async with self._turn:
            return await self._take_in(position)

    async def _take_in(self, position: int | None) -> int:
        news = await self._off_loop(lambda: self._writer.take_in(position))
        if news is not None:
            self._unshown = news
            await self._apply_below(news)  # a follower is a member through its node
        return self._writer.position

    async def _apply_below(self, news: News) -> None:
        """One that was killed is waited for up to a lease. The seat beats meanwhile, and does not lose the lead."""
        self.seat.tell(m.HasRead(news.records[-1].position))
        await super()._apply_below(news)

    async def _hold_below(self, news: News) -> None:
        """Not yet: when all nodes have applied it, the seat asks for it."""

    async def hold(self, position: int) -> None:
        """Hide what is not shown yet: in one step with the question, so nobody shows it or is asked twice."""
        if self._unshown is not None:
            self.curtain.hide(self._unshown.touched)
        await self.below.hold(position)

    def allow(self, position: int) -> None:
        """What is folded up to here may be shown."""
        self._allowed = max(self._allowed, position)
        self._wake_up()

    async def reveal(self) -> int:
        """Show what is folded, if all of it is allowed."""
        async with self._turn:
            news = await self._off_loop(self._writer.not_shown)
            if not (self._leading and news is not None and news.is_late(self.clock.now())):
                await self._show_what_is_allowed(news)  # what is late gets a longer notice with the next tick (S2)
            return self.state.position

    def is_in_time(self) -> bool:
        """Whether what is to be shown may be shown now (S2); if not, `_show` has its notice made longer."""
        news = self._to_show
        return news is None or not self._is_late(news)

    def missed_its_time(self) -> None:
        """`_show` looks again, and has its notice made longer."""
        self._wake_up()

    async def lead(self, epoch: int, steady: int) -> None:
        """Decide from now on, from the end of the journal and not before its last moment (N10)."""
        async with self._turn:
            await self._off_loop(partial(self._fenced.lead, epoch))
            self.seat.tell(m.Folded(await self._take_in(None)))
            mark = self._writer.state.mark
            last = steady if mark is None else max(steady, mark.steady)
            behind = self._shared_clock.lead(Instant(self._writer.state.at, last))
            self._last_polls.merge(await self.seat.polls(self.time() - SILENCE))
            self._leading = self.seat.leads and self.seat.standing.epoch == epoch
        if self._leading:
            report("info", "this node leads", action="leads", epoch=epoch)
            _warn_if_behind(behind.total_seconds())
            self._wake_up()
            for begin in self.on_lead:
                begin()
            self.submit(Tick(), SELF).add_done_callback(lambda done: _ignore(done.exception()))

    def follow(self) -> None:
        """Stop deciding."""
        if self._leading:
            report("info", "this node does not lead any more", action="follows", epoch=self._fenced.epoch)
            self._leading, self._to_show = False, None
            for end in self.on_follow:
                end()
        self._wake_up()

    def hear_time(self, steady: int, epoch: int, position: int) -> None:
        """Go on from the leader's time."""
        self._shared_clock.follow(steady, epoch, position)
        self._wake_up()  # it may be another node than before that leads

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

    def worked(self, error: DuenoticeError | None, of: StorePart = StorePart.MEMBERS) -> None:
        """Log when the store is away, and when it is back; not each try."""
        before = self._store_troubles.get(of)
        if error is None:
            if self._store_troubles.pop(of, None) is not None and not self._store_troubles:
                report("info", "the shared store works again", action="store-works-again")
            return
        self._store_troubles[of] = StoreTrouble(error, self._boot_now() if before is None else before.since)
        if before is None or before.error.message != error.message:
            what = "the shared store does not work"
            report("warning", what, action="store-failed", error=error.message, hint=error.hint)

    @property
    def store_trouble(self) -> StoreTrouble | None:
        """What is wrong with the shared store, and since when; None if it works as far as this node knows."""
        return next(iter(self._store_troubles.values()), None)

    def store_here(self) -> None:
        """A record at the end of the journal, as this node knows it; if anything is lost, it is refused (N14)."""
        if self._leading:
            self.submit(MarkClock(self.clock.mark()), SELF).add_done_callback(lambda done: _ignore(done.exception()))

    def begin_again(self) -> None:
        """Forget all, and start again from what is there: `bootstrap` does that (N14)."""
        why = "The database has lost what it had stored: it was restored, or failed over."
        self.give_up(Rewound(why, hint="This node begins again from what is there, and lifts the incarnations."))

    def end(self, why: str) -> None:
        """This process cannot go on; a new one can."""
        hint = "Start it again; it goes on from what is stored. Each node needs a name of its own."
        self.give_up(InvariantBroken(why, hint=hint))


def _warn_if_behind(seconds: float) -> None:
    """Until its clock has reached the journal, time of day stands still at a leader (N10); what is due then waits."""
    if seconds > MOST_BEHIND:
        report(
            "warning",
            "the clock of this node is behind the journal: until it has caught up, events start only when approved",
            action="clock-behind-journal",
            seconds=round(seconds, 1),
            hint="Set its clock right. If another node's was wrong, approve what cannot wait.",
        )


def _ignore(_: object) -> None:
    return None
