"""Events that are over or were cancelled, remembered for a day: an approval of one of them is only late (C03)."""

from collections import deque
from datetime import datetime

from msgspec import Struct

from duenotice.clock import MICROS, Instant
from duenotice.domain.event import Event

KEPT = 24 * 3600 * MICROS
MOST_KEPT = 100_000
"""So that state stays bounded (S24); the first to go is the first to be forgotten."""


class GoneEvent(Struct, frozen=True, omit_defaults=True, gc=False):
    """An id, the scope that had it last, and until when we remember it, by both faces of time (S34).

    An older duenotice did not write down the steady time; then it is 0, and the time of day counts.
    """

    id: str
    scope: str
    until: datetime
    until_steady: int = 0

    def is_over(self, now: Instant) -> bool:
        """Whether it is too long ago to be remembered."""
        return Instant(self.until, self.until_steady).has_come(now)


def of(event: Event, now: Instant) -> GoneEvent:
    """An event that goes now."""
    until = now.after(KEPT)
    return GoneEvent(event.id, event.scope, until.at, until.steady)


def keep(gone: dict[str, GoneEvent], order: deque[str], event: GoneEvent, now: Instant) -> None:
    """Remember one more that goes now, and forget what is too old or too much.

    The order is kept beside the mapping: to find the first key of a mapping that loses its first keys gets slow.
    """
    if event.id not in gone:
        order.append(event.id)
    gone[event.id] = event
    while len(order) > MOST_KEPT or gone[order[0]].is_over(now):
        del gone[order.popleft()]
