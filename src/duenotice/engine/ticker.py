"""Wakes the engine when something is due, and moves a manual clock from one due moment to the next."""

import asyncio

from duenotice.clock import MICROS, Instant, ManualClock, SystemClock, micros_of, seconds
from duenotice.domain.bulk import chunks
from duenotice.domain.commands import DisableScopes, MakeUpForDowntime, MarkClock, Tick
from duenotice.domain.rules.decide import SILENCE
from duenotice.domain.rules.due import next_due, window_is_due
from duenotice.domain.rules.timing import LAST_TOLD
from duenotice.engine.engine import SELF, Engine
from duenotice.engine.log import report
from duenotice.engine.shared_time import SharedClock
from duenotice.errors import DuenoticeError, Refused

LONGEST_SLEEP = 1.0
"""Longest sleep in real seconds: after a suspend, or when the clock was set, we look again soon."""

_HELD_SLEEP = 0.25
"""Real seconds between looks at something that is due but may not start yet."""

_SWEEP_EVERY = 600 * MICROS
"""Steady time between looks for silent scopes."""

_SWEPT_AT_ONCE = 10_000
"""Scopes looked at in one turn of the loop."""

_MARK_EVERY = 60 * MICROS
"""Real time between marks of a scaled clock. A kill -9 can set the clock back by at most this, times its speed."""

_REAL_MARK_EVERY = 600 * MICROS
"""Time between marks of the real clock while something is scheduled. A power loss can make it late by at most this."""

_TRY_AGAIN = 0.5
"""Real seconds between tries when nothing can be stored: once it can, what is due starts within a second."""

_MOST_ROUNDS = 5
"""Rounds of making up for an absence; one is enough unless commits become slower and slower."""


class Ticker:
    """The part of the engine that waits."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._swept = engine.clock.now().steady
        self._marked = self._looked = self._swept
        self._absent = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to wait."""
        self._task = asyncio.create_task(self._run(), name="ticker")
        self._task.add_done_callback(self._engine.lost)

    def pause(self) -> None:
        """Stop waiting until it is started again: another node leads."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """Stop waiting."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def absent(self, micros: int) -> None:
        """Nobody could be answered for this long: documents get later times before anything else happens (S25)."""
        self._absent += micros
        self._engine.changed.set()

    async def make_up_for_downtime(self) -> None:
        """Set new NotBefore times, if the service was away.

        Before the doors open a slow commit takes from them again: then once more, with more time to spare (S2).
        """
        absent, spare, clock = self._absent, 0, self._engine.clock
        for _ in range(_MOST_ROUNDS):
            begun = clock.now().at
            told = await self._engine.submit(MakeUpForDowntime(spare), SELF)
            if not told:
                break
            report("warning", "nobody could be answered for a while", action="notice-made-up-for", events=len(told))
            spare = max(2 * micros_of(clock.now().at - begun), self._engine.policy.commit_allowance)
        self._absent -= absent

    async def advance(self, micros: int) -> None:
        """Let time pass on a manual clock and stop at each due moment, so that everything happens at its time."""
        clock, end = self._told_clock(), self.end_of(micros).steady
        if self._engine.behind:
            await self._tick()
        while (due := self._next_due(clock.now())) is not None and due <= end:
            clock.advance(due - clock.now().steady)
            await self._tick()
        clock.advance(end - clock.now().steady)
        await self._sweep(clock.now())
        await self._engine.submit(MarkClock(clock.mark()), SELF)

    def end_of(self, micros: int) -> Instant:
        """The time when this much time has passed."""
        now = self._told_clock().now()
        if micros_of(LAST_TOLD - now.at) < micros:
            raise Refused("That time is too far in the future.", hint="Let less time pass.")
        return now.after(micros)

    def _told_clock(self) -> ManualClock | SharedClock:
        clock = self._engine.clock
        if clock.speed or not isinstance(clock, ManualClock | SharedClock):
            raise Refused(
                f"The clock is {clock.name}; only a manual clock can be advanced.", hint="Use --clock manual."
            )
        return clock

    async def _run(self) -> None:
        engine = self._engine
        while True:
            try:
                await self._look(engine.clock.now())
            except DuenoticeError:
                # The engine has logged it, and what was due is still due; a full disk is not tried all the time.
                await asyncio.sleep(_TRY_AGAIN)
                continue
            engine.changed.clear()
            await self._rest(self._sleep(engine.clock.now()))

    async def _rest(self, seconds: float | None) -> None:
        """Wait for a change, or for this long. It is after each command, so `asyncio.timeout` costs too much."""
        changed = self._engine.changed
        timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, changed.set)
        try:
            await changed.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _look(self, now: Instant) -> None:
        if self._absent:
            await self.make_up_for_downtime()
        if self._is_due(now):
            await self._tick()
        self._looked = now.steady
        if now.steady - self._swept >= _SWEEP_EVERY:
            await self._sweep(now)
        if self._mark_is_due(now):
            self._marked = now.steady
            await self._engine.submit(MarkClock(self._engine.clock.mark()), SELF)

    def _mark_is_due(self, now: Instant) -> bool:
        clock = self._engine.clock
        if isinstance(clock, SystemClock):
            return bool(self._engine.state.timers) and now.steady - self._marked >= _REAL_MARK_EVERY
        return clock.speed > 0 and now.steady - self._marked >= int(_MARK_EVERY * clock.speed)

    async def _tick(self) -> None:
        """Do all that is due, in as many commits as it takes.

        What cannot be shown is tried again at the next look: a leader that does not reach the store must not go round.
        """
        shown = -1
        while shown < 0 or (self._engine.behind and self._engine.state.position > shown):
            shown = self._engine.state.position
            await self._engine.submit(Tick(), SELF)

    async def _sweep(self, now: Instant) -> None:
        self._swept = now.steady
        silent: list[str] = []
        for some in chunks(list(self._engine.state.scopes), _SWEPT_AT_ONCE):
            silent += self._engine.publisher.silent_among(some, now.steady, SILENCE)
            await asyncio.sleep(0)
        if silent:
            await self._engine.submit(DisableScopes(tuple(silent)), SELF)

    def _is_due(self, now: Instant) -> bool:
        """Whether something waits for a tick: what was due before and is still there has to wait."""
        state, steady = self._engine.state, now.steady
        if self._engine.behind:
            return True
        if state.timers and state.timers[0][0] <= steady:
            return True
        if window_is_due(state, now, self._engine.policy):
            return True
        due = next_due(state, after=self._looked)
        return due is not None and due <= steady

    def _next_due(self, now: Instant) -> int | None:
        return next_due(self._engine.state, now.steady, now.at)

    def _sleep(self, now: Instant) -> float | None:
        speed = self._engine.clock.speed
        if self._absent:
            return 0.0
        if speed == 0.0:
            return None
        timers = self._engine.state.timers
        if timers and timers[0][0] <= now.steady:
            return _HELD_SLEEP
        due = self._next_due(now)
        return LONGEST_SLEEP if due is None else min(seconds(due - now.steady) / speed, LONGEST_SLEEP)
