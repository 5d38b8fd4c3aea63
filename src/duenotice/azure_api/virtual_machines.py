"""The calls of virtual machines: list, look at, restart, redeploy, delete, evict, have maintenance now (M06)."""

from starlette.requests import Request
from starlette.responses import Response

from duenotice.azure_api.calls import COMPUTE, SUBSCRIPTION, AzureCall, Handle, is_instance
from duenotice.azure_api.compute_json import VmShown, view_of, vm_shown
from duenotice.azure_api.paging import page_of
from duenotice.azure_api.shape import AzureProblem, Written, shown
from duenotice.azure_api.work import Working, new_id
from duenotice.bounds import PAGES
from duenotice.domain import commands as c
from duenotice.domain.event import EventType
from duenotice.domain.state import State
from duenotice.domain.token import Role

_ALL = f"{COMPUTE}/virtualMachines"
_ONE = f"{_ALL}/{{name}}"


class VirtualMachines(Working):
    """All VMs but the instances of scale sets, which are found below their scale sets."""

    def calls(self) -> list[AzureCall]:
        """The rows of the table."""
        viewer, operator, everywhere = Role.VIEWER, Role.OPERATOR, f"{SUBSCRIPTION}/providers/Microsoft.Compute"
        return [
            AzureCall("GET", _ALL, viewer, self.index, PAGES),
            AzureCall("GET", f"{everywhere}/virtualMachines", viewer, self.index, PAGES),
            AzureCall("GET", _ONE, viewer, self.show),
            AzureCall("GET", f"{_ONE}/instanceView", viewer, self.view),
            AzureCall("POST", f"{_ONE}/restart", operator, self._operation(EventType.REBOOT)),
            AzureCall("POST", f"{_ONE}/redeploy", operator, self._operation(EventType.REDEPLOY)),
            AzureCall("POST", f"{_ONE}/reimage", operator, self.reimage),
            AzureCall("DELETE", _ONE, operator, self.delete),
            AzureCall("POST", f"{_ONE}/simulateEviction", operator, self.evict),
            AzureCall("POST", f"{_ONE}/performMaintenance", operator, self.perform),
        ]

    async def index(self, request: Request) -> Response:
        """A page of VMs by name."""
        names = await self._engine.publisher.names.put_in_order()
        with_view = wants_view(request)

        def look(state: State) -> bytes:
            def told(name: str) -> VmShown | None:
                vm = state.fleet.vms.get(name)
                if vm is None or is_instance(vm):
                    return None
                return vm_shown(vm, state, view_of(vm, state)) if with_view else vm_shown(vm, state)

            return page_of(request, names, told)

        return Written(await self._engine.look(look))

    async def show(self, request: Request) -> Response:
        """One VM."""
        vm, state = await self._vm(request), self._engine.state
        return shown(vm_shown(vm, state, view_of(vm, state)) if wants_view(request) else vm_shown(vm, state))

    async def view(self, request: Request) -> Response:
        """One VM as it is now, with what is planned for it."""
        return shown(view_of(await self._vm(request), self._engine.state))

    async def delete(self, request: Request) -> Response:
        """Told before, where that is asked for (G05). One that is not there is deleted already, as Azure has it."""
        try:
            vm = await self._vm(request)
        except AzureProblem:
            return Response(status_code=204)
        return await self._delete(request, vm)

    async def reimage(self, request: Request) -> Response:
        """Replace its OS image (M15)."""
        return await self._reimage(request, await self._vm(request))

    async def evict(self, request: Request) -> Response:
        """The platform takes a spot VM back (G04)."""
        vm = await self._vm(request)
        await self._do(request, c.EvictVm(new_id(), vm.name))
        return Response(status_code=204)

    async def perform(self, request: Request) -> Response:
        """Approve what waits for this VM."""
        return await self._perform(request, await self._vm(request))

    def _operation(self, event_type: EventType) -> Handle:
        async def operate(request: Request) -> Response:
            vm, event_id = await self._vm(request), self._id_for(request)
            return await self._operate(request, event_id, c.OperateVm(event_id, vm.name, event_type))

        return operate


def wants_view(request: Request) -> bool:
    """Whether each VM is to be shown as it is now; one of two parameters asks for it."""
    asked = request.query_params
    return asked.get("$expand", "").lower() == "instanceview" or asked.get("statusOnly", "").lower() == "true"
