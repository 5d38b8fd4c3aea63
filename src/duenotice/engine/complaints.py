"""Logs a failure that repeats: at once, then once a minute, and when it works again.

A full disk is tried twice a second, and one that fails now and then fails and works many times a second. To log each
time would fill the log, or the rest of that disk: of each kind of line there is one a minute, with what was not said.
"""

from collections.abc import Callable
from typing import NamedTuple

from duenotice.clock import monotonic

EVERY = 60.0
"""Real seconds between two lines of the same kind."""


class Trouble(NamedTuple):
    """What is said of one kind of failure, and when it is over."""

    level: str
    message: str
    action: str
    over: str
    over_action: str


COMMITS = Trouble("error", "commit failed", "commit-failed", "storing works again", "commits-work-again")
PUSHES = Trouble("warning", "messages wait", "push-waits", "messages are delivered again", "push-goes-on")
NOTES = Trouble("warning", "deliveries are not noted", "push-not-noted", "deliveries are noted again", "push-noted")
FILES = Trouble("critical", "files were taken away", "files-missing", "the files are back", "files-are-back")
CLOCK = Trouble(
    "error", "the clock of this machine cannot be read", "clock-unreadable", "the clock can be read", "clock-readable"
)
UPKEEP = Trouble(
    "warning", "upkeep of the journal put off", "upkeep-failed", "upkeep works again", "upkeep-works-again"
)


class Complaints:
    """For one kind of failure; `report` takes a level, a message and details."""

    def __init__(
        self, report: Callable[..., None], now: Callable[[], float] = monotonic, trouble: Trouble = COMMITS
    ) -> None:
        self._report, self._now, self._trouble = report, now, trouble
        self._failures = self._unsaid = 0
        self._told = self._ended = -EVERY

    def failed(self, error: Exception) -> None:
        """It failed, once more or for the first time."""
        self._failures += 1
        self._unsaid += 1
        now = self._now()
        if now - self._told >= EVERY:
            self._told = now
            details = {"error": str(error), "hint": getattr(error, "hint", ""), "times": self._failures}
            self._say(self._trouble.level, self._trouble.message, self._trouble.action, self._unsaid - 1, details)

    def worked(self) -> None:
        """It worked; this is logged only after a failure, and in a minute if the last was less than a minute ago."""
        if not self._failures:
            return
        now = self._now()
        if now - self._ended >= EVERY:
            self._ended = now
            self._say("info", self._trouble.over, self._trouble.over_action, self._unsaid, {"times": self._failures})
            self._failures = 0

    def _say(self, level: str, message: str, action: str, unsaid: int, details: dict[str, object]) -> None:
        self._report(level, message, action=action, **details, unsaid=unsaid)
        self._unsaid = 0
