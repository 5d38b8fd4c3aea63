"""The loop of the simulator: time is made up, processes can be stopped and killed."""

import asyncio
import gc

import pytest
import structlog

from simulator.border import run, world_of
from simulator.loop import Stuck, VirtualLoop
from simulator.machine import MACHINE, Machine, Process


def test_a_day_passes_at_once() -> None:
    with world_of(1) as loop:
        run(loop, asyncio.sleep(86_400))
        assert loop.time() == 86_400


def test_timers_come_in_order_of_time() -> None:
    came: list[str] = []
    with world_of(1) as loop:
        loop.call_later(2, came.append, "second")
        loop.call_later(1, came.append, "first")
        loop.call_later(3, came.append, "never").cancel()
        run(loop, asyncio.sleep(5))
    assert came == ["first", "second"]


def test_a_world_is_told_of_a_rule_that_fails() -> None:
    told, log = list[str](), structlog.get_logger()
    with world_of(1) as loop:
        loop.on_bug = told.append
        log.error("a rule failed", action="invariant-broken", command="Tick()", exc_info=KeyError("vm"))
        log.error("no snapshot left", action="snapshot-failed")
    assert told == ["invariant-broken: Tick() KeyError('vm')"]


def test_a_wait_for_nothing_is_told() -> None:
    with world_of(1) as loop, pytest.raises(Stuck):
        run(loop, loop.create_future())


def test_the_work_of_a_thread_ends_when_its_disk_is_done() -> None:
    async def write() -> float:
        machine.wait(3.0)
        await loop.run_in_executor(None, machine.wait, 2.0)
        return loop.time()

    with world_of(1) as loop:
        machine = Machine("a", loop)
        assert run(loop, Process(machine, "node").begin(write())) == 5.0


def test_the_work_of_a_thread_may_fail_when_nobody_waits_for_it_any_more() -> None:
    async def fail() -> None:
        await asyncio.sleep(1)
        raise TimeoutError("nothing came back")

    async def story() -> None:
        work = loop.run_in_executor(None, lambda: loop.waited(fail))
        await asyncio.sleep(0.5)
        work.cancel()
        await asyncio.sleep(1)

    with world_of(1) as loop:
        run(loop, story())
        gc.collect()  # only then asyncio tells of an error that nobody has looked at
        assert loop.failures == []


def test_what_is_begun_while_a_world_ends_ends_with_it() -> None:
    """It does not come to the loop of the thread, where it would stay."""
    of_thread = asyncio.new_event_loop()

    async def note() -> None:
        await asyncio.sleep(1)

    async def wait() -> None:
        try:
            await loop.create_future()
        finally:
            await asyncio.shield(note())

    try:
        with world_of(1) as loop:
            process = Process(Machine("a", loop), "agent")
            process.begin(wait())
            run(loop, asyncio.sleep(1))
            asyncio.set_event_loop(of_thread)
        assert asyncio.all_tasks(of_thread) == set()
    finally:
        asyncio.set_event_loop(None)
        of_thread.close()


def test_a_stopped_process_goes_on_later_and_a_killed_one_never() -> None:
    came: list[str] = []

    async def count(name: str) -> None:
        try:
            while True:
                await asyncio.sleep(1)
                came.append(name)
        finally:
            came.append("cleaned up")

    async def story() -> None:
        stopped, killed = (Process(Machine(name, loop), name) for name in ("stopped", "killed"))
        stopped.begin(count("stopped"))
        killed.begin(count("killed"))
        await asyncio.sleep(1.5)
        stopped.stop()
        killed.kill()
        await asyncio.sleep(10)
        assert came == ["stopped", "killed"]
        stopped.go_on()
        await asyncio.sleep(0.5)
        assert came == ["stopped", "killed", "stopped"]

    with world_of(1) as loop:
        run(loop, story())


def test_each_machine_has_clocks_of_its_own() -> None:
    async def read() -> tuple[int, str]:
        await asyncio.sleep(1000)
        return MACHINE.get().boot_nanos() // 10**9, f"{MACHINE.get().wall():%H:%M}"

    with world_of(1) as loop:
        fast, wrong = Machine("fast", loop, drift=0.01), Machine("wrong", loop)
        wrong.set_wall(3600)
        tasks = [Process(machine, "reader").begin(read()) for machine in (fast, wrong)]
        assert run(loop, asyncio.wait_for(asyncio.gather(*tasks), 2000)) == [(1110, "00:16"), (1100, "01:16")]


def test_a_set_of_tasks_has_the_order_in_which_they_began() -> None:
    """In each run: else what a node ends when it stops comes in another order each time."""
    loop = VirtualLoop()
    tasks = [loop.create_task(asyncio.sleep(0), name=str(number)) for number in range(50)]
    assert [task.get_name() for task in set(tasks)] == [task.get_name() for task in tasks]
    loop.run_until_complete(asyncio.wait(tasks))
    loop.close()
