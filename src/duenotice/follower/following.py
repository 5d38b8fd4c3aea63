"""Follows a node: keeps the copy up to date, hides and shows when it may, and knows how long it may answer (N05, N06).

What comes is applied, and that is all: VMs are answered with what was before, until the node asks to hide it (N19).

Nothing here runs in the way of polls: the network and the folding are in threads. Whatever fails is tried again, at the
next of the nodes that are known, and meanwhile the right to answer runs out by itself.

What VMs see changes hands in one step. Until a new node has let us answer, VMs are answered from what the last node
told, for as long as that node let us: it, or those who wait for it, show nothing newer before that is over. Then state
and right are the new node's together.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar
from uuid import uuid4

from duenotice.backoff import Backoff
from duenotice.clock import MICROS, Clock, boot_micros, boot_nanos, seconds
from duenotice.domain.apply import Touched
from duenotice.engine.curtain import Curtain
from duenotice.engine.publisher import Publisher
from duenotice.engine.threads import WorkerThread
from duenotice.errors import Conflict, DuenoticeError, InvariantBroken, Refused, Unavailable
from duenotice.follower.health import Wellbeing
from duenotice.follower.line import NodeLine, NodeStream
from duenotice.follower.polls import PollsToTell
from duenotice.follower.replica import Data, Replica
from duenotice.follower.troubles import Troubles
from duenotice.wire import replication as f

T = TypeVar("T")

BEATS_IN_LEASE = 12
NOTHING = Touched(set(), set(), set())
TOO_LITTLE_RIGHT, TIME_TO_SETTLE = 2, 3
"""A node that gives a right for less than this part of a lease is left, if there are others: it is cut off itself.

But not in the first part of a lease."""

SOONEST = 0.25
"""Real seconds between two looks at the clock that counts when VMs asked."""

TRIES, SHORT = Backoff(0.1, 2.0), 0.02
"""Real seconds before all nodes are tried again, and before the next one is."""


class Following:
    """`right_until`, in nanoseconds since boot, is what the door looks at for each request."""

    def __init__(
        self, lines: Sequence[NodeLine], publisher: Publisher, clock: Clock, chosen: bool, child: str = ""
    ) -> None:
        """`child` is what a node calls its own worker: our life begins with it."""
        self.life = f"{child}.{uuid4()}" if child else str(uuid4())
        self.curtain = Curtain()
        self.on_right: Callable[[int], None] = lambda _: None
        """Is called with a new `right_until`."""
        self._right_until = self.shown = 0
        self.troubles = Troubles()
        self.failed: asyncio.Future[DuenoticeError] = asyncio.get_running_loop().create_future()
        """Why the process has to end, if it has."""
        self._lines, self._at, self._failures = lines, 0, 0
        self._publisher, self._clock, self._chosen = publisher, clock, chosen
        self._loop = asyncio.get_running_loop()
        self._folding, self._beating, self._listening = (
            WorkerThread("fold"),
            WorkerThread("beat"),
            WorkerThread("listen"),
        )
        self._replica: Replica | None = None
        self._stream: NodeStream | None = None
        self._heard: asyncio.Queue[f.Line | None] = asyncio.Queue()
        self._joined = self._revealed = False
        self._hidden = self._may_show = self._lease = self._granted = self._joined_at = 0
        self._unshown = NOTHING
        """What differs between what VMs see and what is applied."""
        self._let_by = ""
        """The node whose right we have."""
        self._owed: NodeLine | None = None
        """A node that waits until we have left it."""
        self._beat_now, self._stirred = asyncio.Event(), asyncio.Event()
        self._polls, self._tasks = PollsToTell(publisher, clock), list[asyncio.Task[None]]()

    @property
    def line(self) -> NodeLine:
        """To the node that we follow, or try to."""
        return self._lines[self._at]

    @property
    def lease(self) -> float:
        """Real seconds of silence after which the node does not wait for us."""
        return seconds(self._lease)

    @property
    def right_until(self) -> int:
        """Before which moment VMs may be answered."""
        return self._right_until

    @right_until.setter
    def right_until(self, moment: int) -> None:
        self._right_until = moment
        self.on_right(moment)

    def lines(self) -> Sequence[NodeLine]:
        """To all nodes, the one that we follow first."""
        return [*self._lines[self._at :], *self._lines[: self._at]]

    def may_answer(self) -> bool:
        """Whether VMs may be answered in this moment (N05)."""
        return boot_nanos() < self._right_until

    def wellbeing(self) -> Wellbeing:
        """How we are, for a load balancer."""
        return Wellbeing(self.line.url, str(self.troubles), self.may_answer())

    def start(self) -> None:
        """Begin to follow."""
        self._clock.run()
        self._tasks = [asyncio.create_task(work, name="follow") for work in (self._run(), self._beat())]
        for task in self._tasks:
            task.add_done_callback(self._lost)

    async def stop(self) -> None:
        """The doors are closed: tell the node that nobody is answered here any more."""
        self.right_until, was_member = 0, self._joined
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._stream is not None:
            self._stream.close()
        if was_member:
            with suppress(TimeoutError):
                async with asyncio.timeout(2.0):
                    await self._beating.call(lambda: self._leave(self.line))
        for worker in (self._folding, self._beating, self._listening):
            worker.shutdown(wait=False, cancel=True)
        for line in self._lines:
            line.close()

    async def reaches(self, position: int) -> bool:
        """Whether VMs see all up to here, at the latest after a lease."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(1.0, seconds(self._lease))):
                while self.shown < position:
                    await self._stirred.wait()
        return self.shown >= position

    # --- what a node tells ---

    async def _run(self) -> None:
        while True:
            owed_before = self._owed
            try:
                await self._follow(self.line)
                self._failures = 0 if self._revealed else self._failures + 1
            except Exception as error:
                self._failures += 1
                self._complain(error)
                if isinstance(error, Refused | InvariantBroken) or not isinstance(error, DuenoticeError):
                    self._replica = None  # begin with a snapshot again
            finally:
                self._joined = False
            if self._owed is not None and (len(self._lines) == 1 or owed_before is not None):
                self.right_until = 0
                self._leave_owed()
            await self._move_on()

    async def _move_on(self) -> None:
        """To the next node at once; when all of them have failed there is a pause."""
        count = len(self._lines)
        self.line.hang_up()
        if count > 1:
            self._at, self._replica = (self._at + 1) % count, None
        rounds, others = divmod(self._failures, count)
        await asyncio.sleep(SHORT if others or not (self._failures or count == 1) else TRIES.after(rounds))

    async def _follow(self, line: NodeLine) -> None:
        """Until the stream ends."""
        if self._replica is None:
            replica = await self._folding.call(lambda: self._snapshot(line))
            if replica.node == self._let_by:
                self.right_until = 0  # the node takes what we say now for what VMs see here
            self._replica, self._revealed = replica, False
            self._hidden, self._may_show, self._granted, self._unshown = replica.position, 0, 0, NOTHING
        node, after = self._replica.node, self._replica.position
        self._stream = stream = await self._listening.call(lambda: line.listen(node, self.life, after))
        heard: asyncio.Queue[f.Line | None] = asyncio.Queue()
        self._heard = heard
        threading.Thread(target=self._pump, args=(stream, heard), name="stream", daemon=True).start()
        try:
            while (lines := await _all_there_is(heard)) is not None:
                await self._hear(lines)
        finally:
            stream.close()

    def _snapshot(self, line: NodeLine) -> Replica:
        node, snapshot = line.snapshot()
        return Replica(node, snapshot, self._chosen)

    def _pump(self, stream: NodeStream, heard: "asyncio.Queue[f.Line | None]") -> None:
        with suppress(RuntimeError):  # the loop has ended
            for line in stream:
                self._loop.call_soon_threadsafe(heard.put_nowait, line)
            self._loop.call_soon_threadsafe(heard.put_nowait, None)

    async def _hear(self, lines: list[f.Line]) -> None:
        data: list[Data] = []
        for line in lines:
            if isinstance(line, f.LogRecord | f.PartialSnapshot | f.Skipped):
                data.append(line)
                continue
            await self._take(data)
            data = []
            match line:
                case f.Joined(shown, lease, hold):
                    self._hold(hold)
                    await self._join(shown, lease)
                case f.Hold(position):
                    self._hold(position)
                    self._beat_now.set()
                case f.Visible(position):
                    self._may_show = max(self._may_show, position)
                case f.Goodbye() if self._stream is not None:
                    self._owed = self.line
                    self._stream.close()
            await self._reveal()
        await self._take(data)

    async def _join(self, shown: int, lease: int) -> None:
        """We are a follower of this node from now on. Ask for the right first: then there is no gap without one."""
        self._lease, self._joined, self._joined_at = lease, True, boot_micros()
        self.line.expect_beats_within(seconds(lease))
        if self._stream is not None:
            self._stream.expect(seconds(lease))
        self._may_show = max(self._may_show, shown)
        await self._try_beat()

    async def _take(self, data: list[Data]) -> None:
        """Apply it, and say so. VMs see what was before; if they do not see any of it yet, nothing older is shown."""
        replica = self._replica
        if not data or replica is None:
            return
        self._unshown = await self._folding.call(lambda: replica.take(data))
        if not self._revealed:
            self._hidden = replica.position
        self._beat_now.set()

    def _hold(self, position: int) -> None:
        """Hide what differs from what VMs see, if that is asked for, and say so (N19)."""
        replica = self._replica
        if replica is not None and self._revealed and self._hidden < min(position, replica.position):
            self.curtain.hide(self._unshown)
            self._hidden = replica.position

    async def _reveal(self) -> None:
        """Show all that is folded, if it may be shown; a new node's only with its right (S27)."""
        replica = self._replica
        if replica is None or self._may_show < replica.position:
            return
        if self._revealed and self.shown == replica.position:
            self.curtain.lift()
            return
        if not self._revealed and self._granted <= boot_nanos():
            return
        before = self._publisher.state
        state, touched = await self._folding.call(lambda: replica.newest(before))
        self.curtain.lift()  # in the same step as the publishing: held polls are answered in the middle of that
        self._publisher.publish(state, touched, self._clock.now().steady)
        self.shown = self._hidden = replica.position
        self._unshown = NOTHING
        if not self._revealed:
            self._revealed, self._let_by, self.right_until = True, replica.node, self._granted
            self._leave_owed()
            self.troubles.are_over(self.line.url)
        self._stirred.set()
        self._stirred = asyncio.Event()
        await self._folding.call(replica.showed)

    # --- what we tell a node ---

    async def _beat(self) -> None:
        last = 0
        while True:
            # Not later than it is due: the node holds nothing if one of us was silent for an eighth of a lease (N19).
            left = last + self._lease // BEATS_IN_LEASE - boot_micros() if self._joined else MICROS
            with suppress(TimeoutError):
                async with asyncio.timeout(min(SOONEST, max(SHORT, left / MICROS))):
                    await self._beat_now.wait()
            self._clock.beat()
            is_due = self._beat_now.is_set() or boot_micros() - last >= self._lease // BEATS_IN_LEASE
            self._beat_now.clear()
            if self._joined and is_due:
                last = boot_micros()
                await self._try_beat()
                self._leave_if_useless()

    async def _try_beat(self) -> None:
        replica, line = self._replica, self.line
        if replica is None:
            return
        polls = self._polls.take() if self._revealed else {}
        beat = f.FollowerBeat(self.life, replica.node, replica.position, self._hidden, polls)
        sent = boot_nanos()  # from before it is sent (N05)
        try:
            answer = await self._beating.call(lambda: line.beat(beat))
        except Conflict as error:
            self.right_until = self._granted = 0
            self._complain(error)
            if self._stream is not None:
                self._stream.close()
        except DuenoticeError as error:
            self._complain(error)
        else:
            if replica is self._replica:
                self._let(sent, answer)

    def _let(self, sent: int, answer: f.Right) -> None:
        self._polls.every = answer.polls_every
        if answer.is_owed:
            return
        if not answer.right:
            self._complain(Unavailable("The node may not answer VMs itself now.", hint="Does it reach its database?"))
            return
        self._granted = max(self._granted, sent + 1000 * answer.right)
        if self._revealed:
            self.right_until = self._granted
            self.troubles.are_over(self.line.url)
        else:
            self._heard.put_nowait(f.Visible(0))  # to look again at what may be shown

    def _leave_if_useless(self) -> None:
        now, lease = boot_micros(), self._lease
        has_settled = now - self._joined_at > lease // TIME_TO_SETTLE
        is_useless = has_settled and self._granted // 1000 - now < lease // TOO_LITTLE_RIGHT
        if is_useless and len(self._lines) > 1 and self._stream is not None:
            self._stream.close()

    def _leave_owed(self) -> None:
        """A node that wants to leave the others waits until nobody is answered by its right any more."""
        if self._owed is not None:
            line, self._owed = self._owed, None
            self._listening.do(lambda: self._leave(line))

    def _leave(self, line: NodeLine) -> None:
        with suppress(DuenoticeError):
            line.leave(self.life)

    # --- when it does not work ---

    def _complain(self, error: Exception) -> None:
        self.troubles.came(self.line.url, error, is_last=len(self._lines) <= max(1, self._failures))

    def _lost(self, task: "asyncio.Task[None]") -> None:
        """Without one of our tasks nobody is answered; only another process can help."""
        if not task.cancelled() and not self.failed.done():
            error = task.exception()
            self.failed.set_result(
                InvariantBroken(f"A follower's task has ended: {error!r}.", hint="Please report this.")
            )


async def _all_there_is(heard: "asyncio.Queue[f.Line | None]") -> list[f.Line] | None:
    """At least one line; None when the stream has ended."""
    line = await heard.get()
    lines: list[f.Line] = []
    while line is not None:
        lines.append(line)
        if heard.empty():
            return lines
        line = heard.get_nowait()
    heard.put_nowait(None)
    return lines or None
