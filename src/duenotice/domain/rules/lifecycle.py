"""What is done with an event: it is approved, cancelled, reported on; and what its impact leaves behind.

VMs moved, VMs removed, predictions that no longer apply.
"""

from collections.abc import Mapping
from typing import NamedTuple

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.bulk import chunks
from duenotice.domain.event import LONGEST_NOTE, REMOVALS, Act, Cause, Consent, Event, EventType, Phase, move
from duenotice.domain.failure import Failure
from duenotice.domain.fleet import Vm, group_of, scope_of
from duenotice.domain.plan import Maintenance
from duenotice.domain.policy import Policy
from duenotice.domain.rules.timing import notice_is_over
from duenotice.domain.state import State
from duenotice.errors import Conflict, NotFound, Refused

_MOVING = frozenset({Cause.LIVE_MIGRATION, Cause.DEGRADED_HOST, Cause.HOST_FAILURE})


def complete(state: State, event: Event, what: str = "", took: int | None = None) -> list[t.Transition]:
    """End a started event and do to the fleet what it did to the VMs."""
    move(event.phase, Act.COMPLETE)
    vms = [state.fleet.vms[name] for name in event.resources if name in state.fleet.vms]
    changes: list[t.Transition] = [t.EventCompleted(event.id, event.scope, what, took)]
    if event.type in REMOVALS:
        changes += removed(state, vms, but=event.id)
    elif event.type is EventType.REDEPLOY or event.cause in _MOVING:
        # VMs that have already left the host of the event do not move again.
        changes += moved_away(state, [vm for vm in vms if event.host in (None, vm.host)], event)
    return changes


def fail(event: Event, reason: str, took: int | None = None) -> list[t.Transition]:
    """The driver gave up: the event is gone, and the fleet stays as it was."""
    move(event.phase, Act.FAIL)
    return [t.EventFailed(event.id, event.scope, reason, took)]


def removed(state: State, vms: list[Vm], but: str = "") -> list[t.Transition]:
    """The VMs are gone, and with them what was only waiting for them (G04, G05); `but` is an event that has ended."""
    gone = {vm.name: None for vm in vms}
    alone = [
        event
        for event in state.events_on(*gone)
        if event.id != but and not any(name in state.fleet.vms and name not in gone for name in event.resources)
    ]
    waiting = [
        t.EventCancelled(event.id, event.scope, f"Gone: {', '.join(event.resources)}.")
        for event in alone
        if event.phase is Phase.SCHEDULED
    ]
    running = [change for event in alone if event.phase is Phase.STARTED for change in deserted(state, event)]
    return [*waiting, *map(t.VmsRemoved, chunks(gone)), *running]


def deserted(state: State, event: Event) -> list[t.Transition]:
    """What happens to an event when none of its VMs is left: an event that nobody would end must not hold up others.

    A driver has nothing to report, and a plan would wait for its step; other events wait for their VMs to come back.
    """
    if event.phase is Phase.STARTED and event.impact_ends is None:
        return [t.EventCompleted(event.id, event.scope)]
    if event.phase is Phase.SCHEDULED and event.id in state.step_of_event:
        return [t.EventCancelled(event.id, event.scope, "Its VMs are gone.")]
    return []


def moved_away(state: State, vms: list[Vm], event: Event | None = None) -> list[t.Transition]:
    """The VMs run on another host now, so a failure predicted for the old one does not hit them (D03)."""
    to, plan = (None, None) if event is None else (event.to, state.plans.get(event.maintenance or ""))
    drains = None if plan is None else plan.plan.drains
    moved = tuple(_moved(state, vm, vm.host, to, drains) for vm in vms if vm.host is not None)
    put = [t.VmsPut(moved)] if moved else []
    return [*put, *cancel_predictions(state, vms, "{} has moved to another host."), *_needless_migrations(state, moved)]


def _moved(state: State, vm: Vm, host: str, to: str | None, drains: str | None) -> Vm:
    """The VM where it is now. From a host that is drained it goes back one day: to the first, if there were several.

    It counts also when the host has returned while the VM was on its way.
    """
    fleet = state.fleet
    to = to if to in fleet.hosts else fleet.other_host(avoid=host)
    if to == vm.away_from or not (fleet.is_drained(host) or drains == host):
        return vm.moved_to(to)
    first = vm.away_from
    return vm.moved_to(to, first if first is not None and fleet.is_drained(first) else host)


def _needless_migrations(state: State, moved: tuple[Vm, ...]) -> list[t.Transition]:
    """Cancel events that were to move VMs off a host which all of them have already left."""
    now = {vm.name: vm for vm in moved}
    waiting = {event.id: event for vm in moved for event in state.events_of(vm)}
    return [change for event in waiting.values() for change in needless(state, event, now)]


def needless(state: State, event: Event, moved: Mapping[str, Vm]) -> list[t.Transition]:
    """Cancel an event of a host which all its VMs have left; `moved` are those that have just moved.

    It was to move them off that host, or needed the consent of those who are there (C07).
    """
    is_of_host = event.to is not None or event.cause is Cause.LIVE_MIGRATION or event.consent is Consent.HOST
    if event.phase is not Phase.SCHEDULED or event.host is None or not is_of_host:
        return []
    vms = (moved.get(name) or state.fleet.vms.get(name) for name in event.resources)
    if any(vm is not None and vm.host == event.host for vm in vms):
        return []
    return [t.EventCancelled(event.id, event.scope, f"Its VMs have left {event.host}.")]


def cancel_predictions(state: State, vms: list[Vm], reason: str) -> list[t.Transition]:
    """Cancel what a degraded host had scheduled for VMs; `{}` in the reason is the name of the VM."""
    predicted = {event.id: (event, vm) for vm in vms for event in state.events_of(vm) if _is_predicted(event)}
    return [t.EventCancelled(event.id, event.scope, reason.format(vm.name)) for event, vm in predicted.values()]


def _is_predicted(event: Event) -> bool:
    return event.cause is Cause.DEGRADED_HOST and event.phase is Phase.SCHEDULED


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
    shared = (next(iter(state.consenting.of(key))) for key in state.blockers if key.startswith(begin))
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
    gone = None if event_id in state.events else state.ended.get(event_id)
    return gone is not None and who != _EVERYBODY and who.sees(gone.scope) and not gone.is_over(now)


def _visible(state: State, event_id: str, who: _Approver) -> Event:
    """An event the caller may know of; unknown and foreign ids look alike (S16)."""
    if not _sees(state, event_id, who):
        raise NotFound(f"There is no event {event_id}.", hint="Take EventId from a document fetched just now.")
    return state.events[event_id]


def _sees(state: State, event_id: str, who: _Approver) -> bool:
    event = state.events.get(event_id)
    return event is not None and who.sees(event.scope)


LONGEST_FAILURE = 4000
"""Characters of a reason: it is kept for ever, and in memory while the step of a maintenance shows it (S24)."""


def report_impact(state: State, command: c.ReportImpact, now: Instant, policy: Policy) -> list[t.Transition]:
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


def claim_impact(state: State, command: c.ClaimImpact, now: Instant, policy: Policy) -> list[t.Transition]:
    """One node makes an attempt; another may do so only instead of one that is gone (N12).

    Two processes may have the name of one node, if one of them stood still; they never have the same directory.
    """
    event = _reported(state, command.event_id, Act.COMPLETE)
    if event.accepted or command.attempt != event.failed_attempts + 1:
        raise Conflict(f"Attempt {command.attempt} is not the next one.", hint="It may be over.")
    if (event.claimed_by, event.claimed_in) == (command.node, command.directory):
        return []
    if event.claimed_by not in ("", command.instead_of):
        raise Conflict(f"The node {event.claimed_by} makes this attempt.", hint="It reports how that ends.")
    return [t.ImpactClaimed(event.id, event.scope, command.attempt, command.node, command.directory)]


def accept_impact(state: State, command: c.AcceptImpact, now: Instant, policy: Policy) -> list[t.Transition]:
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
