"""Who may approve an event, and cancelling one (C02-C05, S16, S17, S19)."""

from typing import NamedTuple

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.event import Consent, Event, Phase
from duenotice.domain.lifecycle import Act, move
from duenotice.domain.maintenance import Maintenance
from duenotice.domain.policy import Policy
from duenotice.domain.scope import group_of, scope_of
from duenotice.domain.starting import notice_is_over
from duenotice.domain.state import State
from duenotice.errors import Conflict, NotFound

OPERATOR = "operator"


class _Approver(NamedTuple):
    """Whose events somebody may approve: those of a scope, of a group, or all."""

    scope: str | None
    group: str | None = None

    def sees(self, scope: str) -> bool:
        """Whether an event of this scope is one of them."""
        if self.scope is not None:
            return scope == self.scope
        return self.group is None or group_of(scope) == self.group


_EVERYBODY = _Approver(None)
_NOWHERE = ""


def approve(state: State, command: c.ApproveEvents, now: Instant, policy: Policy) -> list[t.Transition]:
    """Approve all named events, or none if the caller may not approve one of them (C03).

    Approving again changes nothing (C02), nor does a VM that approves advice; an operator is told that it is none.
    """
    who = _Approver(None if command.vm is None else _scope_of(state, command.vm), command.group)
    by = OPERATOR if command.vm is None else f"vm/{command.vm}"
    late = policy.takes_gone_approvals
    named = [one for one in dict.fromkeys(command.event_ids) if not (late and _had(state, one, who, now))]
    events = [_visible(state, event_id, who) for event_id in named]
    advice = next((event for event in events if event.is_advice), None)
    if advice is not None and command.vm is None:
        raise Conflict(f"{advice.id} is advice: it never starts.", hint="Cancel it to withdraw it, or evict the VM.")
    return [
        t.EventApproved(event.id, event.scope, by)
        for event in events
        if event.phase is Phase.SCHEDULED and not event.approved_by and not event.is_advice
    ]


def cancel(state: State, command: c.CancelEvent, now: Instant, policy: Policy) -> list[t.Transition]:
    """Cancel a scheduled event; what has started runs to its end."""
    event = _visible(state, command.event_id, _EVERYBODY)
    move(event.phase, Act.CANCEL)
    return [t.EventCancelled(event.id, event.scope, command.reason)]


def awaited(state: State, event: Event, now: Instant) -> list[str]:
    """The scopes on its host whose approval an event still needs, its own too; in the order in which they were told."""
    key = event.shares if event.phase is Phase.SCHEDULED else None
    if key is None:
        return []
    waiting = (state.events[event_id] for event_id in state.consenting.of(key))
    return [each.scope for each in waiting if not each.approved_by and not notice_is_over(each, now)]


def awaited_by(state: State, plan: Maintenance, now: Instant) -> list[str]:
    """The scopes whose approval any event of a maintenance with the consent of hosts still needs."""
    if plan.consent is not Consent.HOST:
        return []
    begin = f"host/{plan.id}/"
    shared = (next(iter(state.consenting.of(key))) for key in state.holds if key.startswith(begin))
    return [scope for event_id in shared for scope in awaited(state, state.events[event_id], now)]


def _scope_of(state: State, name: str) -> str:
    """Where a VM may approve: nowhere, if it has left the fleet since it asked, and nothing tells it so (S16)."""
    vm = state.fleet.vms.get(name)
    return _NOWHERE if vm is None else scope_of(vm)


def _had(state: State, event_id: str, who: _Approver, now: Instant) -> bool:
    """Whether the caller had this event a short time ago. Who may approve all gets an error that it is gone."""
    gone = None if event_id in state.events else state.gone.get(event_id)
    return gone is not None and who != _EVERYBODY and who.sees(gone.scope) and not gone.is_over(now)


def _visible(state: State, event_id: str, who: _Approver) -> Event:
    """An event the caller may know of; unknown and foreign ids look alike (S16)."""
    event = state.events.get(event_id)
    if event is None or not who.sees(event.scope):
        raise NotFound(f"There is no event {event_id}.", hint="Take EventId from a document fetched just now.")
    return event
