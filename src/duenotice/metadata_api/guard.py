"""For one of many nodes: answers VMs only while it has the right to, and holds polls of hidden scopes (N05, N06).

A port without a guard has no cost from it. With a lease timer a port with a guard has none either: while there is the
right and nothing is hidden, polls do not even meet the guard, and the timer brings it back when the right is over.
"""

from collections.abc import Callable, Coroutine
from typing import Protocol

from duenotice.engine.tally import Tally
from duenotice.metadata_api.answers import FaultyResponse, Hold, Later, Outcome
from duenotice.metadata_api.context import ServerContext
from duenotice.metadata_api.requests import Poll, Query
from duenotice.metadata_api.responses import EMPTY_OK, Answer, error
from duenotice.metadata_api.sessions import VmSession

PATIENCE = 1.5
"""For how many leases a poll of a hidden scope waits: milliseconds are enough, unless a node has died in just these.

Then it is put out after a lease, and if it was the one that leads, another one leads a moment later (N19, S30).
"""

NO_RIGHT = error(503, "This node cannot tell whether its events are the newest. Ask again.", "Retry-After: 1")
HIDDEN = error(503, "The events of this VM are changing. Ask again.", "Retry-After: 1")


class Hiding(Protocol):
    """What is hidden for a moment; while it is not down, nothing is."""

    is_down: bool
    on_change: Callable[[], None]

    def hides(self, *what: str) -> bool:
        """Whether a scope or an address is hidden."""

    async def wait(self, *what: str, timeout: float) -> bool:
        """Wait until it is not; whether that came in time."""


class Ringing(Protocol):
    """An alarm."""

    def call(self, handler: Callable[[], None]) -> None:
        """What to do when it rings."""

    def set(self, nanos: int) -> None:
        """Ring at this moment since boot, and at no other."""


class Guard:
    """Stands before the answers of a port, and before the short way that most polls take."""

    def __init__(
        self,
        may_answer: Callable[[], bool],
        barrier: Hiding,
        counters: Tally | None = None,
        lease_timer: Ringing | None = None,
        lease: Callable[[], float] = lambda: 1.0,
    ) -> None:
        """`lease` is in real seconds."""
        self._may_answer, self._barrier, self._counters, self._lease_timer = (
            may_answer,
            barrier,
            counters or Tally(),
            lease_timer,
        )
        self._lease = lease

    def stand_before(self, context: ServerContext) -> None:
        """From now on nothing is answered without us."""
        self._context, self._answers, self._warm_sessions = context, context.answers, context.sessions.by_address
        context.answers, context.warm_sessions = self, self
        if self._lease_timer is not None:
            self._lease_timer.call(self._step_aside_or_back)

    def right_changed(self, until: int) -> None:
        """There is the right until this moment, in nanoseconds since boot, or it is over."""
        if self._lease_timer is not None:
            self._lease_timer.set(until)
            # Not before a timer was set: a node that lost its store right after its start would answer for ever.
            self._barrier.on_change = self._step_aside_or_back
            self._step_aside_or_back()

    def _step_aside_or_back(self) -> None:
        """Aside first: if the timer rings in the middle of this, we look after it, and step back."""
        context = self._context
        if (
            context.warm_sessions is self or context.warm_sessions is self._warm_sessions
        ):  # else there are faults, and nobody takes the short way
            context.warm_sessions = self._warm_sessions
            if self._barrier.is_down or not self._may_answer():
                context.warm_sessions = self

    def get(self, address: str) -> VmSession | None:
        """The session for the short way: none if the answer must not be given at once."""
        session = self._warm_sessions.get(address)
        if session is None or not self._may_answer():
            return None
        if self._barrier.is_down and self._barrier.hides(session.scope, address):
            return None
        return session

    def answer(self, address: str, query: Query, body: bytes) -> Outcome | Later | FaultyResponse:
        """The right answer, or a refusal, or a wait for the barrier."""
        if not self._may_answer():
            return self._no_right()
        session = self._context.sessions.find(address)
        if session is None:  # it may be the address of a VM that other nodes know already
            is_hidden = self._barrier.hides(address)
            return self._wait((address,), address, query, body) if is_hidden else self._inner(address, query, body)
        if not isinstance(query, Poll):
            return self._inner(address, query, body)
        if self._barrier.hides(session.scope, address):
            return self._wait((session.scope, address), address, query, body)
        outcome = self._inner(address, query, body)
        return self._finish(outcome, address, query) if isinstance(outcome, Coroutine) else outcome

    def _inner(self, address: str, query: Query, body: bytes) -> Outcome | Later | FaultyResponse:
        return self._answers.answer(address, query, body)

    def recheck(self, address: str, poll: Poll) -> Answer | Hold:
        """What a poll gets that was to be held."""
        return self._refusal(address) or self._answers.recheck(address, poll)

    def final_answer(self, address: str, poll: Poll) -> Answer:
        """What a held poll gets in the end."""
        return self._refusal(address) or self._answers.final_answer(address, poll)

    async def _wait(self, what: tuple[str, ...], address: str, query: Query, body: bytes) -> Outcome | FaultyResponse:
        self._counters.held += 1
        if not await self._barrier.wait(*what, timeout=PATIENCE * self._lease()):
            return self._hidden()
        outcome = self.answer(address, query, body)
        return await outcome if isinstance(outcome, Coroutine) else outcome

    async def _finish(self, later: Later, address: str, poll: Poll) -> Outcome | FaultyResponse:
        """The scope listens now; meanwhile the right may be gone, or something newer be stored."""
        came = await later
        session = self._context.sessions.find(address)
        if came == EMPTY_OK or session is None or (isinstance(came, Answer) and came.status not in (200, 304)):
            return came
        is_shown = await self._barrier.wait(session.scope, address, timeout=PATIENCE * self._lease())
        return self.recheck(address, poll) if is_shown else self._hidden()

    def _refusal(self, address: str) -> Answer | None:
        if not self._may_answer():
            return self._no_right()
        session = self._context.sessions.find(address)
        is_hidden = self._barrier.hides(address, *(() if session is None else (session.scope,)))
        return self._hidden() if is_hidden else None

    def _no_right(self) -> Answer:
        self._counters.without_right += 1
        return NO_RIGHT

    def _hidden(self) -> Answer:
        self._counters.hidden_too_long += 1
        return HIDDEN
