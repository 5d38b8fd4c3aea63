"""What one subscription has to send: in order for each event, later after a failure, and not for ever. No I/O here."""

import heapq
from collections import deque
from collections.abc import Callable
from datetime import datetime

from duenotice.backoff import Backoff
from duenotice.clock import Instant
from duenotice.domain.commands import GivenUp, PushNote
from duenotice.domain.subscription import Subscription
from duenotice.wire.azure import EventChange

AT_ONCE = 8
"""Messages of one subscription under way at the same time; a receiver that fails gets one at a time."""

MOST_PENDING = 500
"""Messages that one subscription holds in memory (S24); the others wait in the journal."""

PASSED = 10_000
"""Records without anything to tell, after which the position is noted anyway: a start need not read them again."""


class QueuedMessage:
    """A message and how often it was tried; `ready_at` in seconds of real time."""

    __slots__ = ("change", "ready_at", "tries")

    def __init__(self, change: EventChange) -> None:
        self.change, self.tries, self.ready_at = change, 0, 0.0


class Outbox:
    """Each event has a queue: the next message of a queue is sent when the one before it is delivered or given up."""

    def __init__(self, known: Subscription, backoff: Backoff, jitter: Callable[[], float]) -> None:
        """`jitter` makes a pause shorter by a factor, so that receivers do not get all tries at once."""
        self.known, self.position = known, known.position
        self._backoff, self._jitter = backoff, jitter
        self._queues: dict[str, deque[QueuedMessage]] = {}
        self._ready: list[tuple[float, int, str]] = []
        self._held: dict[int, EventChange] = {}
        self._under_way = self._failures = 0
        self._quiet_until = 0.0
        self._done: list[int] = []
        self._given_up: list[GivenUp] = []
        self._noted_position, self._noted_trouble = known.position, known.trouble
        self.trouble, self._is_fuller = known.trouble, False

    @property
    def waiting(self) -> int:
        """How many messages are not delivered yet."""
        return len(self._held)

    @property
    def room(self) -> int:
        """How many more it may hold."""
        return MOST_PENDING - len(self._held)

    @property
    def oldest(self) -> datetime | None:
        """When the first of those that wait happened."""
        return min((change.when.at for change in self._held.values()), default=None)

    @property
    def unnoted(self) -> int:
        """How many messages are delivered or given up and not noted."""
        return len(self._done)

    @property
    def is_far(self) -> bool:
        """Whether a start would take long, because many records were read and not noted."""
        return self.position - self._noted_position >= PASSED

    def put(self, change: EventChange) -> None:
        """One more to send; behind those of the same event."""
        if change.position in self._held:
            return
        self._held[change.position], self._is_fuller = change, True
        queue = self._queues.setdefault(change.event.id, deque())
        queue.append(QueuedMessage(change))
        if len(queue) == 1:
            self._offer(queue[0])

    def drop(self, position: int, reason: str) -> None:
        """A message that cannot be made any more."""
        self._done.append(position)
        self._given_up.append(GivenUp(position, "", reason))

    def next(self, now: float) -> QueuedMessage | None:
        """What to send now, if anything; it is under way until it is said how that went."""
        wait = self.wait(now)
        if wait is None or wait > 0:
            return None
        _, _, event_id = heapq.heappop(self._ready)
        self._under_way += 1
        return self._queues[event_id][0]

    def wait(self, now: float) -> float | None:
        """Seconds until something may be sent; None when something else has to happen first."""
        most = 1 if self._failures else AT_ONCE
        if self._under_way >= most or not self._ready:
            return None
        return max(0.0, self._quiet_until - now, self._ready[0][0] - now)

    def delivered(self, message: QueuedMessage) -> None:
        """The receiver has it."""
        self._failures, self._quiet_until, self.trouble = 0, 0.0, ""
        self._over(message)

    def failed(
        self, message: QueuedMessage, reason: str, now: float, shown: Instant, *, alone: bool, after: float
    ) -> bool:
        """It was not taken, when the service's clock showed `shown`. Tells whether it is given up.

        `alone` says that this is about the message, and others may go well. `after` is when the receiver wants to be
        asked again.
        """
        self.trouble = reason
        message.tries += 1
        if not alone and now >= self._quiet_until:  # those that were under way together fail together
            self._quiet_until = now + self._pause(self._failures, after)
            self._failures += 1
        if self.known.is_too_late(shown, message.change.when):
            self._give_up(message, reason)
            return True
        message.ready_at = now + self._pause(message.tries - 1, after)
        self._under_way -= 1
        self._offer(message)
        return False

    def is_hopeless(self, message: QueuedMessage, shown: Instant) -> bool:
        """Whether a message is too old to be tried, as the receiver takes nothing anyway; then it is given up."""
        hopeless = bool(self._failures) and self.known.is_too_late(shown, message.change.when)
        if hopeless:
            self._give_up(message, self.trouble)
        return hopeless

    def take_note(self) -> PushNote | None:
        """What is to be written down, if there is anything new.

        What waits is news only while the receiver is in trouble: else it is delivered in a moment.
        """
        waits = self._is_fuller and bool(self.trouble)
        if not (self._done or waits or self.is_far or self.trouble != self._noted_trouble):
            return None
        note = PushNote(
            self.known.id,
            self.position,
            tuple(sorted(self._held)),
            tuple(self._done),
            self.trouble,
            tuple(self._given_up),
        )
        self._done, self._given_up, self._is_fuller = [], [], False
        self._noted_position, self._noted_trouble = self.position, self.trouble
        return note

    def put_back(self, note: PushNote) -> None:
        """It could not be written down: the next note says it too."""
        self._done, self._given_up = [*note.done, *self._done], [*note.given_up, *self._given_up]

    def _pause(self, failures: int, after: float) -> float:
        return max(self._backoff.after(failures) * self._jitter(), min(after, self._backoff.longest))

    def _give_up(self, message: QueuedMessage, reason: str) -> None:
        self._given_up.append(GivenUp(message.change.position, message.change.event.id, reason))
        self._over(message)

    def _over(self, message: QueuedMessage) -> None:
        self._under_way -= 1
        self._done.append(message.change.position)
        del self._held[message.change.position]
        queue = self._queues[message.change.event.id]
        queue.popleft()
        if queue:
            self._offer(queue[0])
        else:
            del self._queues[message.change.event.id]

    def _offer(self, message: QueuedMessage) -> None:
        heapq.heappush(self._ready, (message.ready_at, message.change.position, message.change.event.id))
