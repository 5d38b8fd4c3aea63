"""What a driver may say of an impact: that it begins, is over, has failed, or that somebody has taken it on."""

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.ending import complete, fail
from duenotice.domain.event import Event
from duenotice.domain.lifecycle import Act, move
from duenotice.domain.policy import Policy
from duenotice.domain.state import State
from duenotice.errors import Conflict, NotFound, Refused

LONGEST_FAILURE = 4000
"""Characters of a reason: it is kept for ever, and in memory while the step of a maintenance shows it (S24)."""


def report(state: State, command: c.ReportImpact, now: Instant, policy: Policy) -> list[t.Transition]:
    """The impact is over, or its driver gave up."""
    event = _reported(state, command.event_id, Act.FAIL if command.failure else Act.COMPLETE, command.failure)
    if len(command.what) > LONGEST_FAILURE or (command.took is not None and command.took < 0):
        raise Refused("What has happened is not valid.", hint=f"Use {LONGEST_FAILURE} characters at the most.")
    if command.failure:
        return fail(event, command.failure, command.took)
    return complete(state, event, command.what, command.took)


def attempt_failed(state: State, command: c.ReportAttempt, now: Instant, policy: Policy) -> list[t.Transition]:
    """Try again, or give up after the last; a failure that is reported twice counts once."""
    event = _reported(state, command.event_id, Act.FAIL, command.failure)
    if command.attempt <= event.failed_attempts:
        return []
    if command.attempt < policy.impact_attempts:
        return [t.ImpactFailed(event.id, event.scope, command.attempt, command.failure)]
    return fail(event, f"Gave up after attempt {command.attempt}: {command.failure}")


def claim(state: State, command: c.ClaimImpact, now: Instant, policy: Policy) -> list[t.Transition]:
    """One node makes an attempt; another may do so only instead of one that is gone (N12)."""
    event = _reported(state, command.event_id, Act.COMPLETE)
    if event.accepted or command.attempt != event.failed_attempts + 1:
        raise Conflict(f"Attempt {command.attempt} is not the next one.", hint="It may be over.")
    if event.claimed_by not in ("", command.node, command.instead_of):
        raise Conflict(f"The node {event.claimed_by} makes this attempt.", hint="It reports how that ends.")
    if event.claimed_by == command.node:
        return []
    return [t.ImpactClaimed(event.id, event.scope, command.attempt, command.node)]


def accept(state: State, command: c.AcceptImpact, now: Instant, policy: Policy) -> list[t.Transition]:
    """From now on only a report is waited for."""
    event = _reported(state, command.event_id, Act.COMPLETE)
    return [] if event.accepted else [t.ImpactAccepted(event.id, event.scope)]


def _reported(state: State, event_id: str, act: Act, failure: str = "") -> Event:
    """An event of which such a thing can be said: one that has started."""
    event = state.events.get(event_id)
    if event is None:
        raise NotFound(f"There is no event {event_id}.", hint="It may have been reported already.")
    if len(failure) > LONGEST_FAILURE:
        raise Refused(f"The failure has {len(failure)} characters.", hint=f"Use {LONGEST_FAILURE} at the most.")
    move(event.phase, act)
    return event
