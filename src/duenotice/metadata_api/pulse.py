"""The current time, taken a few times a second and shared by all connections, so that a poll reads no clock."""

from duenotice.clock import Clock, monotonic, wall
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.responses import Heading


class Pulse:
    """The time of the last beat.

    `now` is monotonic, for rates; `steady` is the engine's time; the others are the deadlines of a request
    that begins now, a connection that falls idle now, and one that is closed now.
    """

    __slots__ = ("clock", "heading", "idle_until", "linger_until", "now", "options", "request_until", "steady")

    def __init__(self, clock: Clock, options: MetadataOptions) -> None:
        self.clock = clock
        self.heading = Heading()
        self.options = options
        self.beat()

    def beat(self) -> None:
        """Take the time."""
        self.now = monotonic()
        self.request_until = self.now + self.options.request_seconds
        self.idle_until = self.now + self.options.idle_seconds
        self.linger_until = self.now + self.options.linger_seconds
        self.steady = self.clock.now().steady
        self.heading.renew(wall())


class LivePulse(Pulse):
    """The same for a clock that is not real: between two beats it may have gone on by days."""

    __slots__ = ()

    @property
    def steady(self) -> int:
        """The engine's time right now."""
        return self.clock.now().steady

    @steady.setter
    def steady(self, value: int) -> None:
        """A beat does not store it: the clock is read each time."""


def pulse_of(clock: Clock, options: MetadataOptions) -> Pulse:
    """The pulse that suits a clock."""
    return Pulse(clock, options) if clock.name == "real" else LivePulse(clock, options)
