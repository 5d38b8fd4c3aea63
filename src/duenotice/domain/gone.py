"""Events that are over or were cancelled, remembered for a day: an approval of one of them is only late (C03)."""

from collections import deque
from datetime import datetime, timedelta

from msgspec import Struct

KEPT = timedelta(hours=24)
MOST_KEPT = 100_000
"""So that state stays bounded (S24); the first to go is the first to be forgotten."""


class GoneEvent(Struct, frozen=True, gc=False):
    """An id, the scope that had it last, and until when we remember it."""

    id: str
    scope: str
    until: datetime


def keep(gone: dict[str, GoneEvent], order: deque[str], event: GoneEvent) -> None:
    """Remember one more, and forget what is too old by then or too much.

    The order is kept beside the mapping: to find the first key of a mapping that loses its first keys gets slow.
    """
    if event.id not in gone:
        order.append(event.id)
    gone[event.id] = event
    while len(order) > MOST_KEPT or gone[order[0]].until + KEPT <= event.until:
        del gone[order.popleft()]
