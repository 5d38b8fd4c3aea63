"""The calls of availability sets: list them and look at them, with their VMs (M08)."""

from collections import defaultdict

from starlette.requests import Request
from starlette.responses import Response

from duenotice.azure_api.calls import COMPUTE, SUBSCRIPTION, AzureCall, AzureResource
from duenotice.azure_api.group_json import set_shown
from duenotice.azure_api.paging import encoded_item, page_of
from duenotice.azure_api.shape import Written
from duenotice.bounds import ONE_LARGE, PAGES
from duenotice.domain.fleet import Group, GroupKind, Vm
from duenotice.domain.state import State
from duenotice.domain.token import Role

_ALL = f"{COMPUTE}/availabilitySets"


class AvailabilitySets(AzureResource):
    """The availability sets of the fleet."""

    def calls(self) -> list[AzureCall]:
        """The rows of the table."""
        everywhere = f"{SUBSCRIPTION}/providers/Microsoft.Compute/availabilitySets"
        return [
            AzureCall("GET", _ALL, Role.VIEWER, self.index, PAGES),
            AzureCall("GET", everywhere, Role.VIEWER, self.index, PAGES),
            AzureCall("GET", f"{_ALL}/{{name}}", Role.VIEWER, self.show, ONE_LARGE),
        ]

    async def index(self, request: Request) -> Response:
        """A page of them by name."""

        def look(state: State) -> bytes:
            members, site = _members(state), state.fleet.site
            groups = {g.name: g for g in state.fleet.groups.values() if g.kind is GroupKind.AVAILABILITY_SET}
            return page_of(request, sorted(groups), lambda name: set_shown(g := groups[name], members[g.key], site))

        return Written(await self._engine.look(look))

    async def show(self, request: Request) -> Response:
        """One of them."""
        group = self._group(request, GroupKind.AVAILABILITY_SET)
        return Written(await self._engine.look(lambda state: set_with_vms(group, state)))


def set_with_vms(group: Group, state: State) -> bytes:
    """A set as JSON, with its VMs."""
    vms = [vm for vm in state.fleet.vms.values() if vm.group == group.key]
    return encoded_item(set_shown(state.fleet.groups.get(group.key, group), vms, state.fleet.site), group.name)


def _members(state: State) -> dict[str | None, list[Vm]]:
    """The VMs of each group: one look at all of them, however many sets there are."""
    vms: dict[str | None, list[Vm]] = defaultdict(list)
    for vm in state.fleet.vms.values():
        vms[vm.group].append(vm)
    return vms
