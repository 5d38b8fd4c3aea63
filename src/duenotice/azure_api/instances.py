"""The calls of single instances of scale sets: list, look at, restart, redeploy, delete, evict (M07)."""

from starlette.requests import Request
from starlette.responses import Response

from duenotice.azure_api.calls import COMPUTE, AzureCall, Handle
from duenotice.azure_api.compute_json import VmShown, view_of, vm_shown
from duenotice.azure_api.paging import names_of, page_of
from duenotice.azure_api.shape import AzureProblem, Written, shown
from duenotice.azure_api.virtual_machines import wants_view
from duenotice.azure_api.work import Working, new_id
from duenotice.bounds import PAGES
from duenotice.domain import commands as c
from duenotice.domain.event import EventType
from duenotice.domain.fleet import GroupKind
from duenotice.domain.state import State
from duenotice.domain.token import Role

_ALL = f"{COMPUTE}/virtualMachineScaleSets/{{name}}/virtualMachines"
_ONE = f"{_ALL}/{{instance}}"


class Instances(Working):
    """The instances of all scale sets."""

    def calls(self) -> list[AzureCall]:
        """The rows of the table."""
        viewer, operator = Role.VIEWER, Role.OPERATOR
        return [
            AzureCall("GET", _ALL, viewer, self.index, PAGES),
            AzureCall("GET", _ONE, viewer, self.show),
            AzureCall("GET", f"{_ONE}/instanceView", viewer, self.view),
            AzureCall("POST", f"{_ONE}/restart", operator, self._operation(EventType.REBOOT)),
            AzureCall("POST", f"{_ONE}/redeploy", operator, self._operation(EventType.REDEPLOY)),
            AzureCall("POST", f"{_ONE}/reimage", operator, self.reimage),
            AzureCall("POST", f"{_ONE}/reimageall", operator, self.reimage),
            AzureCall("DELETE", _ONE, operator, self.delete),
            AzureCall("POST", f"{_ONE}/simulateEviction", operator, self.evict),
            AzureCall("POST", f"{_ONE}/performMaintenance", operator, self.perform),
        ]

    async def index(self, request: Request) -> Response:
        """A page of instances by name."""
        group, names = self._group(request, GroupKind.SCALE_SET), await self._engine.publisher.names.put_in_order()
        with_view = wants_view(request)

        def look(state: State) -> bytes:
            def told(name: str) -> VmShown | None:
                vm = state.fleet.vms.get(name)
                if vm is None or vm.group != group.key:
                    return None
                return vm_shown(vm, state, view_of(vm, state)) if with_view else vm_shown(vm, state)

            return page_of(request, names_of(names, group), told)

        return Written(await self._engine.look(look))

    async def show(self, request: Request) -> Response:
        """One instance."""
        vm, state = self._instance(request), self._engine.state
        return shown(vm_shown(vm, state, view_of(vm, state)) if wants_view(request) else vm_shown(vm, state))

    async def view(self, request: Request) -> Response:
        """One instance as it is now."""
        return shown(view_of(self._instance(request), self._engine.state))

    async def delete(self, request: Request) -> Response:
        """Told before, where that is asked for (G05). One that is not there is deleted already, as Azure has it."""
        try:
            vm = self._instance(request)
        except AzureProblem:
            return Response(status_code=204)
        return await self._delete(request, vm)

    async def reimage(self, request: Request) -> Response:
        """Replace its OS image (M15)."""
        return await self._reimage(request, self._instance(request))

    async def evict(self, request: Request) -> Response:
        """The platform takes a spot instance back (G04)."""
        await self._do(request, c.EvictVm(new_id(), self._instance(request).name))
        return Response(status_code=204)

    async def perform(self, request: Request) -> Response:
        """Approve what waits for this instance."""
        return await self._perform(request, self._instance(request))

    def _operation(self, event_type: EventType) -> Handle:
        async def operate(request: Request) -> Response:
            vm, event_id = self._instance(request), self._id_for(request)
            return await self._operate(request, event_id, c.OperateVm(event_id, vm.name, event_type))

        return operate
