"""How long to wait before another try: each pause is twice as long as the one before, up to a longest. Pure."""

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple


class Backoff(NamedTuple):
    """Seconds: the first pause, and the longest."""

    first: float
    longest: float

    def after(self, failures: int) -> float:
        """The pause when this many tries had failed before the last one."""
        return min(self.longest, self.first * 2.0 ** min(failures, 60))

    def pauses(self) -> Iterator[float]:
        """One pause after the other, for ever."""
        return map(self.after, count())
