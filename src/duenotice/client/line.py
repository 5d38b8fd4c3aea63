"""What connections over sockets and over streams have in common: bounds, and how much time is left."""

from duenotice.clock import monotonic

PIECE = 65536
"""How much is taken from a socket at once."""

MOST_IDLE = 2
"""Connections that a client keeps open between calls: one for a watch, one for an approval at the same time."""


def left(deadline: float) -> float:
    """Seconds until a deadline; when it has passed, that is an error."""
    if (seconds := deadline - monotonic()) <= 0:
        raise TimeoutError("the deadline has passed")
    return seconds
