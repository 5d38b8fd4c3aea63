"""Threads for work that must not be done on the loop; they end with the process, even if work is left."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

_Job = tuple["Future[Any]", Callable[[], Any]]


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
        if self._is_shut:
            raise RuntimeError("This worker has been shut down.")
        future: Future[T] = Future()
        self._jobs.put((future, lambda: work(*args, **kwargs)))
        return future

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


def _do(future: "Future[Any]", work: Callable[[], Any]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


async def run_in(thread: Worker | None, work: Callable[[], T]) -> T:
    """What comes of some work in a thread, or here if there is none."""
    return work() if thread is None else await asyncio.get_running_loop().run_in_executor(thread, work)
