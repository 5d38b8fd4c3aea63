"""The calls of VMs: look at them, poll for them, operate on them, and give them wrong answers to test their clients."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Raw, Struct
from starlette.requests import Request
from starlette.responses import Response

from duenotice.clock import micros, seconds_since_2020
from duenotice.domain import commands as c
from duenotice.domain.event import EventType
from duenotice.domain.fleet import ALONE, Vm, scope_of
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine, Records
from duenotice.errors import Malformed, Refused
from duenotice.operator_api.answers import RAISED, Reply, Resource, encode, shown
from duenotice.operator_api.calls import Call, Handler, Paging, Room, decoded, new_id, vm_named
from duenotice.operator_api.fleet import WANTED, Wanted
from duenotice.operator_api.vm_states import VmStates, listed_state_of, state_of_vm
from duenotice.wire import operator as o
from duenotice.wire.api_versions import API_VERSIONS, SPOT_REBALANCE, versions_of
from duenotice.wire.documents import encode_document
from duenotice.wire.operator import from_domain, to_domain
from duenotice.wire.spans import parse_duration

SilentFor = Callable[[str], float | None]
"""How many seconds ago the VM with this address last asked for its document, if it did."""

_ONE = "/v1/vms/{name}"
_PAGING = ("limit", "cursor")
_OPERATIONS = {
    "restart": (EventType.REBOOT, "Restart a VM"),
    "redeploy": (EventType.REDEPLOY, "Redeploy a VM"),
    "delete": (EventType.TERMINATE, "Delete a VM"),
}


AT_ONCE = 50
"""VMs of a page that are looked at in one turn of the loop: some hundred microseconds."""
MOST_PAGES = 4
"""Pages that are made at the same time: each takes its share of a turn, and a poll waits for all of them (S26)."""


class _WrittenPage(Struct, frozen=True):
    """A page whose items are already JSON."""

    items: Raw
    next: str | None


class Vms(Resource):
    """The VMs of the fleet."""

    def __init__(self, engine: Engine, silent_for: SilentFor) -> None:
        super().__init__(engine)
        self._silent_for = silent_for
        self._publisher = engine.publisher
        self._turns = asyncio.Semaphore(MOST_PAGES)

    def calls(self) -> list[Call]:
        """The rows of the table."""
        viewer, operator, page, read = Role.VIEWER, Role.OPERATOR, {200: o.Page[o.Vm]}, {200: o.Document}
        listen, query, version = "Poll for the first time on behalf of a VM", (*WANTED, *_PAGING), ("api-version",)
        policy = "Say which events of a VM are approved beforehand"
        return [
            Call("GET", "/v1/vms", viewer, self.index, "List VMs", page, None, query, (404,)),
            Call("GET", _ONE, viewer, self.show, "Show a VM", {200: o.VmWithEvents}),
            Call(
                "GET",
                f"{_ONE}/document",
                viewer,
                self.document,
                "The document of a VM",
                read,
                query=version,
                refusals=(422,),
            ),
            Call("POST", f"{_ONE}/listen", operator, self.listen, listen, {200: o.Vm}),
            *(
                Call("POST", f"{_ONE}/{name}", operator, self._operation(event_type), summary, RAISED)
                for name, (event_type, summary) in _OPERATIONS.items()
            ),
            Call(
                "PUT",
                f"{_ONE}/policy",
                operator,
                self.put_policy,
                policy,
                {200: o.Vm},
                o.PolicyRequest,
                refusals=(422,),
            ),
            Call("POST", f"{_ONE}/evict", operator, self.evict, "Evict a spot VM", {201: o.Raised}),
        ]

    async def index(self, request: Request) -> Response:
        """A page of VMs by name."""
        wanted, paging, names = Wanted(request), Paging.of(request), await self._publisher.names.put_in_order()
        if wanted.is_everything:
            async with self._turns:
                return await self._page(paging, names)

        def look(state: State) -> o.Page[o.Vm]:
            wanted.check(state.fleet)
            states = VmStates(state)

            def told(name: str) -> o.Vm | None:
                vm = state.fleet.vms.get(name)
                return _told(state, vm, states.of(vm)) if vm is not None and wanted(vm, states) else None

            return paging.page_of_names(wanted.names(names, states), told)

        return await self._looked(look)

    async def _page(self, paging: Paging, names: Sequence[str]) -> Response:
        """A page of all VMs, as small pages behind each other; nothing here grows with the fleet (S26).

        Polls get their turn between them. Not in a thread: with it the loop would have to share each millisecond.
        """
        written, cursor, left, room = list[bytes](), paging.cursor, paging.limit, Room()
        while True:
            asked = min(left, AT_ONCE)
            page = Paging(asked, cursor).page_of_names(names, self._listed, room)
            written += [encode(page.items)[1:-1]] if page.items else []
            left -= len(page.items)
            if page.next is None or not left or len(page.items) < asked:
                break
            cursor = page.next
            await asyncio.sleep(0)
        return shown(_WrittenPage(Raw(b"[" + b",".join(written) + b"]"), page.next))

    def _listed(self, name: str) -> o.Vm | None:
        """A VM as it is at this moment; None when it has left."""
        state = self._engine.state
        vm = state.fleet.vms.get(name)
        return None if vm is None else _told(state, vm, listed_state_of(state, vm))

    async def show(self, request: Request) -> Response:
        """One VM with the events that hit it."""
        name, now = self._find(request).name, self._engine.clock.now()

        def look(state: State) -> o.VmWithEvents:
            vm = vm_named(state, name)
            events = tuple(from_domain.event(event, now) for event in state.events_of(vm))
            told = _told(state, vm, state_of_vm(state, vm))
            return from_domain.vm_with_events(told, self._last_seen(vm), events)

        return await self._looked(look)

    async def document(self, request: Request) -> Response:
        """The document as the VM sees it, byte for byte.

        This is not a poll: its scope does not listen because of it (F01).
        """
        vm = self._find(request)
        name = request.query_params.get("api-version", API_VERSIONS[-1].name)
        known = {version.name: version for version in versions_of(self._engine.policy.spot_rebalance)}
        if name == SPOT_REBALANCE.name and name not in known:
            raise Refused(f"This service does not have {name}.", hint="Start it with --spot-rebalance.")
        if name not in known:
            raise Malformed(f"{name[:40]!r} is not an api-version.", hint=f"Use one of {', '.join(known)}.")
        body = await self._engine.look(lambda state: encode_document(state.document(scope_of(vm)), known[name]))
        return Response(body, media_type="application/json; charset=utf-8")

    async def listen(self, request: Request) -> Response:
        """Counts as a poll of the VM: its scope listens from now on, for at least 24 hours (F01, F02)."""
        vm, state = self._find(request), self._engine.state
        reply = Reply(from_domain.vm(vm, True, state_of_vm(state, vm), state.failures.of(vm.name)))
        response = await self._done(request, c.EnableScope(vm.name), lambda *_: reply)
        self._publisher.open_page_of(vm).last_poll = self._engine.clock.now().steady
        return response

    async def evict(self, request: Request) -> Response:
        """The platform takes a spot VM back."""
        return await self._raised(request, c.EvictVm(new_id(), request.path_params["name"]))

    async def put_policy(self, request: Request) -> Response:
        """This policy takes the place of what the VM has said before (M09)."""
        name, asked = request.path_params["name"], await decoded(request, o.PolicyRequest)

        def build(state: State, _: Records) -> Reply:
            vm = vm_named(state, name)
            return Reply(_told(state, vm, state_of_vm(state, vm)))

        return await self._done(request, c.SetEventsPolicy(ALONE + name, to_domain.events_policy(asked)), build)

    def _operation(self, event_type: EventType) -> Handler:
        async def operate(request: Request) -> Response:
            command = c.OperateVm(new_id(), request.path_params["name"], event_type)
            return await self._raised(request, command)

        return operate

    def _last_seen(self, vm: Vm) -> datetime | None:
        """When it last asked, on the service's clock; it is not stored (decision 0007)."""
        silent, clock = self._silent_for(vm.address), self._engine.clock
        return None if silent is None else clock.now().at - timedelta(seconds=silent * clock.speed)

    def _find(self, request: Request) -> Vm:
        return vm_named(self._engine.state, request.path_params["name"])


def _told(state: State, vm: Vm, condition: str) -> o.Vm:
    return from_domain.vm(vm, state.enabled(scope_of(vm)), condition, state.failures.of(vm.name))


class FaultPort(Protocol):
    """The part that answers VMs."""

    def put(self, vm: str, answer: str, seconds: float) -> None:
        """Give all requests of a VM this answer, for this long."""

    def lift(self, vm: str) -> None:
        """Answer it correctly again."""


class VmFaults(Resource):
    """Wrong answers on purpose, for a while; without a port this service allows none."""

    def __init__(self, engine: Engine, port: FaultPort | None) -> None:
        super().__init__(engine)
        self._port = port

    def calls(self) -> list[Call]:
        """The rows of the table."""
        one, admin, put = f"{_ONE}/fault", Role.ADMIN, "Give a VM wrong answers for a while"
        lift, jump, jumped = "Answer a VM correctly again", "Let incarnations jump ahead", {200: o.Jumped}
        return [
            Call("PUT", one, admin, self.put, put, {200: o.Fault}, o.FaultRequest, refusals=(422,)),
            Call("DELETE", one, admin, self.lift, lift, {204: None}, refusals=(422,)),
            Call("POST", f"{_ONE}/jump", admin, self.jump, jump, jumped, refusals=(422,)),
        ]

    async def put(self, request: Request) -> Response:
        """Until then all metadata requests of the VM get this answer. It is kept in memory only."""
        port, vm = self._allowed(), vm_named(self._engine.state, request.path_params["name"])
        asked = await decoded(request, o.FaultRequest)
        seconds = parse_duration(asked.lasts)
        port.put(vm.name, asked.answer, seconds)
        until = self._engine.clock.now().after(micros(seconds)).at
        return shown(o.Fault(vm.name, asked.answer, from_domain.whole_second(until)))

    async def lift(self, request: Request) -> Response:
        """Does no harm when there is none."""
        self._allowed().lift(vm_named(self._engine.state, request.path_params["name"]).name)
        return Response(status_code=204)

    async def jump(self, request: Request) -> Response:
        """For all scopes, by a large step, as after a restore (S3). It cannot be undone."""
        self._allowed()
        vm = vm_named(self._engine.state, request.path_params["name"])

        def build(state: State, _: Records) -> Reply:
            return Reply(o.Jumped(vm.name, state.document(scope_of(vm)).incarnation))

        return await self._done(request, c.LiftIncarnations(seconds_since_2020()), build)

    def _allowed(self) -> FaultPort:
        if self._port is None:
            raise Refused("This service does not allow faults.", hint="Start it with --allow-faults to test clients.")
        return self._port
