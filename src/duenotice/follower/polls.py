"""What a follower tells its node about polls: how long ago each scope asked, each time only what is new (N11)."""

from itertools import islice

from duenotice.clock import Clock, boot_micros
from duenotice.engine.publisher import Publisher

AT_ONCE = 5000
"""Scopes told in one beat."""


class PollsToTell:
    """`every` is how often the node wants to know, in microseconds."""

    def __init__(self, publisher: Publisher, clock: Clock) -> None:
        self.every = 0
        self._publisher, self._clock = publisher, clock
        self._told = self._at = 0

    def take(self) -> dict[str, int]:
        """How long ago scopes asked, of those that have asked since that was last told."""
        now = boot_micros()
        if now - self._at < self.every:
            return {}
        steady, told = self._clock.now().steady, self._told
        asked = ((page.scope, page.last_poll) for page in self._publisher.pages.values() if page.last_poll > told)
        found = sorted(asked, key=lambda each: each[1])
        some = list(islice(found, AT_ONCE))
        if some:
            self._told = some[-1][1]
        if len(found) <= AT_ONCE:
            self._at = now
        return {scope: max(0, steady - last) for scope, last in some}
