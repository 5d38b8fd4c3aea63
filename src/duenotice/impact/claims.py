"""Which node makes an attempt: alone it is always this one; of several, the one whose claim is in the journal (N12).

The leader claims. What a node has claimed it attends to its end, also when another leads by then or after a restart:
only its driver knows what is already done. A new leader waits for that node's report as long as an attempt may take.
"""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from duenotice.clock import monotonic
from duenotice.domain.commands import ClaimImpact
from duenotice.domain.event import Event
from duenotice.engine.engine import SELF, Engine
from duenotice.errors import Refused


class Claim(Enum):
    """Who makes the next attempt of an event."""

    OURS = "ours"
    THEIRS = "theirs"
    """Another node reports how it ends."""
    LOST = "lost"
    """Another node has begun it, and is gone for longer than an attempt may take."""


class ImpactClaims(Protocol):
    """What the dispatcher asks before each attempt."""

    def attends(self, event: Event) -> bool:
        """Whether this node has to do anything about an event."""

    def leads(self) -> bool:
        """Whether this node decides what nobody has claimed."""

    async def claim(self, event: Event, attempt: int, *, instead: bool = False) -> Claim:
        """Who makes this attempt; `instead`: we do, since the node that had begun it is lost."""


class OnlyNode:
    """There are no others."""

    def attends(self, event: Event) -> bool:
        """All of them."""
        return True

    def leads(self) -> bool:
        """Always."""
        return True

    async def claim(self, event: Event, attempt: int, *, instead: bool = False) -> Claim:
        """It need not be written down."""
        return Claim.OURS


class NodeClaims:
    """One of several nodes; `is_there` tells whether a node is a member now, `patience` how long one may be away."""

    def __init__(
        self,
        engine: Engine,
        node: str,
        is_there: Callable[[str], bool],
        patience: float,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._engine, self._node, self._is_there = engine, node, is_there
        self._patience, self._now = patience, now
        self._away_since: dict[str, float] = {}

    def attends(self, event: Event) -> bool:
        """What we have claimed; if we lead, all."""
        return self._engine.leads or event.claimed_by == self._node

    def leads(self) -> bool:
        """Whether this node leads now."""
        return self._engine.leads

    async def claim(self, event: Event, attempt: int, *, instead: bool = False) -> Claim:
        """Stored before the attempt begins."""
        holder = event.claimed_by
        if holder == self._node:
            return Claim.OURS
        if not holder or instead:
            return await self._take(ClaimImpact(event.id, attempt, self._node, holder))
        if self._is_there(holder):
            self._away_since.pop(holder, None)
            return Claim.THEIRS
        away = self._now() - self._away_since.setdefault(holder, self._now())
        return Claim.LOST if away >= self._patience else Claim.THEIRS

    async def _take(self, command: ClaimImpact) -> Claim:
        try:
            await self._engine.submit(command, SELF)
        except Refused:
            return Claim.THEIRS
        return Claim.OURS
