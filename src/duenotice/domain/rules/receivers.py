"""The rules of subscriptions: who may be told of events by push, and what is written down of deliveries (M13).

What is delivered is written down in batches by the one process that delivers. It claims that first, under an id of its
own, so that nothing of an earlier one counts any more (N12).
"""

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.fleet import GroupKind
from duenotice.domain.policy import Policy
from duenotice.domain.state import State
from duenotice.domain.subscription import (
    LONGEST_SECRET,
    SHORTEST_SECRET,
    DeadLetter,
    Subscription,
    SubscriptionStatus,
)
from duenotice.errors import Conflict, LookAt, NotFound, Refused

MOST_SUBSCRIPTIONS = 100
MOST_FILTERS = 1000
"""So that state stays bounded (S24)."""

_Status = SubscriptionStatus


def create(state: State, command: c.CreateSubscription, now: Instant, policy: Policy) -> list[t.Transition]:
    """A new subscription; it is told of what happens from now on, once its receiver has agreed."""
    if len(state.subscriptions) >= MOST_SUBSCRIPTIONS:
        raise Refused(f"There are {MOST_SUBSCRIPTIONS} subscriptions, which is the limit.", hint="Delete some first.")
    _check_secrets(command)
    _check_filters(command)
    made = Subscription(
        command.subscription_id,
        command.url,
        command.format,
        created_at=now.at,
        since=now.at,
        since_steady=now.steady,
        types=command.types,
        groups=tuple(_group(state, name) for name in command.groups),
        vms=tuple(_vm(state, name) for name in command.vms),
        secret=command.secret,
        bearer=command.bearer,
        position=state.position,
    )
    return [t.SubscriptionCreated(made)]


def _check_secrets(command: c.CreateSubscription) -> None:
    if not SHORTEST_SECRET <= len(command.secret) <= LONGEST_SECRET or not _is_plain(command.secret):
        hint = f"Use {SHORTEST_SECRET} to {LONGEST_SECRET} plain characters, or leave it out and get one."
        raise Refused("The secret is not valid.", hint=hint)
    if len(command.bearer) > 4 * LONGEST_SECRET or not _is_plain(command.bearer):
        raise Refused("The bearer is not valid.", hint="Use plain characters without spaces.")
    if command.bearer and not command.url.lower().startswith("https:"):
        raise Refused("A bearer is not sent over plain http.", hint="Use an https URL, or leave the bearer out.")


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _check_filters(command: c.CreateSubscription) -> None:
    if len(command.groups) + len(command.vms) > MOST_FILTERS:
        raise Refused("Too many groups and VMs are named.", hint=f"Name {MOST_FILTERS} at the most, or none for all.")


def _group(state: State, name: str) -> str:
    """The key of a group, which may be given by its name alone."""
    keys = [name, *(f"{kind.value}/{name}" for kind in GroupKind)]
    found = [key for key in keys if key in state.fleet.groups]
    if not found:
        raise NotFound(f"There is no group named {name[:70]!r}.", look_at=LookAt.GROUPS)
    if len(found) > 1:
        raise Conflict(f"Several groups are named {name!r}.", hint=f"Write {' or '.join(found)}.")
    return found[0]


def _vm(state: State, name: str) -> str:
    if name not in state.fleet.vms:
        raise NotFound(f"There is no VM named {name[:70]!r}.", look_at=LookAt.VMS)
    return name


def find(state: State, subscription_id: str) -> Subscription:
    """A subscription by its id."""
    found = state.subscriptions.get(subscription_id)
    if found is None:
        raise NotFound(f"There is no subscription {subscription_id}.", look_at=LookAt.SUBSCRIPTIONS)
    return found


def pause(state: State, command: c.PauseSubscription, now: Instant, policy: Policy) -> list[t.Transition]:
    """Deliver nothing until it is resumed."""
    found = find(state, command.subscription_id)
    return [] if found.status is _Status.PAUSED else [t.SubscriptionTurned(found.id, _Status.PAUSED)]


def resume(state: State, command: c.ResumeSubscription, now: Instant, policy: Policy) -> list[t.Transition]:
    """Ask the receiver again, then go on where it was."""
    found = find(state, command.subscription_id)
    goes_on = found.status in (_Status.ACTIVE, _Status.WAITING)
    return [] if goes_on else [t.SubscriptionTurned(found.id, _Status.WAITING)]


def delete(state: State, command: c.DeleteSubscription, now: Instant, policy: Policy) -> list[t.Transition]:
    """Forget a subscription."""
    return [t.SubscriptionDeleted(find(state, command.subscription_id).id)]


def replay(state: State, command: c.ReplaySubscription, now: Instant, policy: Policy) -> list[t.Transition]:
    """Deliver dead letters again: all of it, or what is about these events."""
    found = find(state, command.subscription_id)
    wanted = [each for each in found.dead_letters if not command.event_ids or each.event_id in command.event_ids]
    if not wanted:
        raise Conflict("None of that is a dead letter.", hint="Look at the subscription: it lists what is.")
    return [t.SubscriptionReplayed(found.id, tuple(each.position for each in wanted))]


def claim_pushes(state: State, command: c.ClaimPushes, now: Instant, policy: Policy) -> list[t.Transition]:
    """From now on this process delivers (N12)."""
    return [t.PushesClaimed(command.claim)]


def report_receiver(state: State, command: c.ReportReceiver, now: Instant, policy: Policy) -> list[t.Transition]:
    """What a receiver has answered to the question whether it wants messages, or that it is gone."""
    _refuse_another(state, command.claim)
    found = find(state, command.subscription_id)
    stands = found.status in (_Status.WAITING, _Status.ACTIVE)
    is_news = (found.status, found.reason) != (command.status, command.reason)
    return [t.SubscriptionTurned(found.id, command.status, command.reason)] if stands and is_news else []


def note_pushes(state: State, command: c.NotePushes, now: Instant, policy: Policy) -> list[t.Transition]:
    """How far deliveries are; a subscription that is deleted by now has nothing to note."""
    _refuse_another(state, command.claim)
    return [
        change
        for each in command.notes
        if (known := state.subscriptions.get(each.subscription_id)) is not None
        for change in _noted(known, each, now)
    ]


def _noted(known: Subscription, noted: c.PushNote, now: Instant) -> list[t.Transition]:
    aside = tuple(DeadLetter(given.position, given.event_id, now.at, given.reason) for given in noted.given_up)
    pending = tuple(sorted(set(known.pending).difference(noted.done).union(noted.pending)))
    progress = t.PushNoted(known.id, noted.position, pending, noted.trouble)
    return [progress, t.PushDeadLettered(known.id, aside)] if aside else [progress]


def _refuse_another(state: State, claim: str) -> None:
    if claim != state.push_claim:
        raise Conflict("Another process delivers by now.", hint="You need not do anything.")
