"""Logs a failure that repeats: at once, then once a minute, and when it works again.

A full disk is tried twice a second. To log each try would fill the log, or the rest of that disk.
"""

from collections.abc import Callable

from duenotice.clock import monotonic
from duenotice.errors import DuenoticeError

EVERY = 60.0
"""Real seconds between two lines about the same failure."""


class Complaints:
    """For commits that fail; `report` takes a level, a message and details."""

    def __init__(self, report: Callable[..., None], now: Callable[[], float] = monotonic) -> None:
        self._report, self._now = report, now
        self._failures = 0
        self._told = 0.0

    def failed(self, error: DuenoticeError) -> None:
        """It failed, once more or for the first time."""
        self._failures += 1
        if self._failures == 1 or self._now() - self._told >= EVERY:
            self._told = self._now()
            details = {"error": error.message, "hint": error.hint, "times": self._failures}
            self._report("error", "commit failed", action="commit-failed", **details)

    def worked(self) -> None:
        """It worked; this is logged only after a failure."""
        if self._failures:
            self._report("info", "storing works again", action="commits-work-again", times=self._failures)
            self._failures = 0
