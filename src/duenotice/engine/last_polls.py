"""When scopes were last polled at any node: gathered coarsely, told with a beat, never a write for each poll (N11)."""

from collections.abc import Mapping

from duenotice.clock import MICROS
from duenotice.engine.publisher import Publisher

EVERY = 600 * MICROS
"""Steady time between two gatherings: short beside the 24 hours after which a scope counts as silent (F02)."""


class LastPolls:
    """What this node tells the others of the polls that it answered, and hears from them."""

    def __init__(self, publisher: Publisher, now: int) -> None:
        self._publisher = publisher
        self._gathered = now

    def is_due(self, now: int) -> bool:
        """Whether it is time to gather."""
        return now - self._gathered >= EVERY

    def gather(self, now: int) -> Mapping[str, int]:
        """The scopes that were polled here since the last time, each with its last poll."""
        since, self._gathered = self._gathered, now
        return {scope: page.last_poll for scope, page in self._publisher.pages.items() if page.last_poll >= since}

    def merge(self, polls: Mapping[str, int]) -> None:
        """Who was polled at another node is not silent."""
        for scope, polled in polls.items():
            if self._publisher.state.enabled(scope):
                page = self._publisher.open_page(scope)
                page.last_poll = max(page.last_poll, polled)
