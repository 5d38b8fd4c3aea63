"""Which node makes an attempt: alone it is always this one; of several, the one whose claim is in the journal (N12).

The leader claims. What a node has claimed it attends to its end, also when another leads by then or after a restart:
only its driver knows what is already done. A new leader waits for that node's report as long as an attempt may take.

While an old process of a node stands still, a new one may be started under the same name (N03). It has another data
directory, because the old one's is in use, and so it does not have the notes of what the old one has begun. Nor may it
run what the old one has only claimed: that one may begin it in the moment in which it wakes up. So a claim also names
the directory, and the new process waits for what was claimed in another one, as it waits for another node.
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
    """One of several nodes; `is_there` tells whether a node is a member now, `patience` how long one may be away.

    `directory` names where our driver has its notes; empty if it needs none.
    """

    def __init__(
        self,
        engine: Engine,
        node: str,
        is_there: Callable[[str], bool],
        patience: float,
        now: Callable[[], float] = monotonic,
        directory: str = "",
    ) -> None:
        self._engine, self._node, self._is_there = engine, node, is_there
        self._patience, self._now, self._directory = patience, now, directory
        self._away_since: dict[str, float] = {}

    def attends(self, event: Event) -> bool:
        """What a process of our name has claimed; if we lead, all."""
        return self._engine.leads or event.claimed_by == self._node

    def leads(self) -> bool:
        """Whether this node leads now."""
        return self._engine.leads

    async def claim(self, event: Event, attempt: int, *, instead: bool = False) -> Claim:
        """Stored before the attempt begins."""
        holder = event.claimed_by
        if holder == self._node and event.claimed_in in ("", self._directory):
            return Claim.OURS
        if not holder or instead:
            return await self._take(ClaimImpact(event.id, attempt, self._node, holder, self._directory))
        # The member of our name is ourselves: another process of that name is replaced (N03).
        if holder != self._node and self._is_there(holder):
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
