"""The answers to operators' requests, by the key of each: a request that comes again is not done again (S6)."""

from collections import OrderedDict
from datetime import datetime, timedelta

from msgspec import Struct

KEPT = timedelta(hours=24)
MOST_KEPT = 10_000
"""So that state stays bounded (S24); the oldest is forgotten first."""


class Answered(Struct, frozen=True, gc=False):
    """Where in the journal the answer to a request is; `fingerprint` tells it from another with the same key."""

    key: str
    fingerprint: str
    position: int
    until: datetime


def keep(requests: "OrderedDict[str, Answered]", answered: Answered) -> None:
    """Remember one more, and forget what is too old by then or too much."""
    requests[answered.key] = answered
    while len(requests) > MOST_KEPT or next(iter(requests.values())).until + KEPT <= answered.until:
        requests.popitem(last=False)
