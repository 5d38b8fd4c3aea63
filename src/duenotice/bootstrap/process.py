"""The process itself: the beat of its clock, the watchdog of its loop, and the garbage collector.

Time counts only while VMs can be answered (S25). The watchdog ends the process when its loop stands still (S26): nobody
is answered then, and only a restart can help. It counts its own short ticks while no sign of life comes, so a process
that was stopped and continued, or a machine that slept, is not ended. Only for processes that do nothing but serve;
never for a node inside another program.
"""

import asyncio
import faulthandler
import gc
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

import structlog

from duenotice.bootstrap.logs import drain
from duenotice.clock import LAST_READABLE, Alive, Clock, Mark, SystemClock, boot_id, clock_from_name, seconds, wall
from duenotice.domain.state import State
from duenotice.engine.log import CLOCK, RepeatedFailure, report
from duenotice.engine.ports import Journal
from duenotice.errors import Misconfigured

EVERY = 0.25
"""Real seconds between beats. A kill -9 or a standstill makes an event late by its own length, plus at most this."""


def clock_of(name: str, state: State, journal: Journal) -> Clock:
    """The clock that was asked for, from where time stood; held until the doors open."""
    clock = clock_from_name(name, _last_mark(state), journal.alive)
    if clock is None:
        raise Misconfigured(f"clock = {name!r} is not a clock.", hint="Use real, a speed such as 60x, or manual.")
    clock.hold()
    return clock


def _last_mark(state: State) -> Mark | None:
    """Where time stood when we were last running: the last mark, or the last record if that is later."""
    mark = state.mark
    return mark if mark is None or state.steady <= mark.steady else mark._replace(at=state.at, steady=state.steady)


class Heartbeat:
    """Says a few times a second, from when the doors open until they close, that VMs can be answered.

    It runs on the loop that answers them. So the clock knows when that stood still, because the process was stopped or
    the machine slept: such a time is not notice, and `on_absence` is told how long it was. A process that is killed
    leaves a note of how far its notice got. Only the real clock needs that; other clocks go on from their marks.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        on_absence: Callable[[int], None],
        keep_time: Callable[[], int] | None = None,
    ) -> None:
        self._journal, self._clock, self._on_absence = journal, clock, on_absence
        self._keep_time = keep_time or clock.beat
        self._boot_id = boot_id()
        self._unreadable = RepeatedFailure(CLOCK)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> "asyncio.Task[None]":
        """The doors are open: from now on time counts as notice, as long as this task runs."""
        self._clock.run()
        self._clock.beat()
        self._task = asyncio.create_task(self._run(), name="heartbeat")
        return self._task

    def stop(self) -> None:
        """The doors close: from now on time does not count."""
        self._clock.hold()
        if self._task is not None:
            self._task.cancel()
            self._note()

    async def _run(self) -> None:
        while True:
            self._beat()
            await asyncio.sleep(EVERY)

    def _beat(self) -> None:
        lost = self._keep_time()
        if lost:
            report("warning", "the service stood still", action="stood-still", seconds=round(seconds(lost), 1))
            self._on_absence(lost)
        self._look_at_the_wall()
        self._note()

    def _look_at_the_wall(self) -> None:
        """Nothing starts early by a clock that is wrong (S1), but what waits for a time of day may wait for ever."""
        if wall() < LAST_READABLE:
            self._unreadable.worked()
            return
        year = LAST_READABLE.year
        trouble = f"The clock of this machine is beyond the year {year}. VMs are answered, but times are not right."
        self._unreadable.failed(Misconfigured(trouble, hint="Set the clock right (NTP)."))

    def _note(self) -> None:
        if isinstance(self._clock, SystemClock):
            self._journal.note_alive(Alive(self._boot_id, self._clock.now().steady))


EXIT_CODE = 70
"""EX_SOFTWARE; systemd's `Restart=on-failure` and every supervisor start us again."""

LONGEST_TICK = 0.25
TICKS = 20
LAST_SECONDS = 2.0
"""How long the last message may take: perhaps nobody reads it."""

HINT = "The stack on standard error says where it stood still; please report it. Start the service again."


@contextmanager
def watching(loop: asyncio.AbstractEventLoop, seconds: float) -> Iterator[None]:
    """Watch over a loop; with 0 seconds there is no watch."""
    if not seconds:
        yield
        return
    watchdog = Watchdog(loop, seconds, end)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()


class Watchdog(threading.Thread):
    """Calls `bark` when a loop gives no sign of life for this many seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, bark: Callable[[float], None]) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._loop, self._seconds, self._bark = loop, seconds, bark
        self._tick = min(LONGEST_TICK, seconds / TICKS)
        self._over, self._alive = threading.Event(), threading.Event()

    def stop(self) -> None:
        """Stop watching."""
        self._over.set()
        self.join()

    def run(self) -> None:
        stood = 0
        self._alive.set()
        while not self._over.wait(self._tick):
            if self._alive.is_set():
                stood = 0
                self._alive.clear()
                with suppress(RuntimeError):  # it is closed, and somebody is about to stop us
                    self._loop.call_soon_threadsafe(self._alive.set)
            else:
                stood += 1
            if stood * self._tick >= self._seconds:
                self._bark(self._seconds)
                return


def end(seconds: float) -> None:
    """Write where every thread is, and end, even if nobody reads what is written."""
    try:
        last_words = threading.Thread(target=_say, args=(seconds, _stacks()), daemon=True)
        last_words.start()
        last_words.join(LAST_SECONDS)
    finally:
        os._exit(EXIT_CODE)


def _stacks() -> str:
    """Through a file: a full pipe would stop us here, and the whole interpreter too."""
    with os.fdopen(os.memfd_create("stacks"), "w+b") if sys.platform == "linux" else tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read().decode(errors="replace")


def _say(seconds: float, stacks: str) -> None:
    log = structlog.get_logger()
    log.critical("the loop stands still", action="watchdog", seconds=seconds, exit_code=EXIT_CODE, hint=HINT)
    drain()
    sys.stderr.write(stacks)
    sys.stderr.flush()


_SWITCH_SECONDS = 0.001
"""How long a busy thread may keep the loop waiting."""

_YOUNG, _MIDDLE = 10_000, 5
"""Thresholds of the garbage collector: a collection of young objects takes milliseconds."""

_NEVER = 1_000_000_000
_EVERY_SECONDS = 60.0
_MOST_PUT_OFF = 30


class Busy(Protocol):
    """What is under way in a process."""

    @property
    def is_busy(self) -> bool:
        """Whether something is that may have made very many things."""


class GarbageCollection:
    """The collector walks everything while all threads stand still: with millions of objects in an answer under way
    that takes seconds. So it runs by itself only for young objects, and for old ones when no long query is running
    (S26).
    """

    def __init__(self, engine: Busy) -> None:
        self._engine = engine
        self._put_off = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """What is loaded by now lives as long as the process does: the collector need never walk it."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.collect()
        gc.freeze()
        gc.set_threshold(_YOUNG, _MIDDLE, _NEVER)
        self._again()

    def stop(self) -> None:
        """Do not collect the old ones."""
        if self._timer is not None:
            self._timer.cancel()

    def _again(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_EVERY_SECONDS, self._collect)

    def _collect(self) -> None:
        self._put_off = self._put_off + 1 if self._engine.is_busy else 0
        if self._put_off in (0, _MOST_PUT_OFF):
            self._put_off = 0
            gc.collect()
        self._again()
