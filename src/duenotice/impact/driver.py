"""What the dispatcher needs of a driver, and what a driver may answer."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from duenotice.domain.event import Event

OUTPUT_KEPT = 2000
"""Bytes of what a command or a receiver said that are kept for the reason of a failure."""


class Verdict(Enum):
    """How an attempt ended."""

    DONE = "done"
    ACCEPTED = "accepted"
    """Somebody outside has taken it on and will report."""
    FAILED = "failed"
    """It may be tried again."""
    HOPELESS = "hopeless"
    """Another attempt would end the same, or could do harm."""


class Outcome(NamedTuple):
    """A verdict and, unless it is good, the reason."""

    verdict: Verdict
    reason: str = ""


class Driver(Protocol):
    """Brings impacts about."""

    name: str

    async def run(self, event: Event, attempt: int) -> Outcome:
        """Have this attempt made, or find out what became of it when a process before us had begun it.

        An exception means that nothing is known yet: the same attempt is asked for again. So does a
        cancellation, after which the attempt may well go on without us.
        """

    def forget(self, event_id: str, attempt: int) -> None:
        """What came of this attempt is in the journal now."""

    def sweep(self, live: Mapping[str, Event]) -> None:
        """Called once before anything is run: of other events nothing need be kept."""

    async def close(self) -> None:
        """Let go of everything held; what is under way outside goes on."""
