"""The call of the table of VMs: filtered and sorted as a whole, with when each last asked and what comes next."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from heapq import nlargest, nsmallest
from socket import AF_INET, AF_INET6, inet_pton
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from duenotice.clock import Instant
from duenotice.domain.bulk import by_key
from duenotice.domain.event import Event, Phase
from duenotice.domain.fleet import Vm
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.errors import Malformed
from duenotice.escape import natural
from duenotice.operator_api.answers import Resource
from duenotice.operator_api.calls import LAST, Call, Parameter, Room, limit_of, number
from duenotice.operator_api.fleet import WANTED, Wanted
from duenotice.operator_api.vm_states import VmStates
from duenotice.operator_api.vms import SilentFor
from duenotice.wire import operator as o
from duenotice.wire.operator import from_domain

_SORTS = [f"{turned}{name}" for name in o.VM_SORTS for turned in ("", "-")]
_QUERY: tuple[str | Parameter, ...] = (
    *WANTED,
    Parameter("sort", {"type": "string", "enum": ["", *_SORTS]}),
    Parameter("offset", {"type": "integer", "minimum": 0, "maximum": LAST, "default": 0}),
    "limit",
)
_RANK = {state: rank for rank, state in enumerate(o.STATES)}
FEW = 10
"""When at most one of this many is needed, the others are not sorted."""
NEVER = float("inf")
NO_EVENT = (True, NEVER)


class SeenFleet:
    """A look at the fleet, with what sorting needs."""

    def __init__(self, state: State, silent_for: SilentFor) -> None:
        self.state, self.states, self._silent_for = state, VmStates(state), silent_for
        self.host_order = {name: natural(name) for name in state.fleet.hosts}

    def silence(self, vm: Vm) -> float:
        """How many seconds ago it last asked."""
        silent = self._silent_for(vm.address)
        return NEVER if silent is None else silent

    def first(self, vms: Sequence[Vm], sort: str, most: int) -> Sequence[Vm]:
        """The first VMs by a column; what is alike stays in the order it had. Without one, what has failed is first."""
        if not sort and len(self.state.failures):
            return by_key(vms, lambda vm: self.state.failures.of(vm.name) is None)
        column, turned = SORT_KEYS.get(sort.removeprefix("-")), sort.startswith("-")
        if column is None:
            return vms[::-1] if turned else vms

        def key(vm: Vm) -> Any:
            return column(self, vm)

        if most * FEW < len(vms):  # most pages that people look at are the first ones
            return nlargest(most, vms, key=key) if turned else nsmallest(most, vms, key=key)
        return by_key(vms[::-1], key)[::-1] if turned else by_key(vms, key)


class VmTables(Resource):
    """VMs for people who compare them."""

    def __init__(self, engine: Engine, silent_for: SilentFor) -> None:
        super().__init__(engine)
        self._silent_for = silent_for

    def calls(self) -> list[Call]:
        """The rows of the table of calls."""
        about, table = "VMs as a table: filtered, sorted as a whole, counted", {200: o.VmTable}
        return [Call("GET", "/v1/vm-table", Role.VIEWER, self.index, about, table, None, _QUERY, (404,))]

    async def index(self, request: Request) -> Response:
        """Some rows of all VMs that match."""
        wanted, sort = Wanted(request), request.query_params.get("sort", "")
        if sort and sort not in _SORTS:
            raise Malformed(f"sort={sort[:40]} is not valid.", hint=f"Use one of {', '.join(o.VM_SORTS)}.")
        limit, offset = limit_of(request), number(request, "offset", 0, 0, LAST)
        names, now = await self._engine.publisher.natural_names.put_in_order(), self._engine.clock.now()

        def look(state: State) -> o.VmTable:
            wanted.check(state.fleet)
            seen, known = SeenFleet(state, self._silent_for), state.fleet.vms
            there = (vm for name in names if (vm := known.get(name)) is not None)
            found = list(wanted.among(there, seen.states))
            shown = seen.first(found, sort, offset + limit)[offset : offset + limit]
            return o.VmTable(len(found), Room().filled(self._row(seen, vm, now) for vm in shown))

        return await self._looked(look)

    def _row(self, seen: SeenFleet, vm: Vm, now: Instant) -> o.VmRow:
        event = next_event(seen.state, vm)
        told = from_domain.vm(vm, seen.states.listens(vm), seen.states.of(vm), seen.state.failures.of(vm.name))
        return from_domain.vm_row(
            told, self._last_seen(seen, vm, now), None if event is None else from_domain.event(event, now)
        )

    def _last_seen(self, seen: SeenFleet, vm: Vm, now: Instant) -> datetime | None:
        silence = seen.silence(vm)
        return None if silence == NEVER else now.at - timedelta(seconds=silence * self._engine.clock.speed)


def packed(address: str) -> tuple[bool, bytes]:
    """An address as its bytes, so that 10.0.0.9 comes before 10.0.0.10; those of IPv6 come last."""
    is_six = ":" in address
    return is_six, inet_pton(AF_INET6 if is_six else AF_INET, address)


def next_event(state: State, vm: Vm) -> Event | None:
    """The event that hits it now or soonest; of most VMs there is none."""
    if vm.name not in state.events_by_vm:
        return None
    return min(state.events_of(vm), key=urgency, default=None)


def urgency(event: Event) -> tuple[bool, float]:
    """What hits now comes first, then the soonest."""
    return event.phase is not Phase.STARTED, event.not_before.timestamp()


SORT_KEYS: dict[str, Callable[[SeenFleet, Vm], Any]] = {
    "state": lambda seen, vm: _RANK[seen.states.of(vm)],
    "update_domain": lambda _, vm: NEVER if vm.update_domain is None else vm.update_domain,
    "host": lambda seen, vm: (vm.host is None, seen.host_order.get(vm.host or "", "")),
    "address": lambda _, vm: packed(vm.address),
    "last_seen": lambda seen, vm: seen.silence(vm),
    "listens": lambda seen, vm: not seen.states.listens(vm),
    "next_event": lambda seen, vm: NO_EVENT if (event := next_event(seen.state, vm)) is None else urgency(event),
}
"""What to sort by, the most urgent or smallest first; names are in order already."""
