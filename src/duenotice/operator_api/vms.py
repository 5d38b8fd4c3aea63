"""The routes of VMs."""

from collections.abc import Callable
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice.domain import commands as c
from duenotice.domain.event import EventType
from duenotice.domain.fleet import Vm
from duenotice.domain.scope import scope_of
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.errors import Malformed
from duenotice.operator_api.answering import RAISED, Answer, done, raised
from duenotice.operator_api.bodies import new_id
from duenotice.operator_api.finding import vm_named
from duenotice.operator_api.looking import looked
from duenotice.operator_api.pages import paging_of
from duenotice.operator_api.states import WANTED, States, Wanted, state_of_vm
from duenotice.operator_api.table import Call, Handler
from duenotice.wire import operator_json
from duenotice.wire import operator_shapes as shapes
from duenotice.wire.api_versions import API_VERSIONS, BY_NAME
from duenotice.wire.document_json import encode_document
from duenotice.wire.times import format_iso

SilentFor = Callable[[str], float | None]
"""How many seconds ago the VM with this address last asked for its document, if it did."""

_ONE = "/v1/vms/{name}"
_PAGING = ("limit", "cursor")


class Vms:
    """Translates between JSON and commands about VMs."""

    def __init__(self, engine: Engine, silent_for: SilentFor) -> None:
        self._engine = engine
        self._silent_for = silent_for
        self._publisher = engine.publisher

    def calls(self) -> list[Call]:
        """The rows of the table."""
        viewer, operator = Role.VIEWER, Role.OPERATOR
        all_, read = {200: shapes.Page[shapes.Vm]}, {200: shapes.Document}
        return [
            Call("GET", "/v1/vms", viewer, self.index, "List VMs", None, (*WANTED, *_PAGING), all_, (404,)),
            Call("GET", _ONE, viewer, self.show, "Show a VM", answers={200: shapes.VmWithEvents}),
            Call(
                "GET", f"{_ONE}/document", viewer, self.document, "The document of a VM", None, ("api-version",), read
            ),
            Call(
                "POST",
                f"{_ONE}/listen",
                operator,
                self.listen,
                "Poll for the first time on behalf of a VM",
                answers={200: shapes.Vm},
            ),
            Call(
                "POST", f"{_ONE}/restart", operator, self._operation(EventType.REBOOT), "Restart a VM", answers=RAISED
            ),
            Call(
                "POST",
                f"{_ONE}/redeploy",
                operator,
                self._operation(EventType.REDEPLOY),
                "Redeploy a VM",
                answers=RAISED,
            ),
            Call(
                "POST", f"{_ONE}/delete", operator, self._operation(EventType.TERMINATE), "Delete a VM", answers=RAISED
            ),
            Call("POST", f"{_ONE}/evict", operator, self.evict, "Evict a spot VM", answers={201: shapes.Raised}),
        ]

    async def index(self, request: Request) -> Response:
        """A page of VMs by name."""
        wanted, paging, names = Wanted(request), paging_of(request), await self._publisher.names.put_in_order()

        def look(state: State) -> dict[str, object]:
            wanted.check(state.fleet)
            states = States(state)

            def shown(name: str) -> shapes.Vm | None:
                vm = state.fleet.vms.get(name)
                return _shown(state, vm, states.of(vm)) if vm is not None and wanted(vm, states) else None

            return paging.page_of_names(names, shown)

        return await looked(self._engine, look)

    async def show(self, request: Request) -> Response:
        """One VM with the events that hit it."""
        vm = self._find(request)
        state, now = self._engine.state, self._engine.clock.now()
        shown: shapes.VmWithEvents = {
            **_shown(state, vm, state_of_vm(state, vm)),
            "last_seen": self._last_seen(vm),
            "events": [operator_json.event_to_json(event, now) for event in state.events_of(vm)],
        }
        return JSONResponse(shown)

    async def document(self, request: Request) -> Response:
        """The document as the VM sees it, byte for byte.

        This is not a poll: its scope does not listen because of it (F01).
        """
        vm = self._find(request)
        name = request.query_params.get("api-version", API_VERSIONS[-1].name)
        if name not in BY_NAME:
            raise Malformed(f"{name[:40]!r} is not an api-version.", hint=f"Use one of {', '.join(BY_NAME)}.")
        body = encode_document(self._engine.state.document(scope_of(vm)), BY_NAME[name])
        return Response(body, media_type="application/json; charset=utf-8")

    async def listen(self, request: Request) -> Response:
        """Counts as a poll of the VM: its scope listens from now on, for at least 24 hours (F01, F02)."""
        vm = self._find(request)
        shown = Answer(operator_json.vm_to_json(vm, True, state_of_vm(self._engine.state, vm)))
        response = await done(self._engine, request, c.EnableScope(vm.name), lambda *_: shown)
        self._publisher.open_page_of(vm).last_poll = self._engine.clock.now().steady
        return response

    async def evict(self, request: Request) -> Response:
        """The platform takes a spot VM back."""
        return await raised(self._engine, request, c.EvictVm(new_id(), request.path_params["name"]))

    def _operation(self, event_type: EventType) -> Handler:
        async def operate(request: Request) -> Response:
            command = c.OperateVm(new_id(), request.path_params["name"], event_type)
            return await raised(self._engine, request, command)

        return operate

    def _last_seen(self, vm: Vm) -> str | None:
        """When it last asked, on the service's clock; it is not stored (decision 0007)."""
        silent, clock = self._silent_for(vm.address), self._engine.clock
        return None if silent is None else format_iso(clock.now().at - timedelta(seconds=silent * clock.speed))

    def _find(self, request: Request) -> Vm:
        return vm_named(self._engine.state, request.path_params["name"])


def _shown(state: State, vm: Vm, condition: str) -> shapes.Vm:
    return operator_json.vm_to_json(vm, state.enabled(scope_of(vm)), condition)
