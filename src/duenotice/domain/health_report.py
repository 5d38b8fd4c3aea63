"""A report of a VM about the health of its host, and what happened to it (M17)."""

from datetime import datetime
from enum import Enum

from msgspec import Struct, structs

from duenotice.domain.fleet import Condition

MOST_KEPT = 1000
"""Reports; the oldest that is closed goes first (S24)."""
MOST_STEPS = 20
GONE = "gone"
"""The last step of a report whose host has left the fleet."""
_LAST = frozenset({Condition.HEALTHY.value, Condition.DRAINED.value, Condition.FAILED.value, GONE})
"""After these a report is closed."""


class Verdict(Enum):
    """What a category says of the host: the value is its part behind `Resource.Hpc.`."""

    HEALTHY = "Healthy"
    """Also `Reset`: what was said before does not count any more."""
    REBOOT = "Reboot"
    UNHEALTHY = "Unhealthy"
    INVESTIGATE = "Investigate"


class HealthReport(Struct, frozen=True, omit_defaults=True):
    """What a VM says of a host since when. `more` are further properties as texts.

    `steps` are the conditions that the host has had since then, each with its time.
    """

    name: str
    vm: str
    host: str
    category: str
    description: str
    began: datetime
    at: datetime
    more: tuple[tuple[str, str], ...] = ()
    steps: tuple[tuple[str, datetime], ...] = ()

    @property
    def key(self) -> str:
        """Names it among all: in upper or lower case it is the same report."""
        return self.name.lower()

    @property
    def is_open(self) -> bool:
        """Whether its host may still come into another condition that it tells of."""
        return not self.steps or self.steps[-1][0] not in _LAST

    def with_step(self, condition: str, at: datetime) -> "HealthReport":
        """The same, and the host is in another condition."""
        if self.steps and (
            self.steps[-1][0] == condition or (len(self.steps) >= MOST_STEPS and condition not in _LAST)
        ):
            return self
        return structs.replace(self, steps=(*self.steps, (condition, at)))


def verdict_of(category: str) -> Verdict:
    """Of a category that is known: `Resource.Hpc.Unhealthy.MissingIB`."""
    word = category.split(".")[2]
    return Verdict.HEALTHY if word == "Reset" else Verdict(word)
