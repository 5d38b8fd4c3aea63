"""Work off the loop."""

import threading

import pytest

from duenotice.engine.worker import Worker


def test_work_is_done_in_order_in_another_thread_and_its_outcome_comes_back() -> None:
    worker = Worker("test")
    done: list[tuple[int, str]] = []
    for number in range(5):
        last = worker.submit(lambda number: done.append((number, threading.current_thread().name)), number)
    assert last.result(5) is None
    assert done == [(number, "test") for number in range(5)]
    worker.shutdown()


def test_a_failure_is_told_to_who_asked_and_the_next_work_is_done() -> None:
    worker = Worker("test")
    with pytest.raises(ZeroDivisionError):
        worker.submit(lambda: 1 // 0).result(5)
    assert worker.submit(lambda: 7).result(5) == 7
    worker.shutdown()


def test_what_waits_can_be_cancelled_with_the_worker() -> None:
    worker, gate = Worker("test"), threading.Event()
    under_way = worker.submit(gate.wait, 5)
    while under_way.running() is False:
        pass
    waiting = worker.submit(lambda: None)
    worker.shutdown(wait=False, cancel_futures=True)
    gate.set()
    with pytest.raises(RuntimeError, match="shut down"):
        worker.submit(lambda: None)
    assert (under_way.result(5), waiting.cancelled()) == (True, True)


def test_two_threads_work_side_by_side() -> None:
    """Each waits for the other: one thread alone would hang."""
    worker, barrier = Worker("test", threads=2), threading.Barrier(2, timeout=5)
    assert sorted(f.result(5) for f in [worker.submit(barrier.wait), worker.submit(barrier.wait)]) == [0, 1]
    worker.shutdown()
