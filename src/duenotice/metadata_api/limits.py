"""How much anybody may ask for: requests a second per VM, connections per address and in all (A08, S24)."""

import resource
from typing import Generic, Protocol, TypeVar

_ROUNDING = 1e-6
_REFUSED_AT_ONCE = 100
_OTHER_FILES = 200


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


class Guest(Protocol):
    """What the limits need to know about a connection."""

    address: str
    deadline: float


G = TypeVar("G", bound=Guest)


class Crowd(Generic[G]):
    """Everybody connected now; nothing is kept of those who left."""

    __slots__ = ("_most", "_most_per_address", "by_address", "everybody")

    def __init__(self, most: int, most_per_address: int) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self.everybody: dict[G, None] = {}  # in the order in which they came: a set has another one in each process
        self.by_address: dict[str, int] = {}

    def enter(self, guest: G) -> bool:
        """Count a connection in; False when there are too many. It has to be counted out in both cases."""
        self.by_address[guest.address] = count = self.by_address.get(guest.address, 0) + 1
        self.everybody[guest] = None
        return count <= self._most_per_address and len(self.everybody) <= self._most

    def has_room_for(self, address: str) -> bool:
        """Whether one more connection from there would not be too many."""
        return self.by_address.get(address, 0) < self._most_per_address and len(self.everybody) < self._most

    def is_flooded_by(self, guest: G) -> bool:
        """Whether there are so many connections that not even a refusal can be sent."""
        count = self.by_address[guest.address]
        return count > 2 * self._most_per_address or len(self.everybody) > self._most + _REFUSED_AT_ONCE

    def is_flooded_from(self, address: str) -> bool:
        """The same of one more connection, before it is counted in."""
        count = self.by_address.get(address, 0)
        return count >= 2 * self._most_per_address or len(self.everybody) >= self._most + _REFUSED_AT_ONCE

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
