"""The followers of a node: nothing is shown while one of them can still show what is older (N05, N06).

A follower is a member through its node. It joins when it begins to listen, and is put out when it has been silent for
a lease by the node's own clock; its right to answer is over by then. No clock of a follower is ever looked at.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from duenotice.clock import MICROS, boot_micros
from duenotice.engine.log import report
from duenotice.engine.membership import Terms
from duenotice.engine.writer import News
from duenotice.errors import Conflict, Unavailable

MOST_FOLLOWERS = 1000
MOST_LIVES = 10 * MOST_FOLLOWERS
"""Also those whose stream has ended, and that may answer until they have been silent for a lease (S24)."""
_OUT = "This follower is not known here, or was put out."
_AGAIN = "Read the snapshot, and listen again."


class Below(Protocol):
    """Who shows what the engine shows, and has to be asked first."""

    async def hide(self, news: News) -> None:
        """Wait until nobody can show anything older than this any more."""

    def show(self, position: int) -> None:
        """All up to here is shown from now on."""


class Nobody:
    """A node that nobody follows."""

    async def hide(self, news: News) -> None:
        """There is nobody to wait for."""

    def show(self, position: int) -> None:
        """There is nobody to tell."""


class Listener(Protocol):
    """Where a follower listens."""

    async def hear(self, news: News) -> None:
        """These records are durable: hide what they touch."""

    def hear_shown(self, position: int) -> None:
        """All up to here may be shown."""

    def dismiss(self) -> None:
        """Nothing more is told: follow another node."""

    def close(self) -> None:
        """Nothing more is told."""


class Follower:
    """One of them: when it last gave a sign of life, and up to where it has hidden what is not shown yet."""

    __slots__ = ("ear", "hidden", "is_granted", "joined", "seen")

    def __init__(self, ear: Listener, hidden: int, now: int) -> None:
        self.ear, self.hidden = ear, hidden
        self.joined = self.seen = now
        self.is_granted = False


class Followers:
    """All followers of this process of a node, and what they were told."""

    def __init__(
        self,
        position: int,
        terms: Terms = Terms(),  # noqa: B008
        right: Callable[[], int] | None = None,
        now: Callable[[], int] = boot_micros,
    ) -> None:
        self.terms = terms
        self.told = self.shown = position
        self.by_life: dict[str, Follower] = {}
        self._right = right or (lambda: terms.right)
        self._now = now
        self.describe: Callable[[str], dict[str, str]] = lambda life: {"follower": life}
        """How the log calls a follower."""
        self._quiet_until = 0
        self._is_open = self._has_changed = self._is_over = False
        self._asked_at = 0
        self._stirred = asyncio.Event()

    async def open(self, had_followers: bool) -> None:
        """VMs are about to be answered. Followers of the last process of this node may still be answering them.

        So if there is anything new since it ended, wait until they cannot do so any more. Until then show no change.
        """
        if had_followers:
            self._quiet_until = self._now() + self.terms.lease
            while self._has_changed and self._now() < self._quiet_until:
                await self._stir_or(self._quiet_until)
        self._is_open = True

    def join(self, life: str, ear: Listener, position: int) -> None:
        """A follower listens from now on, and has hidden all up to a position. It may have listened before."""
        self.refuse_if_over()
        if (before := self.by_life.get(life)) is not None:
            before.ear.close()
        elif len(self.by_life) >= MOST_LIVES:
            self.put_out_silent()
            if len(self.by_life) >= MOST_LIVES:
                raise Unavailable("Too many followers have come and gone just now.", hint="Try again in a lease.")
        self.by_life[life] = Follower(ear, position, self._now())
        self.by_life[life].is_granted = before is not None and before.is_granted
        self._stir()

    def beat(self, life: str, hidden: int) -> int:
        """A sign of life; tells for how long the follower may answer, from before it gave it (N05).

        One that does not hide what it was asked to hide loses the right, so that it cannot delay the others for ever.
        """
        follower, now = self.by_life.get(life), self._now()
        if follower is None or self._is_over or self._is_silent(follower, now):
            raise Conflict(_OUT, hint=_AGAIN)
        follower.hidden = max(follower.hidden, min(hidden, self.told))
        owes_since = max(self._asked_at, follower.joined)
        if follower.hidden < self.told and now - owes_since > self.terms.lease // 2:
            raise Conflict("This follower does not keep up.", hint=_AGAIN)
        follower.seen = now
        self._stir()
        follower.is_granted = True
        return self._right()

    def leave(self, life: str) -> None:
        """A follower answers nobody any more."""
        if (follower := self.by_life.pop(life, None)) is not None:
            follower.ear.close()
        self._stir()

    def ended(self, life: str, ear: Listener) -> None:
        """The stream of a follower is over. One that was never let to answer costs nobody anything (N20)."""
        follower = self.by_life.get(life)
        if follower is not None and follower.ear is ear and not follower.is_granted:
            self.leave(life)

    def behind(self) -> list[str]:
        """The lives that hold back a change: they have not hidden what they were told."""
        return [life for life, each in self.by_life.items() if each.hidden < self.told != self.shown]

    def put_out_silent(self) -> None:
        """Those that were silent for a lease may not answer any more."""
        self._put_out_silent()

    def refuse_if_over(self) -> None:
        """Nobody can follow a node that is about to leave the others."""
        if self._is_over:
            raise Unavailable("This node is about to stop.", hint="Follow another node.")

    async def dismiss(self) -> None:
        """One of many nodes is about to leave: then nobody waits for its followers, so none may answer (N05, N07).

        So wait until each has said that it goes, or has been silent for a lease.
        """
        self._is_over = True
        for follower in list(self.by_life.values()):
            follower.ear.dismiss()
        while self.by_life:
            await self._stir_or(min(each.seen for each in self.by_life.values()) + self.terms.lease)
            self._put_out_silent()

    def close(self) -> None:
        """The node is about to stop."""
        for follower in self.by_life.values():
            follower.ear.close()

    async def hide(self, news: News) -> None:
        """Tell all of it, and wait until each has hidden what it touches or is put out."""
        touched, position = news.touched, news.records[-1].position
        is_seen = bool(touched.scopes or touched.vms or touched.everything)
        self.told = position
        if not self._is_open:  # nobody is answered yet, and nobody can follow
            self._has_changed = self._has_changed or is_seen
            return
        self._asked_at = self._now()
        await self._tell(news)
        while is_seen and (until := self._waits_until(position)) is not None:
            await self._stir_or(until)

    async def _tell(self, news: News) -> None:
        """A follower that cannot be told has to listen again; until it does, or is put out, we wait for it."""
        if not self.by_life:
            return
        ears = [follower.ear for follower in self.by_life.values()]
        errors = await asyncio.gather(*(ear.hear(news) for ear in ears), return_exceptions=True)
        for ear, error in zip(ears, errors, strict=True):
            if error is not None:
                report("error", "a follower could not be told", action="follower-untold", exc_info=error)
                ear.close()

    def show(self, position: int) -> None:
        """All up to here may be shown."""
        self.shown = position
        for follower in self.by_life.values():
            follower.ear.hear_shown(position)
        self._stir()

    async def settled(self) -> None:
        """Wait until all that was told is shown."""
        while self.told != self.shown:
            await self._stir_or(self._now() + self.terms.every)

    def _waits_until(self, position: int) -> int | None:
        """When to look again, or None when there is nobody to wait for."""
        now = self._put_out_silent()
        late = [each.seen + self.terms.lease for each in self.by_life.values() if each.hidden < position]
        if now < self._quiet_until:
            late.append(self._quiet_until)
        return min(late, default=None)

    def _put_out_silent(self) -> int:
        now = self._now()
        for life, follower in list(self.by_life.items()):
            if self._is_silent(follower, now):
                report("warning", "a follower was put out", action="follower-out", **self.describe(life))
                self.leave(life)
        return now

    def _is_silent(self, follower: Follower, now: int) -> bool:
        return now - follower.seen >= self.terms.lease

    async def _stir_or(self, until: int) -> None:
        stirred = self._stirred
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0, until - self._now()) / MICROS):
                await stirred.wait()

    def _stir(self) -> None:
        self._stirred.set()
        self._stirred = asyncio.Event()
