"""Threads for work that must not be done on the loop (S26); they end with the process, even if work is left."""

import asyncio
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from duenotice.domain.bulk import chunks
from duenotice.domain.commands import ApplyFleet

T = TypeVar("T")


class LoopWaker:
    """Brings what threads have done to a loop: they ring, and the loop looks what has come.

    Not `call_soon_threadsafe`: that wakes the loop while the thread still holds the interpreter's lock, so the loop
    wakes up, waits for the lock and sleeps again. A write lets go of the lock first. That is a fifth of a small commit.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._news: deque[Callable[[], object]] = deque()
        self._hears, self._rings = os.pipe()
        self._closing = threading.Lock()  # nobody may write into a file that has got this number since
        os.set_blocking(self._hears, False)
        os.set_blocking(self._rings, False)
        loop.add_reader(self._hears, self._bring)

    def tell(self, news: Callable[[], object]) -> None:
        """Have this called on the loop; from any thread."""
        self._news.append(news)
        try:
            with self._closing:
                if not self.is_closed:
                    os.write(self._rings, b"!")
        except BlockingIOError:  # one that is full wakes the loop too
            pass

    def close_soon(self) -> None:
        """No thread has anything to tell any more; from any thread."""
        try:
            self.loop.call_soon_threadsafe(self._close)
        except RuntimeError:  # the loop is closed
            self._close()

    @property
    def is_closed(self) -> bool:
        """Whether its files are closed."""
        return self._rings < 0

    def _close(self) -> None:
        if self.is_closed:
            return
        if not self.loop.is_closed():
            self._bring()
            self.loop.remove_reader(self._hears)
        with self._closing:
            os.close(self._hears)
            os.close(self._rings)
            self._rings = -1

    def _bring(self) -> None:
        try:  # noqa: SIM105 - as above
            os.read(self._hears, 4096)
        except BlockingIOError:
            pass
        while self._news:
            self._news.popleft()()


_Result = tuple[LoopWaker, "asyncio.Future[Any]"]
_Job = tuple[Callable[[], Any], _Result | None]
"""Some work, and who awaits its result."""


class WorkerThread:
    """Does one job after another, in one thread or in each of several.

    Not a `ThreadPoolExecutor`: it takes no more work as soon as the interpreter begins to end, while a node inside
    another program may still have to store what it was asked to. And its futures have locks: those cost half a small
    commit.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._is_shut = False
        self._waker: LoopWaker | None = None
        self._ended: list[None] = []
        self._threads = [threading.Thread(target=self._run, name=name, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def do(self, work: Callable[[], object]) -> None:
        """Have it done; nobody waits for it, or hears that it has failed."""
        self._put(work, None)

    def call(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """The result of some work, for the loop that runs here."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._put(work, (self._waker_of(loop), future))
        return future

    def _waker_of(self, loop: asyncio.AbstractEventLoop) -> LoopWaker:
        self._refuse_if_shut()
        if self._waker is None or self._waker.loop is not loop:
            if self._waker is not None:
                self._waker.close_soon()
            self._waker = LoopWaker(loop)
        return self._waker

    def _put(self, work: Callable[[], Any], result: _Result | None) -> None:
        self._refuse_if_shut()
        self._jobs.put((work, result))

    def _refuse_if_shut(self) -> None:
        if self._is_shut:
            raise RuntimeError("This worker has been shut down.")

    def shutdown(self, *, wait: bool = True, cancel: bool = False) -> None:
        """Take no more work; what is waiting is done first, unless it is to be cancelled."""
        self._is_shut = True
        while cancel and (job := self._next()) is not None:
            if job[1] is not None:
                waker, future = job[1]
                waker.tell(future.cancel)
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def _next(self) -> _Job | None:
        try:
            return self._jobs.get_nowait()
        except queue.Empty:
            return None

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            _do(*job)
            del job  # nothing of it is kept while waiting for the next
        self._ended.append(None)
        if len(self._ended) == len(self._threads) and self._waker is not None:
            self._waker.close_soon()


def _do(work: Callable[[], Any], result: _Result | None) -> None:
    if result is None:
        with suppress(BaseException):
            work()
        return
    waker, future = result
    if future.cancelled():
        return
    try:
        end = partial(future.set_result, work())
    except BaseException as error:
        end = partial(future.set_exception, error)
    waker.tell(lambda: future.done() or end())


async def run_in(thread: WorkerThread | None, work: Callable[[], T]) -> T:
    """What comes of some work in a thread, or here if there is none."""
    return work() if thread is None else await thread.call(work)


class LoopThread:
    """Opened by the first work, closed for good by `close`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of some work, done in that thread."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._open()))

    def close(self) -> None:
        """End the thread; unfinished work is dropped."""
        if self._loop is not None and self._thread is not None:
            asyncio.run_coroutine_threadsafe(_drop_all(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = None

    def _open(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
            self._thread.start()
        return self._loop


async def _drop_all() -> None:
    """Cancelled, not forgotten: work that has not begun yet must not be reported as lost."""
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


def free_in_steps(things: list[Any]) -> None:
    """Empty the list. What is large in it is taken apart first, and its parts are given back one after the other.

    Others may still use such a thing, so it is never changed: only its parts are held here until their turn comes.
    """
    while things:
        things.extend(_parts(things.pop()))


def _parts(thing: object) -> Iterable[Any]:
    """Tuples hold records, sets and tuples; a list is one part. A dict has a million VMs as its values."""
    if isinstance(thing, ApplyFleet):
        return [list(some) for some in chunks(thing.declaration.vms)]
    if isinstance(thing, dict):
        return [list(some) for some in chunks(thing.values())]
    return thing if isinstance(thing, tuple) else ()
