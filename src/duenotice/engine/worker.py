"""Threads for work that must not be done on the loop; they end with the process, even if work is left."""

import asyncio
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class Bell:
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


class Awaited:
    """What a thread needs of a future, for one that a loop awaits. It has no locks: those cost half a small commit."""

    __slots__ = ("_bell", "_future")

    def __init__(self, bell: Bell, future: "asyncio.Future[Any]") -> None:
        self._bell, self._future = bell, future

    def set_running_or_notify_cancel(self) -> bool:
        """Whether somebody still waits."""
        return not self._future.cancelled()

    def set_result(self, result: Any) -> None:
        """The work is done."""
        self._bell.tell(partial(self._end, self._future.set_result, result))

    def set_exception(self, error: BaseException) -> None:
        """The work has failed."""
        self._bell.tell(partial(self._end, self._future.set_exception, error))

    def cancel(self) -> None:
        """The work will not be done."""
        self._bell.tell(partial(self._end, self._future.cancel))

    def _end(self, end: Callable[..., object], *outcome: Any) -> None:
        if not self._future.done():
            end(*outcome)


_Job = tuple["Future[Any] | Awaited", Callable[[], Any]]


class Worker(Executor):
    """Does one job after another in each of its threads.

    Not a `ThreadPoolExecutor`: it takes no more work as soon as the interpreter begins to end, while a node inside
    another program may still have to store what it was asked to.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._is_shut = False
        self._bell: Bell | None = None
        self._ended: list[None] = []
        self._threads = [threading.Thread(target=self._run, name=name, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """The future result of some work."""
        future: Future[T] = Future()
        self._put(future, lambda: work(*args, **kwargs))
        return future

    def result_of(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """The same for who awaits it on a loop, in fewer steps."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._put(Awaited(self._bell_of(loop), future), work)
        return future

    def _bell_of(self, loop: asyncio.AbstractEventLoop) -> Bell:
        self._refuse_if_shut()
        if self._bell is None or self._bell.loop is not loop:
            if self._bell is not None:
                self._bell.close_soon()
            self._bell = Bell(loop)
        return self._bell

    def _put(self, future: "Future[Any] | Awaited", work: Callable[[], Any]) -> None:
        self._refuse_if_shut()
        self._jobs.put((future, work))

    def _refuse_if_shut(self) -> None:
        if self._is_shut:
            raise RuntimeError("This worker has been shut down.")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work; what is waiting is done first, unless it is to be cancelled."""
        self._is_shut = True
        while cancel_futures and (job := self._next()) is not None:
            job[0].cancel()
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
            future, work = job
            if future.set_running_or_notify_cancel():
                _do(future, work)
            del job, future, work  # nothing of it is kept while waiting for the next
        self._ended.append(None)
        if len(self._ended) == len(self._threads) and self._bell is not None:
            self._bell.close_soon()


def _do(future: "Future[Any] | Awaited", work: Callable[[], Any]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


async def run_in(thread: Worker | None, work: Callable[[], T]) -> T:
    """What comes of some work in a thread, or here if there is none."""
    return work() if thread is None else await thread.result_of(work)
