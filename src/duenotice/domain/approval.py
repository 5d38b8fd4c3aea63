"""Who may approve an event, and cancelling one (C02-C05, S16, S17, S19)."""

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.event import Event, Phase
from duenotice.domain.lifecycle import Act, move
from duenotice.domain.lookup import find_vm
from duenotice.domain.policy import Policy
from duenotice.domain.scope import scope_of
from duenotice.domain.state import State
from duenotice.errors import NotFound

OPERATOR = "operator"


def approve(state: State, command: c.ApproveEvents, now: Instant, policy: Policy) -> list[t.Transition]:
    """Approve all named events, or none if the caller may not approve one of them (C03).

    Approving again changes nothing (C02).
    """
    scope = None if command.vm is None else scope_of(find_vm(state, command.vm))
    by = OPERATOR if command.vm is None else f"vm/{command.vm}"
    late = policy.takes_gone_approvals
    named = [one for one in dict.fromkeys(command.event_ids) if not (late and _had(state, one, scope, now))]
    events = [_visible(state, event_id, scope) for event_id in named]
    return [
        t.EventApproved(event.id, event.scope, by)
        for event in events
        if event.phase is Phase.SCHEDULED and not event.approved_by
    ]


def cancel(state: State, command: c.CancelEvent, now: Instant, policy: Policy) -> list[t.Transition]:
    """Cancel a scheduled event; what has started runs to its end."""
    event = _visible(state, command.event_id, None)
    move(event.phase, Act.CANCEL)
    return [t.EventCancelled(event.id, event.scope, command.reason)]


def _had(state: State, event_id: str, scope: str | None, now: Instant) -> bool:
    """Whether the caller's scope had this event a short time ago. The operator gets an error that it is gone."""
    gone = None if event_id in state.events else state.gone.get(event_id)
    return gone is not None and gone.scope == scope and now.at < gone.until


def _visible(state: State, event_id: str, scope: str | None) -> Event:
    """An event the caller may know of; unknown and foreign ids look alike (S16)."""
    event = state.events.get(event_id)
    if event is None or scope not in (None, event.scope):
        raise NotFound(f"There is no event {event_id}.", hint="Take EventId from a document fetched just now.")
    return event
