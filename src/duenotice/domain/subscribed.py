"""The fold of what happens to tokens, sessions and subscriptions: their part of `apply`."""

from collections.abc import Callable
from typing import Any

from duenotice.domain import transitions as t
from duenotice.domain.state import State
from duenotice.domain.subscription import MOST_SET_ASIDE, Subscription, SubscriptionStatus
from duenotice.domain.token import Role


def _token_created(state: State, change: t.TokenCreated) -> None:
    state.tokens[change.token.id] = change.token
    state.followed = state.followed or change.token.role is Role.FOLLOWER


def _token_revoked(state: State, change: t.TokenRevoked) -> None:
    state.tokens.pop(change.token_id, None)
    for session in [each for each in state.sessions.values() if each.token_id == change.token_id]:
        del state.sessions[session.digest]  # a session has no right of its own (S35)


def _session_begun(state: State, change: t.SessionBegun) -> None:
    state.sessions[change.session.digest] = change.session


def _session_ended(state: State, change: t.SessionEnded) -> None:
    state.sessions.pop(change.digest, None)


def _created(state: State, change: t.SubscriptionCreated) -> None:
    state.subscriptions[change.subscription.id] = change.subscription


def _turned(state: State, change: t.SubscriptionTurned) -> None:
    known = state.subscriptions[change.subscription_id]
    begins = change.status is SubscriptionStatus.WAITING and known.status is not SubscriptionStatus.WAITING
    turned = known.with_(status=change.status, reason=change.reason)
    state.subscriptions[known.id] = _from_now_on(state, turned) if begins else turned


def _from_now_on(state: State, known: Subscription) -> Subscription:
    """A day begins again."""
    return known.with_(since=state.at, since_steady=state.steady)


def _deleted(state: State, change: t.SubscriptionDeleted) -> None:
    del state.subscriptions[change.subscription_id]


def _replayed(state: State, change: t.SubscriptionReplayed) -> None:
    known, again = state.subscriptions[change.subscription_id], set(change.positions)
    left = tuple(each for each in known.set_aside if each.position not in again)
    pending = tuple(sorted(again.union(known.pending)))
    state.subscriptions[known.id] = _from_now_on(state, known.with_(set_aside=left, pending=pending))


def _claimed(state: State, change: t.PushesClaimed) -> None:
    state.push_claim = change.claim


def _noted(state: State, change: t.PushNoted) -> None:
    known = state.subscriptions[change.subscription_id]
    progress = known.with_(position=change.position, pending=change.pending, trouble=change.trouble)
    state.subscriptions[known.id] = progress


def _set_aside(state: State, change: t.PushSetAside) -> None:
    known = state.subscriptions[change.subscription_id]
    every = known.set_aside + change.set_aside
    forgotten = known.forgotten + max(0, len(every) - MOST_SET_ASIDE)
    state.subscriptions[known.id] = known.with_(set_aside=every[-MOST_SET_ASIDE:], forgotten=forgotten)


APPLIERS: dict[type, Callable[[State, Any], None]] = {
    t.TokenCreated: _token_created,
    t.TokenRevoked: _token_revoked,
    t.SessionBegun: _session_begun,
    t.SessionEnded: _session_ended,
    t.SubscriptionCreated: _created,
    t.SubscriptionTurned: _turned,
    t.SubscriptionDeleted: _deleted,
    t.SubscriptionReplayed: _replayed,
    t.PushesClaimed: _claimed,
    t.PushNoted: _noted,
    t.PushSetAside: _set_aside,
}
