"""Work off the loop."""

import asyncio
import threading
import weakref

import pytest

from duenotice.engine.threads import LoopWaker, WorkerThread, run_in
from tests.unit.engine.rig import in_loop


@in_loop
async def test_work_is_done_in_order_in_another_thread_and_its_outcome_comes_back() -> None:
    worker = WorkerThread("test")
    done: list[tuple[int, str]] = []
    for number in range(4):
        worker.do(lambda number=number: done.append((number, threading.current_thread().name)))  # type: ignore[misc]
    assert await worker.call(lambda: done.append((4, threading.current_thread().name))) is None  # type: ignore[func-returns-value]
    assert done == [(number, "test") for number in range(5)]
    worker.shutdown()


@in_loop
async def test_a_failure_is_told_to_who_asked_and_the_next_work_is_done() -> None:
    worker = WorkerThread("test")
    with pytest.raises(ZeroDivisionError):
        await worker.call(lambda: 1 // 0)
    worker.do(lambda: 1 // 0)
    assert await worker.call(lambda: 7) == 7
    worker.shutdown()


@in_loop
async def test_what_waits_can_be_cancelled_with_the_worker() -> None:
    worker, gate, begun, done = WorkerThread("test"), threading.Event(), threading.Event(), list[str]()
    under_way = worker.call(lambda: (begun.set(), gate.wait(5))[1])  # type: ignore[func-returns-value]
    begun.wait(5)
    worker.do(lambda: done.append("nobody waits"))
    waiting = worker.call(lambda: None)
    worker.shutdown(wait=False, cancel=True)
    gate.set()
    with pytest.raises(RuntimeError, match="shut down"):
        worker.call(lambda: None)
    with pytest.raises(RuntimeError, match="shut down"):
        worker.do(lambda: None)
    assert await under_way is True
    await asyncio.wait([waiting])
    assert (waiting.cancelled(), done) == (True, [])


@in_loop
async def test_two_threads_work_side_by_side() -> None:
    """Each waits for the other: one thread alone would hang."""
    worker, barrier = WorkerThread("test", threads=2), threading.Barrier(2, timeout=5)
    assert sorted(await asyncio.gather(worker.call(barrier.wait), worker.call(barrier.wait))) == [0, 1]
    worker.shutdown()


@in_loop
async def test_who_awaits_work_gets_its_result_or_its_failure() -> None:
    worker = WorkerThread("test")
    assert await run_in(worker, lambda: threading.current_thread().name) == "test"
    with pytest.raises(ZeroDivisionError):
        await run_in(worker, lambda: 1 // 0)
    worker.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        await run_in(worker, lambda: None)


@in_loop
async def test_work_that_nobody_awaits_any_more_is_not_begun() -> None:
    worker, gate, done = WorkerThread("test"), threading.Event(), list[str]()
    first = asyncio.ensure_future(run_in(worker, lambda: gate.wait(5)))
    second = asyncio.ensure_future(run_in(worker, lambda: done.append("second")))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    gate.set()
    assert await first
    await run_in(worker, lambda: done.append("third"))
    assert (done, second.cancelled()) == (["third"], True)
    worker.shutdown()


@in_loop
async def test_who_awaits_work_that_is_cancelled_with_the_worker_hears_of_it() -> None:
    worker, gate = WorkerThread("test"), threading.Event()
    under_way = asyncio.ensure_future(run_in(worker, lambda: gate.wait(5)))
    waiting = asyncio.ensure_future(run_in(worker, lambda: None))
    await asyncio.sleep(0)
    while worker._jobs.qsize() > 1:  # the first is not under way yet
        pass
    worker.shutdown(wait=False, cancel=True)
    gate.set()
    assert await under_way
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_work_that_ends_after_the_loop_harms_nobody() -> None:
    worker, gate = WorkerThread("test"), threading.Event()

    async def leave() -> None:
        asyncio.ensure_future(run_in(worker, lambda: gate.wait(5)))  # noqa: RUF006 - nobody waits for it
        await asyncio.sleep(0)

    asyncio.run(leave())
    gate.set()
    assert asyncio.run(_seven(worker)) == 7
    worker.shutdown()


async def _seven(worker: WorkerThread) -> int:
    return await worker.call(lambda: 7)


@pytest.mark.parametrize("wait", [True, False])
def test_a_worker_that_is_shut_down_leaves_no_file_open(wait: bool) -> None:
    wakers: list[LoopWaker | None] = []

    async def use() -> None:
        worker = WorkerThread("test", threads=2)
        await run_in(worker, lambda: None)
        wakers.append(worker._waker)
        worker.shutdown(wait=wait)
        for thread in worker._threads:
            thread.join(5)
        await asyncio.sleep(0)

    asyncio.run(use())
    asyncio.run(use())
    assert [waker is not None and waker.is_closed for waker in wakers] == [True, True]


@in_loop
async def test_very_many_outcomes_at_once_all_come_back() -> None:
    """More than the loop hears of in one read."""
    worker = WorkerThread("test", threads=2)
    numbers = await asyncio.gather(*(run_in(worker, lambda number=n: number) for n in range(10_000)))  # type: ignore[misc]
    assert numbers == list(range(10_000))
    worker.shutdown()


class Thing:
    pass


@in_loop
async def test_a_thread_at_rest_keeps_nothing_of_its_last_work() -> None:
    worker, thing = WorkerThread("test"), Thing()
    gone = weakref.ref(thing)
    assert await run_in(worker, lambda held=thing: held) is thing  # type: ignore[misc]
    del thing
    while gone() is not None:  # noqa: ASYNC110 - the thread is about to let go of it
        await asyncio.sleep(0)
    worker.shutdown()
