"""What the dispatcher needs from a driver, and what a driver may answer."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from duenotice.domain.event import Event

OUTPUT_KEPT = 2000
"""How many bytes of the output of a command or a receiver are kept as the reason of a failure."""


class AttemptEnd(Enum):
    """How an attempt ended."""

    DONE = "done"
    ACCEPTED = "accepted"
    """Somebody outside has taken it on and will report."""
    FAILED = "failed"
    """It may be tried again."""
    HOPELESS = "hopeless"
    """Another attempt would end the same, or could do harm."""


class AttemptOutcome(NamedTuple):
    """How an attempt ended and, unless it went well, why; what really happened, and how many seconds it took."""

    end: AttemptEnd
    reason: str = ""
    what: str = ""
    took: float | None = None


class Driver(Protocol):
    """Carries out impacts."""

    name: str

    async def run(self, event: Event, attempt: int) -> AttemptOutcome:
        """Make this attempt, or find out how it ended if an earlier process had begun it.

        An exception means that nothing is known yet, and the same attempt is asked for again. The same holds for a
        cancellation, after which the attempt may go on without us.
        """

    def directory(self) -> str:
        """Names the directory with the notes of what was begun here. Empty: who makes an attempt needs no notes."""

    def lost(self, node: str) -> AttemptOutcome | None:
        """Another node had begun an attempt, and is gone: how that counts.

        None: make it here. The one that carries it out knows what is already done.
        """

    def forget(self, event_id: str, attempt: int) -> None:
        """The result of this attempt is in the journal now."""

    def sweep(self, live: Mapping[str, Event]) -> None:
        """Called once before anything runs: notes of all other events may be removed."""

    async def close(self) -> None:
        """Release everything; what runs outside goes on."""
