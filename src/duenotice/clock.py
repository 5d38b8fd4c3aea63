"""The only room that reads time: a real, a scaled and a manual clock, all giving the same `Instant`.

An instant has two faces. `at` is the time of day, what people and documents read; it may jump when
somebody sets the clock. `steady` only grows, at the clock's own pace, over the whole life of the journal;
notice is measured in it, so a jumping wall clock starts nothing early (S1).

Steady time and every span of it are whole microseconds, as exact as a `datetime`: rounding never decides anything.
People, files and JSON say seconds; `micros` and `seconds` convert between the two.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import RLock
from typing import NamedTuple, Protocol

MICROS = 1_000_000
"""Microseconds in a second."""

LONGEST_PAUSE = 2 * MICROS
"""The longest pause between two beats that counts as notice: longer than healthy pauses, shorter than any notice."""

_MICROSECOND = timedelta(microseconds=1)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def micros(seconds: float) -> int:
    """A span that somebody gave in seconds, in microseconds."""
    return round(seconds * MICROS)


def micros_of(span: timedelta) -> int:
    """A span between two times of day, in microseconds; exact."""
    return span // _MICROSECOND


def seconds(micros: int) -> float:
    """A span in seconds, to show it to somebody."""
    return micros / MICROS


LAST_MOMENT = datetime.max.replace(microsecond=0, tzinfo=UTC)
"""The last that a document can show."""


def later(at: datetime, span: timedelta) -> datetime:
    """That much later, or the last moment that there is: a clock that is far ahead stops no rule (S23)."""
    return at + span if span <= LAST_MOMENT - at else LAST_MOMENT


class Instant(NamedTuple):
    """One moment: `at` in aware UTC, `steady` in microseconds since the journal began."""

    at: datetime
    steady: int

    def after(self, micros: int) -> "Instant":
        """The instant that many microseconds later on an undisturbed clock."""
        return self if micros == 0 else Instant(later(self.at, timedelta(microseconds=micros)), self.steady + micros)

    def has_come(self, now: "Instant") -> bool:
        """Whether it is too late by both faces; nothing is given up before (S34, decision 0019)."""
        return self.steady <= now.steady and self.at <= now.at


class Mark(NamedTuple):
    """Where a clock stood and on which boot, written down so that the next process can go on from there.

    Of a scaled clock also the speed it was `given` at its start, and the `speed` that it had by then.
    """

    at: datetime
    steady: int
    boot_id: str = ""
    boot_micros: int = 0
    given: float = 0.0
    speed: float = 0.0


class Alive(NamedTuple):
    """The last moment in which VMs could be answered, as a process noted it while it was there to answer them.

    It is never too late, as long as the machine was not booted again. After another boot it may be anything.
    """

    boot_id: str
    steady: int


class Clock(Protocol):
    """What the engine needs to know about time."""

    @property
    def name(self) -> str:
        """How a person asks for this clock: real, 60x, manual."""

    @property
    def speed(self) -> float:
        """Clock seconds per real second; 0 when time passes only when told."""

    def now(self) -> Instant:
        """The present instant."""

    def mark(self) -> Mark:
        """The present instant with what a restart needs to go on from it."""

    def hold(self) -> None:
        """Let steady time stand still: nobody can be answered, so this time is not notice (S25)."""

    def run(self) -> None:
        """Let steady time go on from where it is held."""

    def beat(self) -> int:
        """Say that VMs are answered now.

        Returns the real microseconds that did not count, as nobody was answered (S25).
        """


def boot_id() -> str:
    """Names this boot of the machine; empty where the kernel does not tell."""
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""


_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


boot_nanos = partial(time.clock_gettime_ns, _SINCE_BOOT)
"""Nanoseconds since boot, as cheaply as they can be had: asked for each poll."""


def boot_micros() -> int:
    """Microseconds since boot, suspend included; unaffected by anybody setting the wall clock."""
    return time.clock_gettime_ns(_SINCE_BOOT) // 1000


def monotonic() -> float:
    """Seconds for measuring spans of real time, such as a connection's deadline."""
    return time.monotonic()


def processor_seconds() -> float:
    """Processor time that this thread has had: what a piece of work costs on a machine that others use too."""
    return time.thread_time()


def _monotonic_micros() -> int:
    return time.monotonic_ns() // 1000


LAST_READABLE = datetime(2262, 4, 11, 23, 47, 16, tzinfo=UTC)
"""Python counts the time of day in nanoseconds of 63 bits. Beyond this it fails or stands still, by its version."""


def wall() -> datetime:
    """The real time of day. A clock that is too far ahead to be read ends no process."""
    try:
        return datetime.now(UTC)
    except OverflowError:
        return LAST_READABLE


_python_time = time.time


def _seconds_since_1970() -> float:
    try:
        return _python_time()
    except OverflowError:
        return LAST_READABLE.timestamp()


def survive_every_year() -> None:
    """From now on `time.time` fails in no year: libraries ask it, `logging` for each line, and do not expect that."""
    time.time = _seconds_since_1970


def seconds_since_2020() -> int:
    """A number that grows by itself on every machine, and fits 32 bits until 2088."""
    return int((wall() - datetime(2020, 1, 1, tzinfo=UTC)).total_seconds())


class _RunningClock:
    """Time that passes by itself, as far as it counts: what the real and a scaled clock have in common.

    Between the first beat and `hold` it follows the beats: if the pause between two beats is too long, it does not
    count; and time that is too long after the last beat does not count yet. So the first reader after a standstill
    finds the clock where it was. Any thread may read it, and it never goes back.
    """

    speed = 1.0

    def __init__(self, reading: Callable[[], int]) -> None:
        self._lock = RLock()
        self._reading = reading
        self._before = self._counted = 0  # clock time until the speed was last set; real time since then
        self._until = reading()
        self._runs = True
        self._beaten: int | None = None

    def hold(self) -> None:
        with self._lock:
            self._count(self._reading())
            self._runs, self._beaten = False, None

    def run(self) -> None:
        with self._lock:
            if not self._runs:
                self._runs, self._until = True, self._reading()

    def beat(self) -> int:
        with self._lock:
            if not self._runs:
                return 0
            reading = self._reading()
            self._count(reading)
            lost = reading - self._until
            self._until = self._beaten = reading
            return lost

    def _passed(self) -> int:
        with self._lock:
            self._count(self._reading())
            return self._before + int(self._counted * self.speed)

    def _count(self, reading: int) -> None:
        if self._runs and (self._beaten is None or reading - self._beaten <= LONGEST_PAUSE):
            self._counted += reading - self._until
            self._until = reading


class SystemClock(_RunningClock):
    """Real time. The time of day is the machine's; `steady` is the time since boot, as far as that counts."""

    name = "real"

    def __init__(self, last: Mark | None = None, alive: Alive | None = None) -> None:
        super().__init__(lambda: boot_micros())
        self._begun = _steady_at_start(last, alive)

    def now(self) -> Instant:
        return Instant(wall(), self._begun + self._passed())

    def mark(self) -> Mark:
        return Mark(*self.now(), boot_id(), boot_micros())


def _steady_at_start(last: Mark | None, alive: Alive | None) -> int:
    """Where the last process was when it could last answer.

    Nobody was told anything since, so that time is not notice (S25). On another boot only the last mark is sure, and
    nobody knows how long we were away: the wall clock may be wrong.
    """
    steady = 0 if last is None else last.steady
    if alive is None or not alive.boot_id or alive.boot_id != boot_id():
        return steady
    return max(steady, alive.steady)


class ScaledClock(_RunningClock):
    """Time that runs `speed` times as fast; begins at the real time once, then goes on from its mark.

    A speed that was set meanwhile stays too, unless this start asks for another speed than the last start did.
    """

    def __init__(self, speed: float, last: Mark | None = None) -> None:
        super().__init__(lambda: _monotonic_micros())
        self._given = speed
        self.speed = speed if last is None or last.given != speed else last.speed
        self._origin = _origin(last)

    @property
    def name(self) -> str:
        return f"{self.speed:g}x"

    def set_speed(self, speed: float) -> None:
        """Go on from now at another speed."""
        with self._lock:
            self._before, self._counted, self.speed = self._passed(), 0, speed

    def now(self) -> Instant:
        return self._origin.after(self._passed())

    def mark(self) -> Mark:
        return Mark(*self.now(), given=self._given, speed=self.speed)


class ManualClock:
    """Time that passes only when told."""

    name = "manual"
    speed = 0.0

    def __init__(self, last: Mark | None = None) -> None:
        self._now = _origin(last)

    def now(self) -> Instant:
        return self._now

    def mark(self) -> Mark:
        return Mark(*self._now)

    def hold(self) -> None:
        """Nothing: it stands still between two calls of `advance`."""

    def run(self) -> None:
        """Nothing: only `advance` moves it."""

    def beat(self) -> int:
        return 0

    def advance(self, micros: int) -> None:
        """Let that much time pass; it never goes back."""
        self._now = self._now.after(max(0, micros))


def _origin(last: Mark | None) -> Instant:
    if last is not None:
        return Instant(last.at, last.steady)
    # A whole second, so that "advance 15 minutes" meets a NotBefore that documents show in whole seconds.
    return Instant(wall().replace(microsecond=0), 0)


def clock_from_name(name: str, last: Mark | None = None, alive: Alive | None = None) -> Clock | None:
    """`real`, `manual` or a speed such as `60x`; None when the name is none of these."""
    if name == "real":
        return SystemClock(last, alive)
    if name == "manual":
        return ManualClock(last)
    speed = parse_speed(name)
    return None if speed is None else ScaledClock(speed, last)


def parse_speed(text: str) -> float | None:
    """`60x` as a number; None when it is not a speed, or is too large."""
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        return None
    return speed if text.endswith("x") and 0 < speed <= 100_000 else None
