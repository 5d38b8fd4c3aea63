"""How much anybody may ask for: requests a second per VM, connections per address and in all (A08, S24, S29)."""

import resource
import socket
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

_ROUNDING = 1e-6
_REFUSED_AT_ONCE = 100
_OTHER_FILES = 500
"""Of these the operator's port and the Azure door may fill 200 each; the rest is for the journal, the log, the loop."""

REFUSALS = 128.0
"""So many refusals a second leave a connection open; with more, each is the last answer of its connection."""

STRANGERS = 40.0
"""So many times what one VM may ask, all addresses that nobody registered may ask together."""

MAX_STRANGERS = 4096
"""How many of them have a bucket of their own at a time."""


def files_left() -> int:
    """How many connections the limit on open files allows, with some left for the rest of the process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, soft - _REFUSED_AT_ONCE - _OTHER_FILES)


class Rate:
    """A rate and a burst of the same size; 0 means no limit."""

    __slots__ = ("interval", "slack")

    def __init__(self, per_second: float) -> None:
        self.interval = 1.0 / per_second if per_second > 0 else 0.0
        self.slack = max(0.0, per_second - 1.0) * self.interval + _ROUNDING


class Bucket:
    """A token bucket; it only stores when it will be full again."""

    __slots__ = ("_full_at", "_rate")

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._full_at = 0.0

    def take(self, now: float) -> bool:
        """Take a token; False when there is none."""
        full_at, rate = self._full_at, self._rate
        if full_at <= now:
            self._full_at = now + rate.interval
            return True
        if full_at - now > rate.slack:
            return False
        self._full_at = full_at + rate.interval
        return True

    def last_taken(self, now: float) -> float | None:
        """When a token was last taken, at most a second too late; None when none was taken."""
        return min(now, self._full_at - self._rate.interval) if self._full_at else None


class Strangers:
    """Buckets for addresses that nobody registered: one for each, in a table with an end, and one for all together.

    All together may take `together` times what one may. When the table is full it is cleared. That gives nobody more:
    what all of them may ask together stays as it is.
    """

    __slots__ = ("_buckets", "_of_all", "_rate", "refusals")

    def __init__(self, per_second: float, together: float = STRANGERS) -> None:
        self._rate = Rate(per_second)
        self._of_all = Bucket(Rate(together * per_second))
        self.refusals = Bucket(Rate(REFUSALS))
        self._buckets: dict[str | bytes, Bucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, address: str, now: float) -> bool:
        """Take a token of an address."""
        key = network_of(address)
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) == MAX_STRANGERS:
                self._buckets.clear()
            bucket = self._buckets[key] = Bucket(self._rate)
        return bucket.take(now) and self._of_all.take(now)


def network_of(address: str) -> str | bytes:
    """Who has one IPv6 address has all 2^64 of its network, so these share a bucket."""
    return socket.inet_pton(socket.AF_INET6, address.partition("%")[0])[:8] if ":" in address else address


class Guest(Protocol):
    """What the limits need to know about a connection."""

    address: str
    deadline: float


G = TypeVar("G", bound=Guest)


class Crowd(Generic[G]):
    """Everybody connected now; nothing is kept of those who left.

    Half of the places are only for addresses that are known: others have as many addresses as they like (S29).
    """

    __slots__ = ("_for_all", "_is_known", "_most", "_most_per_address", "by_address", "everybody")

    def __init__(
        self, most: int, most_per_address: int, is_known: Callable[[str], bool] = lambda address: True
    ) -> None:
        self._most, self._for_all = most, most // 2
        self._most_per_address = most_per_address
        self._is_known = is_known
        self.everybody: dict[G, None] = {}  # in the order in which they came: a set has another one in each process
        self.by_address: dict[str, int] = {}

    def enter(self, guest: G) -> bool:
        """Count a connection in; False when there are too many. It has to be counted out in both cases."""
        has_room = self.has_room_for(guest.address)
        self.by_address[guest.address] = self.by_address.get(guest.address, 0) + 1
        self.everybody[guest] = None
        return has_room

    def has_room_for(self, address: str) -> bool:
        """Whether one more connection from there would not be too many."""
        if self.by_address.get(address, 0) >= self._most_per_address:
            return False
        return (here := len(self.everybody)) < self._for_all or here < self._places_for(address)

    def is_flooded_by(self, guest: G) -> bool:
        """Whether there are so many connections that not even a refusal can be sent."""
        count, places = self.by_address[guest.address], self._places_for(guest.address)
        return count > 2 * self._most_per_address or len(self.everybody) > places + _REFUSED_AT_ONCE

    def is_half_full_of(self, address: str) -> bool:
        """Whether half of the places of an address are taken."""
        return 2 * self.by_address.get(address, 0) > self._most_per_address

    def _places_for(self, address: str) -> int:
        return self._most if self._is_known(address) else self._for_all

    def leave(self, guest: G) -> None:
        """Count a connection out."""
        self.everybody.pop(guest, None)
        count = self.by_address[guest.address] - 1
        if count:
            self.by_address[guest.address] = count
        else:
            del self.by_address[guest.address]

    def overdue(self, now: float) -> list[G]:
        """Those whose deadline has passed."""
        return [guest for guest in self.everybody if guest.deadline <= now]
