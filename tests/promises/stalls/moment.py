"""One operation, and how long others had to wait for their polls meanwhile."""

from typing import NamedTuple

from tests.promises.prober import Polls

LIMIT = 0.25
"""Seconds that a poll may take during anything at all (S26)."""

TRIES = 3
"""The machine is shared: what was too slow is done again, and the best of so many counts."""

HOPELESS = 10 * LIMIT
"""No noise is that long: what was so slow is not done again."""


class Moment(NamedTuple):
    """One operation, and the slowest poll of another VM meanwhile; times in seconds."""

    what: str
    polls: Polls
    begun: float
    took: float
    result: str
    done: bool
    tries: int = 1

    @property
    def slowest(self) -> float:
        """What counts."""
        return self.polls.slowest

    @property
    def fine(self) -> bool:
        """Whether it was done, nobody had to wait too long, and everybody was answered."""
        return self.done and self.slowest <= LIMIT and not self.polls.trouble and not self.polls.unanswered

    @property
    def doubtful(self) -> bool:
        """Whether it may be worth another try."""
        return self.done and not self.fine and self.slowest < HOPELESS and self.tries < TRIES

    def short(self) -> str:
        """A line of a table."""
        least = ">" if self.polls.unanswered else " "
        trouble = f"; then {self.polls.trouble}" if self.polls.trouble else ""
        return f"{least}{self.slowest * 1e3:8,.0f} ms  {self.what} ({self.took:.2f} s: {self.result}){trouble}"

    def __str__(self) -> str:
        """The whole truth in one line."""
        polls, into = self.polls, max(0.0, self.polls.slowest_due - self.begun)
        late = into > self.took
        when = f"{into - self.took:.2f} s after the operation" if late else f"{into:.2f} s into the operation"
        return "".join(
            (
                f"{self.what}: the slowest poll of another VM took {'at least ' if polls.unanswered else ''}",
                f"{polls.slowest * 1e3:,.0f} ms; it was due {when} of {self.took:.2f} s ({self.result})",
                f"; {polls.own_delay * 1e3:.0f} ms of it before it was sent" if polls.own_delay > LIMIT / 10 else "",
                f"; the best of {self.tries} tries" if self.tries > 1 else "",
                f"; then {polls.trouble}" if polls.trouble else "",
            )
        )
