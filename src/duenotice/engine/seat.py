"""A node's seat among the members: carries out what `standing` decides, and tells it the results.

It decides nothing itself. Calls to the store are made one after the other, off the loop; what the node has to do with
its own state and doors is handed to its crew.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from duenotice.clock import boot_micros, seconds
from duenotice.engine import membership as m
from duenotice.engine.members import Deposed, Head, Member, Members, News, NotMember, Replaced, Sight
from duenotice.engine.membership import NodePhase, Standing, Terms
from duenotice.engine.standing import answers_until, step
from duenotice.engine.threads import WorkerThread, run_in
from duenotice.errors import DuenoticeError, Rewound

T = TypeVar("T")

_REFUSED: dict[type[DuenoticeError], m.Message] = {
    NotMember: m.WasPutOut(),
    Deposed: m.WasDeposed(),
    Rewound: m.HasForgotten(),
}


class _TooLate(Exception):
    """What was to be shown has too little notice by now."""


class StorePart(Enum):
    """What of the shared store has worked, or has not."""

    MEMBERS = "members"
    JOURNAL = "journal"


class Crew(Protocol):
    """What a node does with its own state. What may take a while is a coroutine; they run one after the other."""

    async def read(self, position: int) -> int:
        """Read and fold up to a position, and have followers do so; tell up to where all is folded."""

    async def hold(self, position: int) -> None:
        """Hide from VMs what is folded and not shown yet, at once, and have followers hide it."""

    def allow(self, position: int) -> None:
        """What is folded up to here may be shown."""

    async def reveal(self) -> int:
        """Show VMs what is folded, if all of it is allowed; tell up to where they see it."""

    def is_in_time(self) -> bool:
        """Whether what is to be shown now may still be shown: its notice has not become too short meanwhile (S2).

        Asked from the worker that calls the store.
        """

    def missed_its_time(self) -> None:
        """What was to be shown was not: its notice has to be made longer first (S2)."""

    async def lead(self, epoch: int, steady: int) -> None:
        """Begin to decide and to write; `steady` is the last that the store knows of a leader's time."""

    def follow(self) -> None:
        """Stop deciding and writing."""

    def hear_time(self, steady: int, epoch: int, position: int) -> None:
        """Another node leads under this epoch, or led: the last that is known of its time and its journal (N10)."""

    def time(self) -> int:
        """The steady time of this node."""

    def gather_polls(self) -> Mapping[str, int]:
        """The last polls that the others do not know of yet (N11)."""

    def worked(self, error: DuenoticeError | None, of: StorePart = StorePart.MEMBERS) -> None:
        """A call to the store, or a read of the journal, has worked or has not."""

    def store_here(self) -> None:
        """Store anything: that proves that the store has lost nothing (N14)."""

    def begin_again(self) -> None:
        """What the store has lost has to be forgotten here too, and the incarnations lifted (N14)."""

    def end(self, why: str) -> None:
        """This process has to end."""


class Identity(NamedTuple):
    """Who sits here."""

    life: str
    node: str
    url: str = ""
    version: str = ""


class Seat:
    """Where a node stands, kept up to date; `right_until` is what the doors look at for each request."""

    def __init__(
        self,
        members: Members,
        identity: Identity,
        crew: Crew,
        terms: Terms = Terms(),  # noqa: B008
        now: Callable[[], int] = boot_micros,
    ) -> None:
        self.identity = identity
        self.standing = Standing(identity.life, terms)
        self.right_until = 0
        self.on_right: Callable[[int], None] = lambda _: None
        """Is called with a new `right_until`."""
        self.behind_since = 0
        """Since when VMs have not seen all that is stored; 0 when they do."""
        self.leader: Member | None = None
        self.sight: Sight | None = None
        self._members, self._crew, self._now = members, crew, now
        self._loop = asyncio.get_running_loop()
        self._calls = WorkerThread("members") if members.blocking else None
        self._steady = 0
        self._work: asyncio.Queue[Callable[[], Coroutine[Any, Any, None]]] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._begin(self._do_work())
        self._hear_no_more = members.listen(self._hear)

    def may_answer(self) -> bool:
        """Whether VMs may be answered in this moment (N05)."""
        return self._now() < self.right_until

    @property
    def has_right(self) -> bool:
        """Whether the last good beat is young enough, also while it has not caught up yet."""
        return self._now() < self.standing.right_until

    async def polls(self, after: int) -> Mapping[str, int]:
        """The last polls at all nodes, as they were told with beats (N11)."""
        return await self._asked(partial(self._members.polls, after))

    async def absent(self) -> tuple[Member, ...]:
        """Who has registered and is not a member."""
        return await self._asked(self._members.absent)

    async def _asked(self, call: Callable[[], T]) -> T:
        return await run_in(self._calls, call)

    @property
    def leads(self) -> bool:
        """Whether this node is the one that writes, as far as it knows."""
        return self.standing.phase is NodePhase.LEADING

    def has_watched(self, others: Mapping[str, m.Seen]) -> None:
        """These have been silent for a while already, before this node began."""
        self.standing = self.standing._replace(others=others)

    def start(self) -> None:
        """Begin to beat."""
        self._begin(self._tick())

    async def leave(self) -> None:
        """The doors are closed: be forgotten by the others. To hand over before that, tell `Stop`."""
        self.tell(m.Stop())
        self.tell(m.Closed())
        self._hear_no_more()
        await self._ask(m.Leave(), lambda: self._members.leave(self.identity.life))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._ask(m.Leave(), self._members.close)
        if self._calls is not None:
            self._calls.shutdown(wait=False)

    def tell(self, message: m.Message) -> None:
        """Something has happened; on the loop only."""
        if isinstance(message, m.Beaten | m.Looked):
            self.sight = message.sight
            self.leader = message.sight.member(message.sight.head.leader)
            self._hear_time(message.sight.head)
        elif isinstance(message, m.TookOver) and message.head is not None:
            self._hear_time(message.head)  # it may have said more since our last look
        self.standing, actions = step(self.standing, message, now := self._now())
        self.behind_since = self.behind_since or now if self.standing.revealed < self.standing.known else 0
        self._has_right_until(answers_until(self.standing))
        for action in actions:
            self._do(action)

    def _has_right_until(self, moment: int) -> None:
        if moment != self.right_until:
            self.right_until = moment
            self.on_right(moment)

    def _hear_time(self, head: Head) -> None:
        """If the store says that we lead, and we have not begun to, this is the last that the leader before us said."""
        self._steady = max(self._steady, head.steady)
        if not self.leads:
            is_ours = head.leader == self.identity.life
            self._crew.hear_time(head.steady, head.epoch - is_ours, head.position)

    def _hear(self, news: News) -> None:
        self._loop.call_soon_threadsafe(self.tell, m.HeardFromStore(news))

    async def _tick(self) -> None:
        while True:
            self.tell(m.TimePassed())
            await asyncio.sleep(seconds(self.standing.terms.every) / 8)

    def _do(self, action: m.Action) -> None:
        match action:
            case m.Read(position):
                self._work.put_nowait(partial(self._read, action, position))
            case m.Reveal(position):
                self._crew.allow(position)
                self._work.put_nowait(self._reveal)
            case m.HoldUpTo(position):
                self._begin(self._hold(position))  # not behind a read: that may wait for what is shown by this
            case m.Lead(epoch):
                self._work.put_nowait(partial(self._lead, epoch))
            case m.Follow():
                self._crew.follow()
            case m.StoreHere():
                self._crew.store_here()
            case m.BeginAgain():
                self._crew.begin_again()
            case m.End(why):
                self._crew.end(why)
            case m.Leave():
                pass  # `leave` waits for it
            case _:
                self._begin(self._carry_out(action, *self._call(action)))

    def _call(self, action: m.Action) -> tuple[Callable[[], Any], Callable[[Any], m.Message | None]]:
        """The call to the store that an action asks for, and what its answer says."""
        members, (life, node, url, version) = self._members, self.identity
        match action:
            case m.Register():
                return lambda: members.register(life, node, url, version), m.Registered
            case m.Join(position):
                return lambda: members.join(life, position), m.Joined
            case m.Beat():
                steady, polls = self._crew.time(), self._crew.gather_polls()
                return lambda: members.beat(life, steady, polls), partial(m.Beaten, self._now())
            case m.TakeOver(epoch, beat):
                return lambda: members.take_over(life, epoch, beat), m.TookOver
            case m.SayApplied(position):
                return lambda: members.applied(life, position), _nothing
            case m.AskToHold(epoch, position):
                call = partial(members.hold, life, epoch, position)
                return lambda: self._in_time(call), partial(m.Asking, position)
            case m.SayHidden(position):
                return lambda: members.hidden(life, position), _nothing
            case m.ShowUpTo(epoch, position):
                call = partial(members.show, life, epoch, position)
                return lambda: self._in_time(call), partial(m.Showing, position)
            case m.PutOut(epoch, other, beat):
                return lambda: members.put_out(life, epoch, other, beat), partial(_gone, other)
            case m.Resign():
                return lambda: members.resign(life), _nothing
            case _:
                return members.look, partial(m.Looked, sent=self._now())

    def _in_time(self, call: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        """Looks when it is its turn: calls before it may have taken long."""
        if not self._crew.is_in_time():
            raise _TooLate
        return call()

    async def _reveal(self) -> None:
        self.tell(m.Revealed(await self._crew.reveal()))

    async def _hold(self, position: int) -> None:
        await self._crew.hold(position)
        self.tell(m.Held(position))

    async def _carry_out(
        self, action: m.Action, call: Callable[[], T], answer: Callable[[T], m.Message | None]
    ) -> None:
        came = await self._ask(action, call)
        message = came if isinstance(came, m.CallBroke) else answer(came)
        if message is not None:
            self.tell(message)

    async def _ask(self, action: m.Action, call: Callable[[], T]) -> "T | m.CallBroke":
        try:
            came = await run_in(self._calls, call)
        except _TooLate:
            self._crew.missed_its_time()
            return m.CallBroke(action)
        except Replaced:
            if (head := await self._head()) is not None:  # else the next call says it again
                self.tell(m.WasReplaced(head))
            return m.CallBroke(action)
        except DuenoticeError as error:
            refused = _REFUSED.get(type(error))
            self._crew.worked(error if refused is None else None)
            if refused is not None:
                self.tell(refused)
            return m.CallBroke(action)
        self._crew.worked(None)
        return came

    async def _head(self) -> Head | None:
        try:
            sight = await run_in(self._calls, self._members.look)
        except DuenoticeError as error:
            self._crew.worked(error)
            return None
        return sight.head

    async def _read(self, action: m.Read, position: int) -> None:
        begun = self._now()
        try:
            folded = await self._crew.read(position)
            self._crew.worked(None, StorePart.JOURNAL)
            self.tell(m.Folded(folded, position, begun))
        except Rewound:
            self.tell(m.HasForgotten())
        except DuenoticeError as error:
            self._crew.worked(error, StorePart.JOURNAL)
            self.tell(m.CallBroke(action))

    async def _lead(self, epoch: int) -> None:
        try:
            if self.leads and self.standing.epoch == epoch:
                await self._crew.lead(epoch, self._steady)
        except Rewound:
            self.tell(m.HasForgotten())
        except DuenoticeError:
            self.tell(m.HandOver())  # a node that cannot read the journal cannot lead

    async def _do_work(self) -> None:
        while True:
            await (await self._work.get())()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._crew.end(f"A part of this node has ended: {error!r}.")


def _nothing(_: object) -> None:
    return None


def _gone(life: str, is_gone: bool) -> m.Message | None:
    return m.MemberGone(life) if is_gone else None
