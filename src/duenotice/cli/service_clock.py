"""The service's clock: read now and then, and counted on here at its own speed."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from duenotice.cli.errors import TimedOut
from duenotice.clock import monotonic
from duenotice.errors import Unavailable

LOOK_AGAIN = 5.0
SLACK = 2.0
"""Our copy may be wrong by this many seconds before it is set again: the service tells whole seconds only."""


class ServiceClock:
    """`now()` asks nobody between two reads; a countdown drawn with it runs as fast as the service's time."""

    def __init__(self, look: Callable[[], Any], steady: Callable[[], float] = monotonic) -> None:
        self._look, self._steady = look, steady
        self._at, self._read, self._speed, self.name = datetime.min.replace(tzinfo=UTC), 0.0, 0.0, ""

    def now(self) -> str:
        """The service's time."""
        if not self.name:
            self._set(self._look())
        elif self._steady() - self._read >= LOOK_AGAIN or self._speed == 0:
            with suppress(Unavailable, TimedOut):  # the feed reports the lost connection, and tries again
                self._set(self._look())
        return f"{self._guess():%Y-%m-%dT%H:%M:%SZ}"

    def _guess(self) -> datetime:
        return self._at + timedelta(seconds=(self._steady() - self._read) * self._speed)

    def _set(self, told: Any) -> None:
        at, guess, speed = datetime.fromisoformat(told["now"]), self._guess(), float(told["speed"])
        close = abs((at - guess).total_seconds()) <= SLACK * max(1.0, speed) and speed == self._speed and speed > 0
        self._at, self._read = (guess if close else at), self._steady()
        self._speed, self.name = speed, str(told["clock"])
