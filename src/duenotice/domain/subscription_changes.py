"""What can happen to subscriptions: their part of `transitions`, which tells how these are kept."""

from duenotice.domain.change import Change
from duenotice.domain.subscription import SetAside, Subscription, SubscriptionStatus


class SubscriptionCreated(Change, frozen=True, tag="subscription-created"):
    """A receiver is to be told of events."""

    subscription: Subscription


class SubscriptionTurned(Change, frozen=True, tag="subscription-turned"):
    """Messages are delivered from now on, or not any more."""

    subscription_id: str
    status: SubscriptionStatus
    reason: str = ""


class SubscriptionDeleted(Change, frozen=True, tag="subscription-deleted"):
    """A receiver is told nothing any more."""

    subscription_id: str


class SubscriptionReplayed(Change, frozen=True, tag="subscription-replayed"):
    """What was set aside at these positions is delivered again."""

    subscription_id: str
    positions: tuple[int, ...]


class PushesClaimed(Change, frozen=True, tag="pushes-claimed"):
    """Another process delivers from now on (N12)."""

    claim: str


class PushNoted(Change, frozen=True, tag="push-noted"):
    """How far the deliveries of a subscription are."""

    subscription_id: str
    position: int
    pending: tuple[int, ...] = ()
    trouble: str = ""


class PushSetAside(Change, frozen=True, tag="push-set-aside"):
    """Messages were given up."""

    subscription_id: str
    set_aside: tuple[SetAside, ...]
