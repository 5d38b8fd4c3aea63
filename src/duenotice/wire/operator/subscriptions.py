"""Subscriptions in the operator's contract: who is told of events by push (M13). Secrets are in requests only."""

from typing import Annotated

from duenotice.domain.subscription import LONGEST_SECRET, SHORTEST_SECRET
from duenotice.wire.operator.words import (
    AnswerBody,
    Count,
    Moment,
    PushFormatName,
    RequestBody,
    SubscriptionStatusName,
    TypeName,
    described,
)


class DeadLetter(AnswerBody, frozen=True):
    """A message that was given up; `position` is that of the change in the audit trail."""

    position: Count
    event_id: str
    at: Moment
    reason: str


class Subscription(AnswerBody, frozen=True):
    """A receiver and how far it is told: all up to `position`, but for what is `pending` or `dead_letters`.

    `trouble` is why the last try failed. `dropped` counts dead letters that are not listed any more.
    A query of its URL is not shown, and its secrets are not; `bearer` says whether it is sent one.
    """

    id: str
    url: str
    format: PushFormatName
    types: tuple[TypeName, ...]
    groups: tuple[str, ...]
    vms: tuple[str, ...]
    bearer: bool
    status: SubscriptionStatusName
    reason: str
    trouble: str
    created_at: Moment
    position: Count
    pending: Count
    dead_letters: Count
    dropped: Count


class SubscriptionWithMessages(Subscription, frozen=True):
    """A subscription with its dead letters."""

    messages: tuple[DeadLetter, ...]


class NewSubscription(Subscription, frozen=True):
    """A subscription with the secret that signs what it is sent, which is shown only once."""

    secret: str


_PLAIN = r"^[!-~]*$"


class SubscriptionRequest(RequestBody, frozen=True):
    """The body of a request for a subscription; without types, groups and VMs it is told of all events."""

    url: Annotated[str, described(format="uri", pattern="^https?://", maxLength=2000)]
    format: PushFormatName
    types: tuple[TypeName, ...] = ()
    groups: tuple[str, ...] = ()
    vms: tuple[str, ...] = ()
    secret: Annotated[str, described(pattern=_PLAIN, minLength=SHORTEST_SECRET, maxLength=LONGEST_SECRET)] = ""
    bearer: Annotated[str, described(pattern=_PLAIN)] = ""


class ReplayRequest(RequestBody, frozen=True):
    """The body of a request to deliver dead letters again: all of it, or what is about these events."""

    events: tuple[str, ...] = ()
