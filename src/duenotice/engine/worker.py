"""Threads for work that must not be done on the loop; they end with the process, even if work is left."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class Awaited:
    """What a thread needs of a future, for one that a loop awaits. It has no locks: those cost half a small commit."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]") -> None:
        self._loop, self._future = loop, future

    def set_running_or_notify_cancel(self) -> bool:
        """Whether somebody still waits."""
        return not self._future.cancelled()

    def set_result(self, result: Any) -> None:
        """The work is done."""
        self._tell(self._future.set_result, result)

    def set_exception(self, error: BaseException) -> None:
        """The work has failed."""
        self._tell(self._future.set_exception, error)

    def cancel(self) -> None:
        """The work will not be done."""
        self._tell(self._future.cancel)

    def _tell(self, end: Callable[..., object], *outcome: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            self._loop.call_soon_threadsafe(self._end, end, *outcome)

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
        self._threads = [threading.Thread(target=self._run, name=name, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """The future result of some work."""
        future: Future[T] = Future()
        self._put(future, lambda: work(*args, **kwargs))
        return future

    async def result_of(self, work: Callable[[], T]) -> T:
        """The same for who awaits it on a loop, in fewer steps."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._put(Awaited(loop, future), work)
        return await future

    def _put(self, future: "Future[Any] | Awaited", work: Callable[[], Any]) -> None:
        if self._is_shut:
            raise RuntimeError("This worker has been shut down.")
        self._jobs.put((future, work))

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


def _do(future: "Future[Any] | Awaited", work: Callable[[], Any]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


async def run_in(thread: Worker | None, work: Callable[[], T]) -> T:
    """What comes of some work in a thread, or here if there is none."""
    return work() if thread is None else await thread.result_of(work)
