"""The calls of availability sets: list them and look at them, with their VMs (M08)."""

from collections import defaultdict

from starlette.requests import Request
from starlette.responses import Response

from duenotice.azure_api.calls import COMPUTE, SUBSCRIPTION, AzureCall, AzureResource
from duenotice.azure_api.group_json import SetShown, set_shown
from duenotice.azure_api.shape import JSON, Listed, encode, shown
from duenotice.domain.fleet import GroupKind, Vm
from duenotice.domain.state import State
from duenotice.domain.token import Role

_ALL = f"{COMPUTE}/availabilitySets"


class AvailabilitySets(AzureResource):
    """The availability sets of the fleet."""

    def calls(self) -> list[AzureCall]:
        """The rows of the table."""
        everywhere = f"{SUBSCRIPTION}/providers/Microsoft.Compute/availabilitySets"
        return [
            AzureCall("GET", _ALL, Role.VIEWER, self.index),
            AzureCall("GET", everywhere, Role.VIEWER, self.index),
            AzureCall("GET", f"{_ALL}/{{name}}", Role.VIEWER, self.show),
        ]

    async def index(self, _: Request) -> Response:
        """All of them, by name."""
        return Response(await self._engine.look(lambda state: encode(Listed(_sets(state)))), media_type=JSON)

    async def show(self, request: Request) -> Response:
        """One of them."""
        group = self._group(request, GroupKind.AVAILABILITY_SET)

        def look(state: State) -> SetShown:
            return set_shown(group, [vm for vm in state.fleet.vms.values() if vm.group == group.key], state.fleet.site)

        return shown(await self._engine.look(look))


def _sets(state: State) -> list[SetShown]:
    """One look at all VMs, however many sets there are."""
    vms: dict[str | None, list[Vm]] = defaultdict(list)
    for vm in state.fleet.vms.values():
        vms[vm.group].append(vm)
    groups = (group for group in state.fleet.groups.values() if group.kind is GroupKind.AVAILABILITY_SET)
    return [set_shown(group, vms[group.key], state.fleet.site) for group in sorted(groups, key=lambda g: g.name)]
