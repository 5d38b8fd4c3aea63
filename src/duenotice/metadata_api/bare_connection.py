"""A connection without a transport: the number of a socket on which a client polls."""

from typing import Protocol


class Keeper(Protocol):
    """What looks after bare connections."""

    def drop(self, bare: "BareConnection") -> None:
        """End one."""


class BareConnection:
    """A client's connection on which nothing is pending; `is_kept` when it has lasted longer than a turn."""

    __slots__ = ("_keeper", "address", "deadline", "is_kept", "number")

    def __init__(self, keeper: Keeper, number: int, address: str, deadline: float) -> None:
        self._keeper: Keeper | None = keeper
        self.number, self.address, self.deadline = number, address, deadline
        self.is_kept = False

    def hand_over(self) -> None:
        """From now on a transport has the socket; we only keep the place."""
        self._keeper = None

    def expire(self) -> None:
        """The deadline has passed."""
        if self._keeper is not None:
            self._keeper.drop(self)

    drain = abort = expire
    """Nothing is pending, so all ends are the same."""
