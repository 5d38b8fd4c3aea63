"""The clock of a node, and where it goes on at a start. Its time counts only while VMs can be answered (S25)."""

import asyncio
from collections.abc import Callable

from duenotice.clock import LAST_READABLE, Alive, Clock, Mark, SystemClock, boot_id, clock_from_name, seconds, wall
from duenotice.domain.state import State
from duenotice.engine.complaints import CLOCK, Complaints
from duenotice.engine.log import report
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
        self._unreadable = Complaints(report, trouble=CLOCK)
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
