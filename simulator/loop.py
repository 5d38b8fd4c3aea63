"""An asyncio loop whose time is made up: when nothing is left to do, it is the time of the next timer at once.

No thread, no socket, no sleep. What a process of the world begins belongs to that process (`OWNER`): a process that is
stopped does nothing until it goes on, and one that was killed does nothing any more, not even its `finally`.
"""

import asyncio
import heapq
import itertools
import warnings
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import ContextVar, copy_context
from typing import Any, Protocol

Handle = asyncio.Handle


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


class VirtualLoop(asyncio.BaseEventLoop):
    """`time()` is in seconds since the world began."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = itertools.count()
        self._is_over = False
        self._graves: list[set[asyncio.Task[Any]]] = []
        self.turns = self._turns_now = 0
        self.busy_until: Callable[[], float] = lambda: 0.0
        """Until when the work of a thread has taken, if a disk or a store was slow; see `run_in_executor`."""
        self.set_exception_handler(self._note_failure)
        self.failures: list[str] = []

    def time(self) -> float:
        """The time of the world."""
        return self._now

    def _run_once(self) -> None:
        ready, timers = self._ready, self._timers  # type: ignore[attr-defined]
        if not ready:
            while timers and timers[0][2]._cancelled:
                heapq.heappop(timers)
            if not timers:
                raise Stuck("Nothing is left to do, and somebody waits.")
            if timers[0][0] > self._now:
                self._now, self._turns_now = timers[0][0], 0
        self._turns_now += 1
        if self._turns_now > MOST_TURNS:
            raise Stuck("Something goes round and round, and no time passes.")
        while timers and timers[0][0] <= self._now:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            owner = handle._context.get(OWNER)
            if owner is None or owner.runs:
                self.turns += 1
                handle._run()
            else:
                owner.put_off(handle)

    def go_on_with(self, handles: list[Handle]) -> None:
        """Do what was put off."""
        self._ready.extend(handles)  # type: ignore[attr-defined]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """At this time of the world; what has the same time comes in the order in which it was asked for."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._count), timer))
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """So many seconds from now."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is dropped when its time has come."""

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> Handle:
        """There is only one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> Handle:
        """Soon, unless the world is over."""
        handle = Handle(callback, args, self, context)
        if not self._is_over:
            self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
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
            if not executor.is_busy:  # type: ignore[union-attr]
                self._next_job(executor)
        return future

    def _next_job(self, executor: Any) -> None:
        """A thread does one job after the other; the next begins when the answer to the last is there."""
        executor.is_busy = bool(executor.jobs)
        if executor.jobs:
            future, func, args, context = executor.jobs.popleft()
            future.add_done_callback(lambda _: self._next_job(executor), context=context)
            self.call_soon(self._work, future, func, args, context=context)

    def _work(self, future: "asyncio.Future[Any]", func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if future.cancelled():
            return
        try:
            end: Callable[..., None] = _set_result
            result: Any = func(*args)
        except Killed:
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
