"""What an event leaves behind when its impact is over: VMs moved, VMs removed, predictions that no longer apply."""

from collections.abc import Mapping

from duenotice.domain import transitions as t
from duenotice.domain.event import Cause, Consent, Event, EventType, Phase
from duenotice.domain.fleet import Vm
from duenotice.domain.lifecycle import Act, move
from duenotice.domain.pieces import chunks
from duenotice.domain.state import State

_REMOVING = frozenset({EventType.PREEMPT, EventType.TERMINATE})
_MOVING = frozenset({Cause.LIVE_MIGRATION, Cause.DEGRADED_HOST, Cause.HOST_FAILURE})


def complete(state: State, event: Event, what: str = "", took: int | None = None) -> list[t.Transition]:
    """End a started event and do to the fleet what it did to the VMs."""
    move(event.phase, Act.COMPLETE)
    vms = [state.fleet.vms[name] for name in event.resources if name in state.fleet.vms]
    changes: list[t.Transition] = [t.EventCompleted(event.id, event.scope, what, took)]
    if event.type in _REMOVING:
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
    if event.phase is Phase.SCHEDULED and event.id in state.under_way:
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
        return vm.on(to)
    first = vm.away_from
    return vm.on(to, first if first is not None and fleet.is_drained(first) else host)


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
