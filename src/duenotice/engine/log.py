"""The engine's log: it goes on when a line cannot be written, and does not say every second what goes on failing."""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import structlog

from duenotice.clock import monotonic

EVERY = 60.0
"""Real seconds between two lines of the same kind."""

_log = structlog.get_logger()


def report(level: str, message: str, **details: object) -> None:
    """Log. If that fails, because of a full disk for example, the engine still goes on."""
    with suppress(Exception):
        getattr(_log, level)(message, **details)


class FailureKind(NamedTuple):
    """What is said of one kind of failure, and when it is over."""

    level: str
    message: str
    action: str
    over: str
    over_action: str


COMMITS = FailureKind("error", "commit failed", "commit-failed", "storing works again", "commits-work-again")
PUSHES = FailureKind("warning", "messages wait", "push-waits", "messages are delivered again", "push-goes-on")
NOTES = FailureKind("warning", "deliveries are not noted", "push-not-noted", "deliveries are noted again", "push-noted")
FILES = FailureKind("critical", "files were taken away", "files-missing", "the files are back", "files-are-back")
CLOCK = FailureKind(
    "error", "the clock of this machine cannot be read", "clock-unreadable", "the clock can be read", "clock-readable"
)
UPKEEP = FailureKind(
    "warning", "upkeep of the journal put off", "upkeep-failed", "upkeep works again", "upkeep-works-again"
)


class RepeatedFailure:
    """Logs one kind of failure as long as it lasts; `report` takes a level, a message and details."""

    def __init__(
        self,
        kind: FailureKind = COMMITS,
        report: Callable[..., None] = report,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._kind, self._report, self._now = kind, report, now
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
            self._say(self._kind.level, self._kind.message, self._kind.action, self._unsaid - 1, details)

    def worked(self) -> None:
        """It worked; this is logged only after a failure, and in a minute if the last was less than a minute ago."""
        if not self._failures:
            return
        now = self._now()
        if now - self._ended >= EVERY:
            self._ended = now
            self._say("info", self._kind.over, self._kind.over_action, self._unsaid, {"times": self._failures})
            self._failures = 0

    def _say(self, level: str, message: str, action: str, unsaid: int, details: dict[str, object]) -> None:
        self._report(level, message, action=action, **details, unsaid=unsaid)
        self._unsaid = 0
