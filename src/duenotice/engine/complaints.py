"""Logs a failure that repeats: at once, then once a minute, and when it works again.

A full disk is tried twice a second. To log each try would fill the log, or the rest of that disk.
"""

from collections.abc import Callable
from typing import NamedTuple

from duenotice.clock import monotonic

EVERY = 60.0
"""Real seconds between two lines about the same failure."""


class Trouble(NamedTuple):
    """What is said of one kind of failure, and when it is over."""

    level: str
    message: str
    action: str
    over: str
    over_action: str


COMMITS = Trouble("error", "commit failed", "commit-failed", "storing works again", "commits-work-again")
UPKEEP = Trouble(
    "warning", "upkeep of the journal put off", "upkeep-failed", "upkeep works again", "upkeep-works-again"
)


class Complaints:
    """For one kind of failure; `report` takes a level, a message and details."""

    def __init__(
        self, report: Callable[..., None], now: Callable[[], float] = monotonic, trouble: Trouble = COMMITS
    ) -> None:
        self._report, self._now, self._trouble = report, now, trouble
        self._failures = 0
        self._told = 0.0

    def failed(self, error: Exception) -> None:
        """It failed, once more or for the first time."""
        self._failures += 1
        if self._failures == 1 or self._now() - self._told >= EVERY:
            self._told = self._now()
            details = {"error": str(error), "hint": getattr(error, "hint", ""), "times": self._failures}
            self._report(self._trouble.level, self._trouble.message, action=self._trouble.action, **details)

    def worked(self) -> None:
        """It worked; this is logged only after a failure."""
        if self._failures:
            self._report("info", self._trouble.over, action=self._trouble.over_action, times=self._failures)
            self._failures = 0
