"""Follows a node: keeps the copy up to date, hides and shows when it may, and knows how long it may answer (N05, N06).

Nothing here runs in the way of polls: the network and the folding are in threads. Whatever fails is tried again, and
meanwhile the right to answer runs out by itself.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import islice
from typing import TypeVar
from uuid import uuid4

import structlog

from duenotice.backoff import Backoff
from duenotice.clock import Clock, boot_micros, boot_nanos, seconds
from duenotice.domain.commands import ApproveEvents, Command, EnableScope
from duenotice.engine.curtain import Curtain
from duenotice.engine.publisher import Publisher
from duenotice.engine.worker import Worker
from duenotice.errors import Conflict, DuenoticeError, InvariantBroken, Refused, Unavailable
from duenotice.follower.line import Line, Stream
from duenotice.follower.replica import Data, Replica
from duenotice.wire import follow as f

T = TypeVar("T")

BEATS_IN_LEASE = 12
SOONEST = 0.25
"""Real seconds between two looks at the clock that counts when VMs asked."""

POLLS_AT_ONCE = 5000
"""Scopes told in one beat."""

COMMANDS_AT_ONCE = 4
MOST_COMMANDS = 10_000
"""Commands under way and waiting; a whole fleet may ask for the first time."""

TRIES = Backoff(0.1, 2.0)

log = structlog.get_logger()


class Following:
    """`right_until`, in nanoseconds since boot, is what the door looks at for each request."""

    def __init__(self, line: Line, publisher: Publisher, clock: Clock, chosen: bool) -> None:
        self.life = str(uuid4())
        self.curtain = Curtain()
        self.right_until = 0
        self.shown = 0
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when VMs can be answered, or with the first reason why not."""
        self.failed: asyncio.Future[DuenoticeError] = asyncio.get_running_loop().create_future()
        """Why the process has to end, if it has."""
        self._line, self._publisher, self._clock, self._chosen = line, publisher, clock, chosen
        self._loop = asyncio.get_running_loop()
        self._folding, self._beating, self._listening = Worker("fold"), Worker("beat"), Worker("listen")
        self._asking = Worker("command", threads=COMMANDS_AT_ONCE)
        self._commands = 0
        self._replica: Replica | None = None
        self._stream: Stream | None = None
        self._joined = self._revealed = False
        self._hidden = self._may_show = self._lease = 0
        self._beat_now, self._stirred = asyncio.Event(), asyncio.Event()
        self._polls_told = self._polls_every = 0
        self._polls_at = 0
        self._complained = self._last_node = ""
        self._tasks: list[asyncio.Task[None]] = []

    def may_answer(self) -> bool:
        """Whether VMs may be answered in this moment (N05)."""
        return boot_nanos() < self.right_until

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
            with suppress(DuenoticeError, TimeoutError):
                async with asyncio.timeout(2.0):
                    await self._in(self._beating, lambda: self._line.beat(f.Beat(self.life, leaving=True)))
        for worker in (self._folding, self._beating, self._listening, self._asking):
            worker.shutdown(wait=False, cancel_futures=True)

    async def submit(self, command: Command, actor: str) -> object:
        """Have the node do what a VM asks for (N09); done when VMs can see here its result."""
        match command:
            case EnableScope(vm=vm):
                asked = f.VmCommand(vm)
            case ApproveEvents(event_ids=event_ids, vm=str(vm)):
                asked = f.VmCommand(vm, event_ids)
            case _:
                raise InvariantBroken(f"A follower does not do {type(command).__name__}.", hint="Please report this.")
        done = await self._passed_on(asked)
        try:
            async with asyncio.timeout(max(1.0, seconds(self._lease))):
                while self.shown < done.position:
                    await self._stirred.wait()
        except TimeoutError:
            raise Unavailable("It is done, but is not seen here yet.", hint="Ask again.") from None
        return done

    async def _passed_on(self, asked: f.VmCommand) -> f.Done:
        if self._commands >= MOST_COMMANDS:
            raise Unavailable("Too many VMs ask at once.", hint="Ask again.")
        self._commands += 1
        try:
            return await self._in(self._asking, lambda: self._line.command(asked))
        finally:
            self._commands -= 1

    # --- what the node tells ---

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                await self._follow()
                failures = 0
            except Exception as error:
                self._complain(error)
                if isinstance(error, Refused | InvariantBroken) or not isinstance(error, DuenoticeError):
                    self._replica = None  # begin with a snapshot again
                failures += 1
            finally:
                self._joined = False
            await asyncio.sleep(TRIES.after(failures))

    async def _follow(self) -> None:
        """Until the stream ends."""
        if self._replica is None:
            self._replica = await self._in(self._folding, self._snapshot)
            if self._replica.node == self._last_node:
                self.right_until = 0  # the node takes what we say now for what VMs see here
            self._last_node = self._replica.node
            self._revealed, self._hidden, self._may_show = False, self._replica.position, 0
        node, after = self._replica.node, self._replica.position
        self._stream = stream = await self._in(self._listening, lambda: self._line.listen(node, self.life, after))
        heard: asyncio.Queue[f.Line | None] = asyncio.Queue()
        threading.Thread(target=self._pump, args=(stream, heard), name="stream", daemon=True).start()
        try:
            while (lines := await _all_there_is(heard)) is not None:
                await self._hear(lines)
        finally:
            stream.close()

    def _snapshot(self) -> Replica:
        node, snapshot = self._line.snapshot()
        return Replica(node, snapshot, self._chosen)

    def _pump(self, stream: Stream, heard: "asyncio.Queue[f.Line | None]") -> None:
        with suppress(RuntimeError):  # the loop has ended
            for line in stream:
                self._loop.call_soon_threadsafe(heard.put_nowait, line)
            self._loop.call_soon_threadsafe(heard.put_nowait, None)

    async def _hear(self, lines: list[f.Line]) -> None:
        data: list[Data] = []
        for line in lines:
            if isinstance(line, f.Written | f.Part | f.Passed):
                data.append(line)
                continue
            await self._take(data)
            data = []
            if isinstance(line, f.Hello):
                self._lease, self._joined = line.lease, True
                if self._stream is not None:
                    self._stream.expect(seconds(line.lease))
                self._beat_now.set()
            self._may_show = max(self._may_show, line.shown if isinstance(line, f.Hello) else line.position)
            await self._reveal()
        await self._take(data)

    async def _take(self, data: list[Data]) -> None:
        """Fold, hide, and say so."""
        replica = self._replica
        if not data or replica is None:
            return
        self.curtain.hide(await self._in(self._folding, lambda: replica.take(data)))
        self._hidden = replica.position
        self._beat_now.set()

    async def _reveal(self) -> None:
        """Show all that is folded, if it may be shown."""
        replica = self._replica
        if replica is None or self._may_show < replica.position:
            return
        if self._revealed and self.shown == replica.position:
            self.curtain.lift()
            return
        before = self._publisher.state
        state, touched = await self._in(self._folding, lambda: replica.newest(before))
        self._publisher.publish(state, touched, self._clock.now().steady)
        self.curtain.lift()
        if not self._revealed:
            self._beat_now.set()
        self.shown, self._revealed = replica.position, True
        self._stirred.set()
        self._stirred = asyncio.Event()
        await self._in(self._folding, replica.showed)

    # --- what we tell the node ---

    async def _beat(self) -> None:
        last = 0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SOONEST):
                    await self._beat_now.wait()
            self._clock.beat()
            is_due = self._beat_now.is_set() or boot_micros() - last >= self._lease // BEATS_IN_LEASE
            self._beat_now.clear()
            if self._joined and is_due:
                last = boot_micros()
                await self._try_beat()

    async def _try_beat(self) -> None:
        polls = self._polls()
        replica = self._replica
        if replica is None:
            return
        beat = f.Beat(self.life, replica.node, self._hidden, polls)
        sent = boot_nanos()  # from before it is sent (N05)
        try:
            answer = await self._in(self._beating, lambda: self._line.beat(beat))
        except Conflict as error:
            self.right_until = 0
            self._complain(error)
            if self._stream is not None:
                self._stream.close()
        except DuenoticeError as error:
            self._complain(error)
        else:
            self._polls_every = answer.polls_every
            if self._revealed and replica is self._replica:
                self.right_until = max(self.right_until, sent + 1000 * answer.right)
                self._worked()

    def _polls(self) -> dict[str, int]:
        """How long ago scopes asked, of those that have asked since that was last told (N11)."""
        now = boot_micros()
        if now - self._polls_at < self._polls_every or not self._revealed:
            return {}
        steady, told = self._clock.now().steady, self._polls_told
        asked = ((page.scope, page.last_poll) for page in self._publisher.pages.values() if page.last_poll > told)
        found = sorted(asked, key=lambda each: each[1])
        some = list(islice(found, POLLS_AT_ONCE))
        if some:
            self._polls_told = some[-1][1]
        if len(found) <= POLLS_AT_ONCE:
            self._polls_at = now
        return {scope: max(0, steady - last) for scope, last in some}

    # --- when it does not work ---

    def _complain(self, error: Exception) -> None:
        """Once for each reason, until it works again."""
        if not self.first.done():
            self.first.set_exception(error)
            self.first.exception()
        said = str(error)
        if said != self._complained:
            self._complained = said
            hint = getattr(error, "hint", "")
            log.warning("cannot follow the node", action="follow-failed", error=said, hint=hint)

    def _lost(self, task: "asyncio.Task[None]") -> None:
        """Without one of our tasks nobody is answered; only another process can help."""
        if not task.cancelled() and not self.failed.done():
            error = task.exception()
            self.failed.set_result(
                InvariantBroken(f"A follower's task has ended: {error!r}.", hint="Please report this.")
            )

    def _worked(self) -> None:
        if not self.first.done():
            self.first.set_result(None)
        if self._complained:
            self._complained = ""
            log.info("following the node again", action="follow-again", position=self.shown)

    def _in(self, worker: Worker, work: Callable[[], T]) -> Awaitable[T]:
        return self._loop.run_in_executor(worker, work)


async def _all_there_is(heard: "asyncio.Queue[f.Line | None]") -> list[f.Line] | None:
    """At least one line; None when there are no more."""
    line = await heard.get()
    lines: list[f.Line] = []
    while line is not None:
        lines.append(line)
        if heard.empty():
            return lines
        line = heard.get_nowait()
    heard.put_nowait(None)
    return lines or None
