"""Who may approve an event, cancelling one, and what people say of one that failed (C02-C05, S16, S17, S19)."""

from typing import NamedTuple

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.event import LONGEST_NOTE, Consent, Event, Phase
from duenotice.domain.failure import Failure
from duenotice.domain.lifecycle import Act, move
from duenotice.domain.maintenance import Maintenance
from duenotice.domain.policy import Policy
from duenotice.domain.scope import group_of, scope_of
from duenotice.domain.starting import notice_is_over
from duenotice.domain.state import State
from duenotice.errors import Conflict, NotFound, Refused

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

    With `each`, those that it may not approve are left out (M10). Approving again changes nothing (C02), nor does a VM
    that approves advice; an operator is told that it is none.
    """
    who, late = _approver(state, command), policy.takes_gone_approvals
    by = OPERATOR if command.vm is None else f"vm/{command.vm}"
    left_out = frozenset(unknown(state, command, now, policy)) if command.each else frozenset()
    named = [one for one in dict.fromkeys(command.event_ids) if not (late and _had(state, one, who, now))]
    events = [_visible(state, event_id, who) for event_id in named if event_id not in left_out]
    advice = next((event for event in events if event.is_advice), None)
    if advice is not None and command.vm is None and not command.each:
        raise Conflict(f"{advice.id} is advice: it never starts.", hint="Cancel it to withdraw it, or evict the VM.")
    return [
        t.EventApproved(event.id, event.scope, by)
        for event in events
        if event.phase is Phase.SCHEDULED and not event.approved_by and not event.is_advice
    ]


def unknown(state: State, command: c.ApproveEvents, now: Instant, policy: Policy) -> list[str]:
    """Those of the named events that the caller may not approve, because for it they are not there (S16)."""
    who, late = _approver(state, command), policy.takes_gone_approvals
    return [one for one in command.event_ids if not (_sees(state, one, who) or (late and _had(state, one, who, now)))]


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


def acknowledge(state: State, command: c.AcknowledgeFailures, now: Instant, policy: Policy) -> list[t.Transition]:
    """Failures that need nobody any more; what has happened stays in the journal."""
    if len(command.note) > LONGEST_NOTE:
        raise Refused(f"The note has {len(command.note)} characters.", hint=f"Use {LONGEST_NOTE} at the most.")
    of_plan = (each.id for each in state.failures if each.event.maintenance == command.maintenance_id)
    ids = tuple(dict.fromkeys(command.event_ids)) or tuple(of_plan)
    if not ids:
        raise Conflict("No failure of this maintenance is open.", hint="There is nothing to acknowledge.")
    found = [open_failure(state, event_id).event for event_id in ids]
    return [t.FailureAcknowledged(event.id, event.scope, command.note) for event in found]


def open_failure(state: State, event_id: str) -> Failure:
    """The failure of an event with which nobody has dealt."""
    if (failure := state.failures.get(event_id)) is not None:
        return failure
    what = f"No failure of an event {event_id} is open."
    raise Conflict(what, hint="Either it has not failed, or somebody has dealt with that.")


def _approver(state: State, command: c.ApproveEvents) -> _Approver:
    return _Approver(None if command.vm is None else _scope_of(state, command.vm), command.group)


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
    if not _sees(state, event_id, who):
        raise NotFound(f"There is no event {event_id}.", hint="Take EventId from a document fetched just now.")
    return state.events[event_id]


def _sees(state: State, event_id: str, who: _Approver) -> bool:
    event = state.events.get(event_id)
    return event is not None and who.sees(event.scope)
