"""What an event leaves behind when its impact is over: VMs moved, VMs gone, predictions without object."""

from duenotice.domain import transitions as t
from duenotice.domain.event import Cause, Event, EventType, Phase
from duenotice.domain.fleet import Vm, chunks
from duenotice.domain.lifecycle import Act, move
from duenotice.domain.state import State

_REMOVING = frozenset({EventType.PREEMPT, EventType.TERMINATE})
_MOVING = frozenset({Cause.LIVE_MIGRATION, Cause.DEGRADED_HOST, Cause.HOST_FAILURE})


def complete(state: State, event: Event) -> list[t.Transition]:
    """End a started event and do to the fleet what it did to the VMs."""
    move(event.phase, Act.COMPLETE)
    vms = [state.fleet.vms[name] for name in event.resources if name in state.fleet.vms]
    changes: list[t.Transition] = [t.EventCompleted(event.id, event.scope)]
    if event.type in _REMOVING:
        changes += removed(state, vms)
    elif event.type is EventType.REDEPLOY or event.cause in _MOVING:
        # Whoever has left the host that the event is about has no reason to move once more.
        changes += moved_away(state, [vm for vm in vms if event.host in (None, vm.host)])
    return changes


def fail(state: State, event: Event, reason: str) -> list[t.Transition]:
    """The driver gave up: the event is gone, and the fleet stays as it was."""
    move(event.phase, Act.COMPLETE)
    return [t.EventFailed(event.id, event.scope, reason)]


def removed(state: State, vms: list[Vm]) -> list[t.Transition]:
    """The VMs are gone, and with them what was only waiting for them (G04, G05)."""
    if not vms:
        return []
    gone = {vm.name: None for vm in vms}
    waiting = {event.id: event for vm in vms for event in state.events_of(vm) if event.phase is Phase.SCHEDULED}
    changes: list[t.Transition] = [
        t.EventCancelled(event.id, event.scope, f"Gone: {', '.join(event.resources)}.")
        for event in waiting.values()
        if not any(name in state.fleet.vms and name not in gone for name in event.resources)
    ]
    return [*changes, *map(t.VmsRemoved, chunks(gone))]


def moved_away(state: State, vms: list[Vm]) -> list[t.Transition]:
    """The VMs run on another host now, so a failure predicted for the old one hits them no more (D03)."""
    changes: list[t.Transition] = []
    moved = [vm.on(state.fleet.other_host(avoid=vm.host)) for vm in vms if vm.host is not None]
    if moved:
        changes.append(t.VmsPut(tuple(moved)))
    for vm in vms:
        changes += cancel_predictions(state, vm, f"{vm.name} has moved to another host.")
    return changes


def cancel_predictions(state: State, vm: Vm, reason: str) -> list[t.Transition]:
    """Take back what a degraded host had scheduled for a VM."""
    return [
        t.EventCancelled(event.id, event.scope, reason)
        for event in state.events_of(vm)
        if event.cause is Cause.DEGRADED_HOST and event.phase is Phase.SCHEDULED
    ]
