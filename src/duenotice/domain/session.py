"""Who is signed in at the console: sessions of tokens, each known only by the digest of its secret (S35)."""

from datetime import datetime, timedelta

from msgspec import Struct

from duenotice.clock import Instant, micros_of

LASTS = timedelta(hours=12)
"""The length of a shift; after that people sign in again."""

MOST_LATE = timedelta(days=7)
"""How much longer a session may last while the time of day does not say that it is over."""

MOST_OF_A_TOKEN, MOST_SESSIONS = 50, 10_000
"""A token has no more sessions than it may have live pages; and there is an end to all of them together (S24)."""

_SHOWN = 12
"""Letters of the digest that name a session where people read: enough to tell it from others."""


def session_id(digest: str) -> str:
    """The name of a session for people."""
    return digest[:_SHOWN]


class Session(Struct, frozen=True, gc=False):
    """One browser that is signed in. What it may do is what its token may do at that moment."""

    digest: str
    token_id: str
    until: datetime
    until_steady: int

    def is_over(self, now: Instant) -> bool:
        """Whether it has run out by both faces of time: a clock that is wrong for a moment ends no session (S34).

        One that was begun while the clock was years ahead ends by steady time alone in the end (S35).
        """
        run_out = self.until <= now.at and self.until_steady <= now.steady
        return run_out or self.until_steady + micros_of(MOST_LATE) <= now.steady
