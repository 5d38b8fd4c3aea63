"""The routes of VMs and of the groups they stand in."""

from collections.abc import Callable
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice.domain import commands as c
from duenotice.domain.event import EventType
from duenotice.domain.fleet import Vm
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.errors import Malformed
from duenotice.operator_api.bodies import actor_of, new_id
from duenotice.operator_api.finding import vm_named
from duenotice.operator_api.pages import page
from duenotice.operator_api.raising import raised
from duenotice.operator_api.table import Call, Handler
from duenotice.wire import operator_json
from duenotice.wire.api_versions import API_VERSIONS, BY_NAME
from duenotice.wire.document_json import encode_document
from duenotice.wire.times import format_iso

SilentFor = Callable[[str], float | None]
"""How many seconds ago the VM with an address last asked for its document, if it did."""

_ONE = "/v1/vms/{name}"
_PAGING = ("limit", "cursor")


class Vms:
    """Translates between JSON and what concerns VMs."""

    def __init__(self, engine: Engine, silent_for: SilentFor) -> None:
        self._engine = engine
        self._silent_for = silent_for
        self._publisher = engine.publisher

    def calls(self) -> list[Call]:
        """The rows of the table."""
        viewer, operator = Role.VIEWER, Role.OPERATOR
        return [
            Call("GET", "/v1/vms", viewer, self.index, "List VMs", query=("group", "host", *_PAGING)),
            Call("GET", _ONE, viewer, self.show, "Show a VM"),
            Call("GET", f"{_ONE}/document", viewer, self.document, "The document of a VM", query=("api-version",)),
            Call("POST", f"{_ONE}/listen", operator, self.listen, "Poll for the first time in a VM's place"),
            Call("POST", f"{_ONE}/restart", operator, self._operation(EventType.REBOOT), "Restart a VM"),
            Call("POST", f"{_ONE}/redeploy", operator, self._operation(EventType.REDEPLOY), "Redeploy a VM"),
            Call("POST", f"{_ONE}/delete", operator, self._operation(EventType.TERMINATE), "Delete a VM"),
            Call("POST", f"{_ONE}/evict", operator, self.evict, "Take a spot VM back"),
            Call("GET", "/v1/groups", viewer, self.groups, "List sets, scale sets, cloud services", query=_PAGING),
        ]

    async def index(self, request: Request) -> Response:
        """A page of VMs by name."""
        group, host = request.query_params.get("group"), request.query_params.get("host")
        vms = (vm for vm in self._publisher.by_name.values() if _stands_in(vm, group) and host in (None, "", vm.host))
        return page(request, vms, lambda vm: vm.name, self._shown)

    async def show(self, request: Request) -> Response:
        """One VM with the events that hit it."""
        vm = self._find(request)
        events = [event for event in self._publisher.document_of(vm).events if vm.name in event.resources]
        shown = self._shown(vm) | {"last_seen": self._last_seen(vm)}
        return JSONResponse(shown | {"events": [operator_json.event_to_json(event) for event in events]})

    async def document(self, request: Request) -> Response:
        """The document as the VM sees it, byte for byte; this is no poll and enables nothing (F01)."""
        vm = self._find(request)
        name = request.query_params.get("api-version", API_VERSIONS[-1].name)
        if name not in BY_NAME:
            raise Malformed(f"{name[:40]!r} is no api-version.", hint=f"Use one of {', '.join(BY_NAME)}.")
        body = encode_document(self._publisher.document_of(vm), BY_NAME[name])
        return Response(body, media_type="application/json; charset=utf-8")

    async def listen(self, request: Request) -> Response:
        """Stands in for a poll of the VM: its scope listens from now on, for 24 hours at least (F01, F02)."""
        vm = self._find(request)
        await self._engine.submit(c.EnableScope(vm.name), actor_of(request))
        self._publisher.page_of(vm).last_poll = self._engine.clock.now().steady
        return JSONResponse(self._shown(vm))

    async def evict(self, request: Request) -> Response:
        """The platform takes a spot VM back."""
        return await raised(self._engine, request, c.EvictVm(new_id(), request.path_params["name"]))

    async def groups(self, request: Request) -> Response:
        """A page of groups by key, with how many VMs each has."""
        sizes: dict[str, int] = {}
        for vm in self._publisher.by_name.values():
            if vm.group is not None:
                sizes[vm.group] = sizes.get(vm.group, 0) + 1
        return page(
            request,
            self._publisher.groups.values(),
            lambda group: group.key,
            lambda group: operator_json.group_to_json(group, sizes.get(group.key, 0)),
        )

    def _operation(self, event_type: EventType) -> Handler:
        async def operate(request: Request) -> Response:
            command = c.OperateVm(new_id(), request.path_params["name"], event_type)
            return await raised(self._engine, request, command)

        return operate

    def _last_seen(self, vm: Vm) -> str | None:
        """When it last asked, on the service's clock; nothing of it is written down (decision 0007)."""
        silent, clock = self._silent_for(vm.address), self._engine.clock
        return None if silent is None else format_iso(clock.now().at - timedelta(seconds=silent * clock.speed))

    def _shown(self, vm: Vm) -> dict[str, object]:
        return operator_json.vm_to_json(vm, self._publisher.listens(vm))

    def _find(self, request: Request) -> Vm:
        return vm_named(self._publisher, request.path_params["name"])


def _stands_in(vm: Vm, group: str | None) -> bool:
    """By the key of a group, `set/web`, or by its name, `web`."""
    return not group or (vm.group is not None and group in (vm.group, vm.group.partition("/")[2]))
