"""An asyncio loop whose time is made up: when nothing is left to do, it is the time of the next timer at once.

No thread, no socket, no sleep. What a process of the world begins belongs to that process (`OWNER`): a process that is
stopped does nothing until it goes on, and one that was killed does nothing any more, not even its `finally`.
"""

import asyncio
import heapq
import itertools
import warnings
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context, ContextVar, copy_context
from typing import Any, Protocol, TypeVar, cast

T = TypeVar("T")


class Handle:
    """A callback that waits for its turn. As asyncio's, with no more than this loop needs: there are millions."""

    __slots__ = ("args", "callback", "context", "is_cancelled", "moment")

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...], context: Any, moment: float = 0.0) -> None:
        self.callback, self.args, self.moment = callback, args, moment
        self.context: Context = copy_context() if context is None else context
        self.is_cancelled = False

    def cancel(self) -> None:
        """It is not called; what it would have used can go."""
        self.is_cancelled, self.callback, self.args = True, _nothing, ()

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.moment


def _nothing() -> None:
    """What a handle does that was cancelled."""


class Owner(Protocol):
    """Whose callbacks they are."""

    runs: bool

    def put_off(self, handle: Handle) -> None:
        """Keep a callback for later, or drop it: its owner does not run."""


OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)
"""The process that runs now; what it begins inherits it."""


class Stuck(RuntimeError):
    """Nothing is left to do, now or later, and yet somebody waits."""


MOST_TURNS = 100_000
"""Turns of the loop in one moment of the world, before it counts as stuck."""


class Killed(BaseException):
    """A process was killed in the middle of some work of its threads."""


class Waits(BaseException):
    """Work of a thread has to wait for something that takes time in the world; see `VirtualLoop.waited`."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        super().__init__()
        self.work = work


class NumberedTask(asyncio.Task[Any]):
    """Its hash is a number, so a set of tasks has the same order in each run; else that depends on where they are."""

    def __init__(self, work: Coroutine[Any, Any, Any], loop: "VirtualLoop", **more: Any) -> None:
        self._hash = next(loop.tasks)
        super().__init__(work, loop=loop, **more)

    def __hash__(self) -> int:
        return self._hash


class VirtualLoop(asyncio.BaseEventLoop):
    """`time()` is in seconds since the world began."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._timers: list[tuple[float, int, Handle]] = []
        self._count, self.tasks = itertools.count(), itertools.count()
        self.set_task_factory(lambda loop, work, **more: NumberedTask(work, self, **more))
        self._is_over = False
        self._graves: list[set[asyncio.Task[Any]]] = []
        self._came: list[asyncio.Future[Any]] = []
        self.busy_until: Callable[[], float] = lambda: 0.0
        """Until when the work of a thread has taken, if a disk or a store was slow; see `run_in_executor`."""
        self.set_exception_handler(self._note_failure)
        self.failures: list[str] = []
        self.on_bug: Callable[[str], None] = lambda _: None
        """Told of what a node logs when one of its rules has failed."""

    def time(self) -> float:
        """The time of the world."""
        return self._now

    def _run_once(self) -> None:
        """As many turns as there are, until somebody asks the loop to stop."""
        ready, timers, pop = self._ready, self._timers, heapq.heappop  # type: ignore[attr-defined]
        take, add, now, turns = ready.popleft, ready.append, self._now, 0
        while not self._stopping or not turns:  # type: ignore[attr-defined]
            if not ready:
                while timers and timers[0][2].is_cancelled:
                    pop(timers)
                if not timers:
                    raise Stuck("Nothing is left to do, and somebody waits.")
                if timers[0][0] > now:
                    self._now, turns = (now := timers[0][0]), 0
            turns += 1
            if turns > MOST_TURNS:
                raise Stuck("Something goes round and round, and no time passes.")
            while timers and timers[0][0] <= now:
                add(pop(timers)[2])
            for _ in range(len(ready)):
                handle = take()
                if handle.is_cancelled:
                    continue
                context = handle.context
                owner = context.get(OWNER)
                if owner is not None and not owner.runs:
                    owner.put_off(handle)
                    continue
                try:
                    context.run(handle.callback, *handle.args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    what = {"message": f"Exception in callback {handle.callback!r}", "exception": error}
                    self.call_exception_handler(what)

    def go_on_with(self, handles: list[Handle]) -> None:
        """Do what was put off."""
        self._ready.extend(handles)  # type: ignore[attr-defined]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> Handle:
        """At this time of the world; what has the same time comes in the order in which it was asked for."""
        timer = Handle(callback, args, context, when)
        heapq.heappush(self._timers, (when, next(self._count), timer))
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> Handle:
        """So many seconds from now."""
        timer = Handle(callback, args, context, when := self._now + delay)
        heapq.heappush(self._timers, (when, next(self._count), timer))
        return timer

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> Handle:
        """There is only one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> Handle:
        """Soon, unless the world is over."""
        handle = Handle(callback, args, context)
        if not self._is_over:
            self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """What comes of the work of a thread: it is done in the next turn; its result is there when it has ended.

        Work takes no time by itself. If a slow disk or store has moved the clock of its machine on (`busy_until`), the
        result comes then, and the loop of that process goes on meanwhile.
        """
        future = self.create_future()
        jobs = getattr(executor, "jobs", None)
        if jobs is None:
            self.call_soon(self._work, future, func, args)
        else:
            jobs.append((future, func, args, copy_context()))
            if not executor.is_busy:
                self._next_job(executor)
        return future

    def _next_job(self, executor: Any) -> None:
        """A thread does one job after the other; the next begins when the answer to the last is there."""
        executor.is_busy = bool(executor.jobs)
        if executor.jobs:
            future, func, args, context = executor.jobs.popleft()
            future.add_done_callback(lambda _: self._next_job(executor), context=context)
            self.call_soon(self._work, future, func, args, context=context)

    def waited(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """For the work of a thread: what comes of something that takes time in the world.

        There are no threads. So the work is left here, and done again from its beginning when that has ended; it must
        not have done anything before.
        """
        if not self._came:
            raise Waits(begin())
        return cast(T, self._came.pop(0).result())

    def _work(
        self,
        future: "asyncio.Future[Any]",
        func: Callable[..., Any],
        args: tuple[Any, ...],
        came: Sequence["asyncio.Future[Any]"] = (),
    ) -> None:
        if future.cancelled():
            for each in came:  # nobody waits any more; asyncio would take an error in it for one that was overlooked
                each.cancelled() or each.exception()
            return
        try:
            end: Callable[..., None] = _set_result
            self._came = list(came)
            result: Any = func(*args)
        except Killed:
            return
        except Waits as waits:
            task = self.create_task(waits.work)
            task.add_done_callback(lambda done: self._work(future, func, args, (*came, done)))
            return
        except Exception as error:
            end, result = _set_exception, error
        if (until := self.busy_until()) > self._now:
            self.call_at(until, end, future, result)
        else:
            end(future, result)

    def _note_failure(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What asyncio would only log is a finding here."""
        self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")

    def _process_events(self, event_list: Any) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps."""

    def bury(self) -> None:
        """A process has died: keep its tasks until the world is over, or Python would let them clean up."""
        self._graves.append(asyncio.all_tasks(self))

    def end_world(self) -> None:
        """Let go of all that still waits, without letting it do anything in the world."""
        self._is_over = True
        self.set_exception_handler(lambda *_: None)
        # A `finally` that wants to begin something must not find a loop: it would be begun in that of the thread, and
        # stay there until that loop goes, in the middle of another test.
        asyncio.set_event_loop(None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of coroutines that were about to be awaited
            self._let_go()
        self.close()

    def _let_go(self) -> None:
        closed: set[asyncio.Task[Any]] = set()
        while left := asyncio.all_tasks(self) - closed:  # what is closed may begin something in its `finally`
            for task in sorted(left, key=lambda task: task.get_name()):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _close(task.get_coro())
            closed |= left
        self._ready.clear()  # type: ignore[attr-defined]
        self._timers.clear()
        self._graves.clear()


def _close(work: Any) -> None:
    """End a coroutine, though its `finally` may wait for more than one thing."""
    for _ in range(20):
        try:
            work.close()
            return
        except BaseException:
            continue


def _set_result(future: "asyncio.Future[Any]", result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _set_exception(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
