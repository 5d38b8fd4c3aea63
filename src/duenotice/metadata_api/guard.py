"""For one of many nodes: answers VMs only while it has the right to, and holds polls of hidden scopes (N05, N06).

A door without a guard has no cost from it. With an alarm a door with a guard has none either: while there is the right
and nothing is hidden, polls do not even meet the guard, and the alarm brings it back when the right is over.
"""

from collections.abc import Callable, Coroutine
from typing import Protocol

from duenotice.engine.tally import Tally
from duenotice.metadata_api.answers import Broken, Hold, Later, Outcome
from duenotice.metadata_api.context import Door
from duenotice.metadata_api.requests import Poll, Question
from duenotice.metadata_api.responses import EMPTY_OK, Answer, error
from duenotice.metadata_api.sessions import Lane

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
    """Stands before the answers of a door, and before the short way that most polls take."""

    def __init__(
        self,
        may_answer: Callable[[], bool],
        curtain: Hiding,
        tally: Tally | None = None,
        alarm: Ringing | None = None,
        lease: Callable[[], float] = lambda: 1.0,
    ) -> None:
        """`lease` is in real seconds."""
        self._may_answer, self._curtain, self._tally, self._alarm = may_answer, curtain, tally or Tally(), alarm
        self._lease = lease

    def stand_before(self, door: Door) -> None:
        """From now on nothing is answered without us."""
        self._door, self._answers, self._lanes = door, door.answers, door.callers.lanes
        door.answers, door.lanes = self, self
        if self._alarm is not None:
            self._alarm.call(self._step_aside_or_back)

    def right_changed(self, until: int) -> None:
        """There is the right until this moment, in nanoseconds since boot, or it is over."""
        if self._alarm is not None:
            self._alarm.set(until)
            # Not before an alarm was set: a node that lost its store right after its start would answer for ever.
            self._curtain.on_change = self._step_aside_or_back
            self._step_aside_or_back()

    def _step_aside_or_back(self) -> None:
        """Aside first: if the alarm rings in the middle of this, we look after it, and step back."""
        door = self._door
        if door.lanes is self or door.lanes is self._lanes:  # else there are faults, and nobody takes the short way
            door.lanes = self._lanes
            if self._curtain.is_down or not self._may_answer():
                door.lanes = self

    def get(self, address: str) -> Lane | None:
        """The lane for the short way: none if the answer must not be given at once."""
        lane = self._lanes.get(address)
        if lane is None or not self._may_answer():
            return None
        if self._curtain.is_down and self._curtain.hides(lane.scope, address):
            return None
        return lane

    def answer(self, address: str, question: Question, body: bytes) -> Outcome | Later | Broken:
        """The answer of the door, or a refusal, or a wait for the curtain."""
        if not self._may_answer():
            return self._no_right()
        lane = self._door.callers.find(address)
        if lane is None:  # it may be the address of a VM that other nodes know already
            is_hidden = self._curtain.hides(address)
            return (
                self._wait((address,), address, question, body) if is_hidden else self._inner(address, question, body)
            )
        if not isinstance(question, Poll):
            return self._inner(address, question, body)
        if self._curtain.hides(lane.scope, address):
            return self._wait((lane.scope, address), address, question, body)
        outcome = self._inner(address, question, body)
        return self._finish(outcome, address, question) if isinstance(outcome, Coroutine) else outcome

    def _inner(self, address: str, question: Question, body: bytes) -> Outcome | Later | Broken:
        return self._answers.answer(address, question, body)

    def still(self, address: str, poll: Poll) -> Answer | Hold:
        """What a poll gets that was to be held."""
        return self._refusal(address) or self._answers.still(address, poll)

    def again(self, address: str, poll: Poll) -> Answer:
        """What a held poll gets in the end."""
        return self._refusal(address) or self._answers.again(address, poll)

    async def _wait(self, what: tuple[str, ...], address: str, question: Question, body: bytes) -> Outcome | Broken:
        self._tally.held += 1
        if not await self._curtain.wait(*what, timeout=PATIENCE * self._lease()):
            return self._hidden()
        outcome = self.answer(address, question, body)
        return await outcome if isinstance(outcome, Coroutine) else outcome

    async def _finish(self, later: Later, address: str, poll: Poll) -> Outcome | Broken:
        """The scope listens now; meanwhile the right may be gone, or something newer be stored."""
        came = await later
        lane = self._door.callers.find(address)
        if came == EMPTY_OK or lane is None or (isinstance(came, Answer) and came.status not in (200, 304)):
            return came
        is_shown = await self._curtain.wait(lane.scope, address, timeout=PATIENCE * self._lease())
        return self.still(address, poll) if is_shown else self._hidden()

    def _refusal(self, address: str) -> Answer | None:
        if not self._may_answer():
            return self._no_right()
        lane = self._door.callers.find(address)
        is_hidden = self._curtain.hides(address, *(() if lane is None else (lane.scope,)))
        return self._hidden() if is_hidden else None

    def _no_right(self) -> Answer:
        self._tally.without_right += 1
        return NO_RIGHT

    def _hidden(self) -> Answer:
        self._tally.hidden_too_long += 1
        return HIDDEN
