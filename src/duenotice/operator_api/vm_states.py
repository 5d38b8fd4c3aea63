"""The states of VMs: what has failed there, what their events and hosts say of them, and whether they would be told.

By advice nothing happens to a VM, so it is in no other state because of that.
"""

from collections.abc import Container

from duenotice.domain.event import Event, Phase
from duenotice.domain.fleet import Condition, Vm, scope_of
from duenotice.domain.state import State
from duenotice.wire.operator import STATES

_RANK = {state: rank for rank, state in enumerate(STATES)}


class VmStates:
    """The states of all VMs, from one look at all failures, events and hosts; a VM that is not found there is fine."""

    def __init__(self, state: State) -> None:
        self._hit = {name: "failed" for failure in state.failures for name in failure.event.resources}
        for event in (event for event in state.events.values() if not event.is_advice):
            found = state_of(event)
            for name in event.resources:
                if _RANK[found] < _RANK[self._hit.get(name, "fine")]:
                    self._hit[name] = found
        self._ill = _ill(state)
        self._scopes = state.scopes

    def listens(self, vm: Vm) -> bool:
        """Whether anybody of its scope asks for events, so that it gets its notice (F03)."""
        known = self._scopes.get(scope_of(vm))
        return known is not None and known.enabled

    def candidates(self, states: Container[str]) -> set[str] | None:
        """The names of which VMs in one of these states may be; None when it can be any."""
        return None if "fine" in states or (self._ill and "degraded" in states) else set(self._hit)

    def of(self, vm: Vm) -> str:
        """The state of one VM."""
        return self._hit.get(vm.name) or ("degraded" if vm.host in self._ill else "fine")


def state_of_vm(state: State, vm: Vm) -> str:
    """The state of one VM, without a look at all the others."""
    return _worst(state, vm, state.events_of(vm))


def listed_state_of(state: State, vm: Vm) -> str:
    """The same as `VmStates` says: events of a scope that the VM has left count too."""
    return _worst(state, vm, state.events_on(vm.name))


def _worst(state: State, vm: Vm, events: list[Event]) -> str:
    if state.failures.of(vm.name) is not None:
        return "failed"
    if hits := [event for event in events if not event.is_advice]:
        return min(map(state_of, hits), key=_RANK.__getitem__)
    host = None if vm.host is None else state.fleet.hosts.get(vm.host)
    return "fine" if host is None or host.condition is Condition.HEALTHY else "degraded"


def _ill(state: State) -> set[str]:
    return {host.name for host in state.fleet.hosts.values() if host.condition is not Condition.HEALTHY}


def state_of(event: Event) -> str:
    """The state that an event gives its VMs."""
    if event.phase is Phase.STARTED:
        return "started"
    return "approved" if event.approved_by else "scheduled"
