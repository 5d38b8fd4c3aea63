"""One steady time for many nodes: a follower goes on from what the leader said last, a leader never goes back (N10).

Each node counts only time in which it could answer VMs itself; all of that is notice (S25). Between two beats of the
leader a follower counts on by its own clock, so when it takes over, steady time is what the old leader's would be, or a
little less: whatever is due then starts late rather than early. No two clocks are compared, so none has to be right.
"""

from datetime import UTC, datetime, timedelta
from threading import Lock

from duenotice.clock import Clock, Instant, ManualClock, Mark

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class SharedClock:
    """A node's own clock, moved to where the leader's is. Any thread may use it."""

    def __init__(self, own: Clock) -> None:
        self._own = own
        self._lock = Lock()
        self._ahead = 0
        self._heard = (0, -1, 0)
        self._not_before = _LONG_AGO

    @property
    def name(self) -> str:
        """How a person asks for this clock."""
        return self._own.name

    @property
    def speed(self) -> float:
        """Clock seconds per real second."""
        return self._own.speed

    def now(self) -> Instant:
        """The present instant of the cluster, as far as this node knows."""
        at, steady = self._own.now()
        with self._lock:
            return Instant(max(at, self._not_before), steady + self._ahead)

    def mark(self) -> Mark:
        """The present instant; its boot says nothing to other nodes."""
        at, steady = self.now()
        return self._own.mark()._replace(at=at, steady=steady)

    def hold(self) -> None:
        """Let steady time stand still."""
        self._own.hold()

    def run(self) -> None:
        """Let steady time go on."""
        self._own.run()

    def beat(self) -> int:
        """Say that VMs are answered now."""
        return self._own.beat()

    def advance(self, micros: int) -> None:
        """Let that much time pass, if that is how time passes here; only where the leader is."""
        assert isinstance(self._own, ManualClock)
        self._own.advance(micros)

    def follow(self, steady: int, epoch: int, position: int = 0) -> None:
        """Another node leads, and this is the last that it said: go on from there. Said again, it changes nothing.

        Under a new epoch, or when more is stored, it counts also if it is not later: a leader whose time stands still
        tells VMs how much notice is left by its own time, and the next leader must not have counted more (S1, S25).
        """
        said, counted = (epoch, steady, position), self._own.now().steady
        with self._lock:
            if said > self._heard:
                self._heard, self._ahead = said, steady - counted

    def lead(self, last: Instant) -> timedelta:
        """Go on from here, but not from before the journal's last moment; from now on time never goes back.

        Tells how far our own time of day is behind that: the shared one stands still for this long.
        """
        at, counted = self._own.now()
        with self._lock:
            epoch, heard, position = self._heard
            self._heard = epoch, max(heard, last.steady), position
            self._ahead = max(self._ahead, last.steady - counted)
            self._not_before = max(self._not_before, last.at)
        return last.at - at
