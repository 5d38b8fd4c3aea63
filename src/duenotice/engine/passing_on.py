"""Commands at any node: the one that leads decides them, all others pass them on to it; without one it is 503 (N09).

What had surely no effect here is passed on too, when another node may lead by now. A node that may not lead any more
refuses nothing: it does not know what is there (S6).
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from duenotice.clock import monotonic
from duenotice.domain.commands import LiftIncarnations, Tick
from duenotice.domain.policy import Policy
from duenotice.domain.records import RequestAnswered
from duenotice.domain.state import State
from duenotice.engine.engine import SELF, Engine
from duenotice.engine.fenced_journal import FencedJournal
from duenotice.engine.log import report
from duenotice.engine.members import Deposed, Member
from duenotice.engine.publisher import Publisher
from duenotice.engine.seat import Seat
from duenotice.engine.shared_time import SharedClock
from duenotice.engine.waiting import WaitingCommand
from duenotice.engine.writer import Ask, Records
from duenotice.errors import DuenoticeError, Refused, Unavailable

PassOn = Callable[[Member, Ask], Awaitable[Records]]
"""Has a command done by the node that leads; the answer is there when it is durable and shown (N09)."""

PATIENCE = 1.0
"""Real seconds that a command waits for a leader, and for this node to show what the leader has done."""

_NOBODY = "No node leads right now."
_SOON = "Try again in some seconds."


class PassingEngine(Engine):
    """An engine that decides only while it leads."""

    seat: Seat

    def __init__(
        self,
        journal: FencedJournal,
        clock: SharedClock,
        policy: Policy,
        state: State,
        publisher: Publisher,
        pass_on: PassOn,
    ) -> None:
        super().__init__(journal, clock, policy, state, publisher)
        self.patience = PATIENCE
        self._fenced, self._pass_on = journal, pass_on
        self._leading = False
        self._turn = asyncio.Lock()
        self._stirred = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def leads(self) -> bool:
        """Whether commands are decided here."""
        return self._leading

    def leads_under(self) -> int:
        """The epoch under which this node surely leads in this moment, or 0.

        As long as it has the right to answer, nobody else has waited for a whole lease. Without it, another node may
        lead: then this one does not know what is there, and must not say that something is not (S6).
        """
        return self._fenced.epoch if self._leading and self.seat.has_right else 0

    async def _serve(self, batch: list[WaitingCommand]) -> None:
        async with self._turn:
            if self._leading:
                await super()._serve([*self._lift(), *batch])
                return
        for waiting in batch:
            self._begin(self._have_done(waiting))

    def _lift(self) -> tuple[WaitingCommand, ...]:
        """Before anything else, if VMs may have seen more than the journal knows (N14, S3)."""
        if not self._fenced.restored:
            return ()
        hint = "Incarnations go ahead."
        report("warning", "the journal may have lost something", action="journal-rewound", hint=hint)
        lifted: asyncio.Future[Records] = asyncio.get_running_loop().create_future()
        lifted.add_done_callback(asyncio.Future.exception)  # if it cannot be stored, the next batch begins with it
        return (WaitingCommand(Ask(self.lifting(), SELF), lifted),)

    def lifting(self) -> LiftIncarnations:
        """The same; each node may ask for it, and once is enough."""
        losses = self._fenced.losses
        return LiftIncarnations(losses.seconds_since_2020(), losses.found.position, losses.found.floor)

    def _conclude(self, waiting: WaitingCommand, came_of_it: Records | DuenoticeError) -> None:
        """What had no effect is asked again of the node that leads, if that may be another one by now (N09)."""
        had_no_effect = isinstance(came_of_it, Refused) or came_of_it == ()
        may_be_wrong = isinstance(came_of_it, Deposed) or (had_no_effect and not self.leads_under())
        if may_be_wrong and not isinstance(waiting.ask.command, Tick):
            self._begin(self._have_done(waiting))
        else:
            super()._conclude(waiting, came_of_it)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _have_done(self, waiting: WaitingCommand) -> None:
        """Pass a command on to the leader, and answer when VMs can see its result here (N09)."""
        try:
            if waiting.ask.receipt is not None:
                raise Deposed("This node does not lead any more.", hint=f"Nothing was done. {_SOON}")
            records = await self._passed_on(waiting)
            if records is not None:
                await self.reach(records[-1].position if records else 0)
                waiting.end(records)
        except DuenoticeError as error:
            waiting.end(error)
        except asyncio.CancelledError:
            waiting.end(Unavailable("The node was stopped.", hint="Ask another node."))
            raise

    async def _passed_on(self, waiting: WaitingCommand) -> Records | None:
        """What the leader answered; None: this node leads by now, and the command waits its turn."""
        until = monotonic() + self.patience
        while True:
            leader = await self.leader()
            if leader is None:
                self._asks.append(waiting)
                self._wake.set()
                return None
            try:
                return await self._pass_on(leader, waiting.ask)
            except Deposed:  # it has not done it, and will not
                if monotonic() >= until:
                    raise
                await self.stir()

    async def leader(self) -> Member | None:
        """The node that leads, as soon as there is one; None: this node leads by now."""
        try:
            async with asyncio.timeout(self.patience):
                return await self._leader()
        except TimeoutError:
            raise Unavailable(_NOBODY, hint=_SOON) from None

    async def answered(self, key: str) -> RequestAnswered | None:
        """The same. Only the node that leads and shows all that is stored may say that a request was not answered."""
        epoch, stored = self.leads_under(), self._writer.position
        known = await super().answered(key) if epoch else None
        if known is None and not (epoch == self.leads_under() != 0 and self.state.position >= stored):
            raise Deposed(_NOBODY, hint=_SOON)
        return known

    async def joined(self) -> None:
        """Wait until this node may answer, and knows who leads; raises what the store has refused."""
        while not self.may_answer():
            if self._broken is not None:
                raise self._broken
            await self.stir()
        await self.leader()

    async def reach(self, position: int) -> None:
        """Wait until VMs can see all up to here at this node too; not for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.patience):
                while self.state.position < position:
                    await self.stir()

    async def _leader(self) -> Member | None:
        while not self.leads_under():
            leader = self.seat.leader
            if leader is not None and leader.life != self.seat.identity.life:
                return leader
            await self.stir()
        return None

    async def stir(self) -> None:
        """Wait until something has changed, or for a moment."""
        stirred = self._stirred
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await stirred.wait()

    def _wake_up(self) -> None:
        self._stirred.set()
        self._stirred = asyncio.Event()
