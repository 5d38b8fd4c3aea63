"""Who is told of events by push: a subscription, what it asks for, and how far its deliveries are (M13)."""

from datetime import datetime
from enum import Enum

from msgspec import Struct, structs

from duenotice.clock import MICROS, Instant
from duenotice.domain.event import Event, EventType
from duenotice.domain.fleet import group_of

GIVEN_UP_AFTER = 24 * 3600 * MICROS
"""How long a message is tried, on the service's clock."""

MOST_DEAD_LETTERS = 1000
"""Dead letters that a subscription keeps (S24); the oldest is forgotten first, the journal still has it."""

SHORTEST_SECRET, LONGEST_SECRET = 16, 500
"""Characters of the secret that signs what is sent."""


class PushFormat(Enum):
    """What a receiver is sent: the schema of Event Grid, or CloudEvents 1.0."""

    EVENTGRID = "eventgrid"
    CLOUDEVENTS = "cloudevents"


class SubscriptionStatus(Enum):
    """Whether messages are delivered; a receiver says first that it wants them."""

    WAITING = "waiting"
    """It is being asked."""
    ACTIVE = "active"
    REFUSED = "refused"
    """It does not want them, or may not be asked."""
    PAUSED = "paused"


class DeadLetter(Struct, frozen=True, omit_defaults=True, gc=False):
    """A message that was given up: where it is in the journal, and why."""

    position: int
    event_id: str
    at: datetime
    reason: str = ""


class Subscription(Struct, frozen=True, omit_defaults=True):
    """One receiver.

    All changes of events up to `position` are delivered, but for those at the positions that are `pending`, and those
    that are `dead_letters`; `dropped` counts the dead letters that are no longer listed. Tries of a message last for a
    day, from the moment that it happened or from `since`; `is_too_late` says when it is over. `trouble` is why the last
    try failed, if it did.
    """

    id: str
    url: str
    format: PushFormat
    created_at: datetime
    since: datetime
    types: tuple[EventType, ...] = ()
    groups: tuple[str, ...] = ()
    vms: tuple[str, ...] = ()
    secret: str = ""
    bearer: str = ""
    status: SubscriptionStatus = SubscriptionStatus.WAITING
    reason: str = ""
    position: int = 0
    pending: tuple[int, ...] = ()
    trouble: str = ""
    dead_letters: tuple[DeadLetter, ...] = ()
    dropped: int = 0
    since_steady: int = 0

    def is_too_late(self, now: Instant, happened: Instant | None = None) -> bool:
        """Whether a day is over by both faces of time (S34): since it was resumed, and since a message happened."""
        since = Instant(self.since, self.since_steady)
        return all(each.after(GIVEN_UP_AFTER).has_come(now) for each in (since, happened or since))

    def wants(self, event: Event) -> bool:
        """Whether an event is of one of the types, and in one of the groups or on one of the VMs, if any are named."""
        if self.types and event.type not in self.types:
            return False
        if not self.groups and not self.vms:
            return True
        return group_of(event.scope) in self.groups or any(name in self.vms for name in event.resources)

    def with_(self, **changes: object) -> "Subscription":
        """The same subscription with some fields changed."""
        return structs.replace(self, **changes)

    def without_secrets(self) -> "Subscription":
        """What may be told to others: nothing that proves who we are, and no query, which may hold a key."""
        address, question, _ = self.url.partition("?")
        return self.with_(url=f"{address}?***" if question else address, secret="", bearer="")
