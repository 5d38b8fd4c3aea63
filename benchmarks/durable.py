"""Commands that survive a power cut: one at a time beside a bare fdatasync, and many at once.

The engine and its journal run in this process, on the server's core, without any HTTP around them; then the same over
HTTP, of a whole server.
"""

import asyncio
import gc
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, redirect_stderr
from itertools import count
from pathlib import Path
from time import monotonic, perf_counter
from typing import NamedTuple

import uvloop

from benchmarks.durable_http import over_http
from benchmarks.support.bare_sync import BareFile, bare_file
from benchmarks.support.console import step
from benchmarks.support.fleets import alone
from benchmarks.support.machine import SERVER_CORE, on_core
from benchmarks.support.results import Duel, Row, at_most, figure, p50, p99, reaches
from benchmarks.support.yard import FLEET, Yard
from duenotice.bootstrap.logs import ChangeLog, configure
from duenotice.bootstrap.process import GarbageCollection
from duenotice.clock import MICROS, SystemClock
from duenotice.domain.commands import CancelEvent, Command, EnableScope, ScheduleEvent
from duenotice.domain.event import EventType
from duenotice.domain.policy import Policy
from duenotice.engine.engine import Engine, load
from duenotice.engine.publisher import Publisher
from duenotice.store.sqlite import SqliteJournal

OUTSTANDING = 1000
LIMIT = 2.5
ACTOR = "benchmark"
_ids = (f"00000000-0000-4000-8000-{number:012X}" for number in count(1))


class Round(NamedTuple):
    """Milliseconds each write took."""

    ours: list[float]
    bare: list[float]


def measure(yard: Yard) -> list[Row]:
    """Schedule and cancel events in turns, and wait for each until it is durable; then many at once."""
    with on_core(SERVER_CORE), _logs_thrown_away():
        rows = uvloop.run(_measure(yard))
    return [*rows, *over_http(yard)]


async def _measure(yard: Yard) -> list[Row]:
    writes = 200 if yard.quick else 1000
    async with _engine(yard.data_dir()) as engine:
        vms = await _listening_vms(engine)
        with bare_file(yard.folder("bare"), writes * (yard.rounds + 1)) as bare:
            await _one_at_a_time(engine, vms[0], writes)  # warm up
            rounds = [await _round(engine, vms[0], bare, writes, number) for number in range(1, yard.rounds + 1)]
        grouped = [await _many_at_once(engine, vms, yard.seconds) for _ in range(yard.rounds)]
    step("in groups: " + ", ".join(f"{figure(rate)}/s" for rate in grouped))
    return [*_rows(rounds), reaches(f"commands a second, {OUTSTANDING:,} at once", p50(grouped), 20_000, "/s")]


def _rows(rounds: Sequence[Round]) -> list[Row]:
    middle = Duel([p50(each.ours) for each in rounds], [p50(each.bare) for each in rounds])
    tail = Duel([p99(each.ours) for each in rounds], [p99(each.bare) for each in rounds])
    rates = Duel([sum(each.ours) for each in rounds], [sum(each.bare) for each in rounds])
    ours, bare = (figure(1e3 * len(rounds[0].ours) / p50(side)) for side in rates)
    return [
        at_most("p99 of a durable command beside a bare fdatasync", tail, LIMIT, "ms"),
        Row(
            "p50 of a durable command beside a bare fdatasync",
            f"{figure(p50(middle.ours))} ms",
            f"{figure(p50(middle.reference))} ms",
            middle.cost,
        ),
        Row("commands a second, one at a time", f"{ours} /s", f"{bare} /s", rates.speed),
    ]


async def _round(engine: Engine, vm: str, bare: BareFile, writes: int, number: int) -> Round:
    # Whoever begins may have it easier: take turns in that too.
    first = bare.write(writes) if number % 2 == 0 else None
    ours = await _one_at_a_time(engine, vm, writes)
    done = Round(ours, first or bare.write(writes))
    step(
        f"round {number}: p99 {p99(done.ours):.2f} ms, bare {p99(done.bare):.2f} ms; "
        f"p50 {p50(done.ours):.2f} ms, bare {p50(done.bare):.2f} ms"
    )
    return done


async def _one_at_a_time(engine: Engine, vm: str, writes: int) -> list[float]:
    taken: list[float] = []
    for command in _alternating(vm, writes):
        began = perf_counter()
        await engine.submit(command, ACTOR)
        taken.append((perf_counter() - began) * 1e3)
    return taken


async def _many_at_once(engine: Engine, vms: Sequence[str], seconds: float) -> float:
    """Commands a second while every VM has one under way all the time."""
    until = monotonic() + seconds
    began = perf_counter()
    done = await asyncio.gather(*(_keep_asking(engine, vm, until) for vm in vms))
    return sum(done) / (perf_counter() - began)


async def _keep_asking(engine: Engine, vm: str, until: float) -> int:
    done = 0
    while monotonic() < until:
        for command in _alternating(vm, 2):
            await engine.submit(command, ACTOR)
            done += 1
    return done


def _alternating(vm: str, commands: int) -> Iterator[Command]:
    """Schedule an event, cancel it, and again."""
    for _ in range(commands // 2):
        event_id = next(_ids)
        yield ScheduleEvent(event_id, EventType.FREEZE, (vm,))
        yield CancelEvent(event_id)


async def _listening_vms(engine: Engine) -> list[str]:
    """VMs whose scopes are on, as maintenance of the others would start at once."""
    vms = [name for name, _ in alone(OUTSTANDING, FLEET)]
    await asyncio.gather(*(engine.submit(EnableScope(vm), ACTOR) for vm in vms))
    return vms


@asynccontextmanager
async def _engine(data_dir: Path) -> AsyncIterator[Engine]:
    """An engine as the service wires it, its log lines and the settings of its interpreter included."""
    journal = SqliteJournal(data_dir)
    state = load(journal)
    publisher = Publisher(asyncio.get_running_loop().call_soon)
    engine = Engine(journal, SystemClock(state.mark), Policy(commit_allowance=MICROS), state, publisher)
    changes = ChangeLog()
    engine.on_commit.append(lambda records: changes.add(records, engine.state))
    engine.start()
    tuning = GarbageCollection(engine)
    with _interpreter_as_before():
        tuning.start()
        try:
            yield engine
        finally:
            tuning.stop()
            await engine.stop()


@contextmanager
def _interpreter_as_before() -> Iterator[None]:
    """What `GarbageCollection` sets is for a process that only serves; others are measured after this."""
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
        gc.unfreeze()


@contextmanager
def _logs_thrown_away() -> Iterator[None]:
    """Log lines are made and written as in the service, to nowhere."""
    with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere):
        configure("json")
        yield
