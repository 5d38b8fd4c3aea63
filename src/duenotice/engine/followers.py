"""The followers of a node: nothing is shown while one of them can still show what is older (N05, N06).

A change goes through them in two rounds (N19). First each applies it and says so, while it still shows what was before.
When all have, or were put out, they are asked to hold it: VMs see neither for some milliseconds. Then it is shown. So
one that is dead delays a change, and no poll. What was acknowledged is never taken back.

A follower is a member through its node. It joins when it begins to listen, and is put out when it has been silent for
a lease by the node's own clock; its right to answer is over by then. No clock of a follower is ever looked at.

A change waits only for those that answer a VM which it touches (N17). A follower owes an acknowledgement for those
changes alone. It is waited for from its first granted lease on, and gets that when it has acknowledged what it owes:
who joins while a change waits cannot delay it, whatever becomes of it.

Nobody waits for a process that has certainly ended (N18): a worker is killed when it does not acknowledge in time, and
its parent says when it is gone.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from duenotice.clock import MICROS, boot_micros
from duenotice.engine.log import report
from duenotice.engine.membership import Terms
from duenotice.engine.writer import News
from duenotice.errors import Conflict, Unavailable

MOST_FOLLOWERS = 1000
CHILD_PATIENCE, PATIENCE_PER_VM = MICROS // 4, 50
"""How long a worker may take to acknowledge a change, and how much longer for each VM that came, went or changed."""
MOST_LIVES = 10 * MOST_FOLLOWERS
"""Also those whose stream has ended, and that may answer until they have been silent for a lease (S24)."""
_OUT = "This follower is not known here, or was put out."
_AGAIN = "Read the snapshot, and listen again."


class Below(Protocol):
    """Who shows what the engine shows, and has to be asked first."""

    @property
    def is_open(self) -> bool:
        """Whether what is shown can be read by now; before, no VM is answered (S2)."""

    async def apply(self, news: News) -> None:
        """Wait until all have applied this, and still show what was before."""

    async def hold(self, position: int) -> None:
        """Wait until nobody can show anything older than this any more."""

    def show(self, position: int) -> None:
        """All up to here is shown from now on."""


class Nobody:
    """A node that nobody follows."""

    is_open = True

    async def apply(self, news: News) -> None:
        """There is nobody to wait for."""

    async def hold(self, position: int) -> None:
        """There is nobody to wait for."""

    def show(self, position: int) -> None:
        """There is nobody to tell."""


class Listener(Protocol):
    """Where a follower listens."""

    async def hear(self, news: News) -> bool:
        """These records are durable: apply them. Tells whether the follower answers any of it (N17)."""

    def hear_hold(self, position: int) -> None:
        """All have applied what is up to here: hide what differs from what VMs see."""

    def hear_shown(self, position: int) -> None:
        """All up to here may be shown."""

    def dismiss(self) -> None:
        """Nothing more is told: follow another node."""

    def close(self) -> None:
        """Nothing more is told."""


class Follower:
    """One of them: when it last gave a sign of life, and up to where it has applied and hidden what is not shown yet.

    It `owes` to apply all up to there, and to hide it when it was `asked` to.
    """

    __slots__ = ("applied", "asked", "ear", "heard", "hidden", "may_answer_until", "owes", "owes_since", "seen")

    def __init__(self, ear: Listener, applied: int, owes: int, asked: int, now: int) -> None:
        self.ear, self.applied, self.hidden, self.owes, self.asked = ear, applied, 0, owes, asked
        self.owes_since = self.seen = self.heard = now
        self.may_answer_until = 0

    @property
    def is_late(self) -> bool:
        """Whether it has not acknowledged what it was told or asked."""
        return self.applied < self.owes or self.hidden < min(self.asked, self.owes)

    @property
    def is_granted(self) -> bool:
        """Whether it was ever given the right to answer."""
        return self.may_answer_until > 0

    def owe(self, position: int, now: int) -> None:
        """It answers something that differs after the record at this position."""
        if not self.is_late:
            self.owes_since = now
        self.owes = position

    def ask(self, position: int, now: int) -> None:
        """It has to hide what it has applied up to here."""
        if not self.is_late:
            self.owes_since = now
        self.asked = position
        if self.is_late:
            self.ear.hear_hold(position)


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
        self.told = self.asked = self.shown = position
        self.by_life: dict[str, Follower] = {}
        self._right = right or (lambda: terms.right)
        self._now = now
        self.describe: Callable[[str], dict[str, str]] = lambda life: {"follower": life}
        """How the log calls a follower."""
        self._quiet_until = 0
        self.is_open = self._has_changed = self._is_over = False
        self._is_seen = False
        self.pending: News | None = None
        """What was told and is not shown yet."""
        self._notes: list[set[str]] = []
        self._children: dict[str, Callable[[], None]] = {}
        self._patience = CHILD_PATIENCE
        self._stirred = asyncio.Event()

    async def open(self, had_followers: bool) -> None:
        """VMs are about to be answered. Followers of the last process of this node may still be answering them.

        So if there is anything new since it ended, wait until they cannot do so any more. Until then show no change.
        """
        if had_followers:
            self._quiet_until = self._now() + self.terms.lease
            while self._has_changed and self._now() < self._quiet_until:
                await self._stir_or(self._quiet_until)
        self.is_open = True

    def join(self, life: str, ear: Listener, position: int, owes: int) -> None:
        """A follower listens from now on, and has applied all up to a position; what it `owes` is on its way to it.

        If it has listened before it may be answering: it owes what it owed, and its lease is as long as it was. What it
        has hidden it says with its first beat: VMs may still see what was before all that it has applied (S27).
        """
        self.refuse_if_over()
        if (before := self.by_life.get(life)) is not None:
            before.ear.close()
            before.ear, before.applied = ear, max(before.applied, min(position, self.told))
        else:
            if len(self.by_life) >= MOST_LIVES:
                self.put_out_silent()
            if len(self.by_life) >= MOST_LIVES:
                raise Unavailable("Too many followers have come and gone just now.", hint="Try again in a lease.")
            self.by_life[life] = Follower(ear, min(position, self.told), owes, self.asked, self._now())
        self._stir()

    def beat(self, life: str, applied: int, hidden: int) -> int:
        """A sign of life; tells for how long the follower may answer, from before it gave it (N05).

        As long as one has not applied what it was told, or hidden what it was asked to hide, its right does not get
        longer: so no change waits for it for more than a lease. One that has just joined has none before it has.
        """
        follower, now = self.by_life.get(life), self._now()
        if follower is None or self._is_over or self._is_silent(follower, now):
            raise Conflict(_OUT, hint=_AGAIN)
        follower.heard = now
        follower.hidden = max(follower.hidden, min(hidden, self.told))
        follower.applied = max(follower.applied, min(applied, self.told), follower.hidden)
        if follower.is_late:
            if now - follower.owes_since > self.terms.lease // 2:
                follower.ear.close()  # its stream may have lost something: it listens again, from where it is
            if not follower.is_granted:
                follower.seen = now
            return max(0, follower.may_answer_until - now)
        right, follower.seen = self._right(), now
        follower.may_answer_until = max(follower.may_answer_until, now + right if right else 0)
        self._stir()
        return right

    def owes(self, life: str) -> bool:
        """Whether a follower has not acknowledged yet what it was told or asked."""
        return self.by_life[life].is_late

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
        """The lives that hold back a change: they have not applied it, or not hidden what they were asked to."""
        if self.pending is None:
            return []
        return [life for life, each in self.by_life.items() if each.is_granted and each.is_late]

    def put_out_silent(self) -> None:
        """Those that were silent for a lease may not answer any more."""
        self._put_out_silent()

    def adopt(self, child: str, kill: Callable[[], None]) -> None:
        """A process of this node's own, whose lives begin with this and a dot: it is killed if it is late (N18)."""
        self._children[child] = kill

    def reaped(self, child: str) -> None:
        """That process has ended: it answers nobody, whatever it was told."""
        self._children.pop(child, None)
        for life in [life for life in self.by_life if _child_of(life) == child]:
            self.leave(life)

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

    async def apply(self, news: News) -> None:
        """Tell all of it, and wait until each that answers any of it has applied it or is put out."""
        touched, position = news.touched, news.records[-1].position
        is_seen = bool(touched.scopes or touched.vms or touched.everything)
        self.told, self.pending, self._is_seen = position, news, is_seen
        self._patience = CHILD_PATIENCE + PATIENCE_PER_VM * len(touched.vms)
        for changed in self._notes:
            changed.update(touched.vms)
        if not self.is_open:  # nobody is answered yet, and nobody can follow
            self._has_changed = self._has_changed or is_seen
            return
        await self._tell(news, is_seen)
        if is_seen:
            await self._all(lambda each: each.applied >= min(each.owes, position) and self._is_there(each))

    def _is_there(self, follower: Follower) -> bool:
        """Whether it gave a sign of life a moment ago. If not it may be dead, and what is held would be dark (N19)."""
        return follower.owes < self.told or self._now() - follower.heard <= self.terms.fresh // 2

    async def hold(self, position: int) -> None:
        """Ask each that answers any of it to hide what is older, and wait until it has or is put out."""
        if not self._is_seen:
            return
        self.asked, now = max(self.asked, position), self._now()
        for follower in list(self.by_life.values()):
            follower.ask(self.asked, now)
        self._stir()
        await self._all(lambda each: each.hidden >= min(each.owes, position))

    async def _all(self, has: Callable[[Follower], bool]) -> None:
        while (until := self._waits_until(has)) is not None:
            await self._stir_or(until)

    async def _tell(self, news: News, is_seen: bool) -> None:
        """A follower that cannot be told has to listen again; until it does, or is put out, we wait for it."""
        if not self.by_life:
            return
        followers, now = list(self.by_life.values()), self._now()
        ears = [follower.ear for follower in followers]
        answers = await asyncio.gather(*(ear.hear(news) for ear in ears), return_exceptions=True)
        for follower, ear, answer in zip(followers, ears, answers, strict=True):
            if isinstance(answer, BaseException):
                report("error", "a follower could not be told", action="follower-untold", exc_info=answer)
                ear.close()
            if is_seen and answer is not False:
                follower.owe(self.told, now)

    def show(self, position: int) -> None:
        """All up to here may be shown.

        A node that was out has asked nobody to hide it, as nobody could answer by its right. From now on it can answer
        again: so who has not hidden it has no right before it has (S27).
        """
        self.shown, self.asked, now = position, max(self.asked, position), self._now()
        if position >= self.told:
            self.pending = None
        for follower in self.by_life.values():
            follower.ask(self.asked, now)
            follower.ear.hear_shown(position)
        self._stir()

    @contextmanager
    def noted(self) -> Iterator[set[str]]:
        """The names of the VMs that differ from what is shown now, then or at any moment until the block ends."""
        changed = set[str]() if self.pending is None else set(self.pending.touched.vms)
        self._notes.append(changed)
        try:
            yield changed
        finally:
            self._notes = [each for each in self._notes if each is not changed]

    def _waits_until(self, has: Callable[[Follower], bool]) -> int | None:
        """When to look again, or None when there is nobody to wait for."""
        now = self._put_out_silent()
        late = [
            self._waits_for(life, each, now) for life, each in self.by_life.items() if each.is_granted and not has(each)
        ]
        if now < self._quiet_until:
            late.append(self._quiet_until)
        return min(late, default=None)

    def _waits_for(self, life: str, follower: Follower, now: int) -> int:
        """When to look again at one that is late."""
        until, patience_ends = follower.seen + self.terms.lease, follower.owes_since + self._patience
        kill = self._children.get(_child_of(life))
        if kill is None or not follower.is_late:  # one that has acknowledged may only be silent for a moment
            return until
        if now < patience_ends:
            return min(until, patience_ends)
        kill()  # `reaped` is called as soon as it is gone
        return until

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


def _child_of(life: str) -> str:
    return life.partition(".")[0]
