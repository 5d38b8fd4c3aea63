"""How time passes in a play: on a manual clock the player advances it, on any other it waits."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from duenotice.client.operator.client import OperatorClient
from duenotice.wire.operator import Clock

SLACK_SECONDS = 2.0
"""Real seconds that a service and its player may lose; the service adds one second to each notice (S2)."""

_LONGEST_SLEEP = 0.5
_SHORTEST_SLEEP = 0.02
_LOOK_EVERY = 10.0
"""Clock seconds between two looks, if a sleep can be that short."""


class Moment(NamedTuple):
    """What time it is on the service's clock, and how fast that runs; 0 is a manual clock."""

    now: datetime
    speed: float
    clock: str

    @property
    def slack(self) -> float:
        """Clock seconds that do not count as late."""
        return SLACK_SECONDS * self.speed

    def until(self, end: datetime) -> float:
        """Clock seconds left."""
        return (end - self.now).total_seconds()

    def after(self, seconds: float) -> datetime:
        """The time of day that much later."""
        return self.now + timedelta(seconds=seconds)


class Pace:
    """Lets time pass; `moment` is what time it was at the last look."""

    def __init__(self, client: OperatorClient, sleep: Callable[[float], object]) -> None:
        self._client = client
        self._sleep = sleep
        self.look()

    def look(self) -> None:
        """Read the clock."""
        self.moment = _moment(self._client.clock())

    def let_pass(self, seconds: float) -> None:
        """Let at most this much time pass; a clock that runs by itself is read again soon."""
        speed = self.moment.speed
        if speed == 0.0:
            self.moment = _moment(self._client.advance_clock(f"{seconds:.3f}"))
            return
        longest = min(_LONGEST_SLEEP, max(_SHORTEST_SLEEP, _LOOK_EVERY / speed))
        self._sleep(max(_SHORTEST_SLEEP / 2, min(longest, seconds / speed)))
        self.look()


def _moment(clock: Clock) -> Moment:
    return Moment(clock.now, clock.speed, clock.clock)
