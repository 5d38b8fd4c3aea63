"""The calls that change what owners approve beforehand: PATCH and PUT of a VM or an availability set (M09).

Scale sets have more that can be changed, so their calls are in `scale_sets`.
"""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from duenotice.azure_api.availability_sets import set_with_vms
from duenotice.azure_api.calls import COMPUTE, AzureCall, AzureResource, actor_of
from duenotice.azure_api.compute_json import vm_shown
from duenotice.azure_api.group_json import set_shown
from duenotice.azure_api.kept import AVAILABILITY_SET, VM, wish
from duenotice.azure_api.policy_json import ScheduledEventsPolicy, policy_of
from duenotice.azure_api.shape import AzureJson, Written, read, shown
from duenotice.bounds import ONE_LARGE
from duenotice.domain.commands import SetEventsPolicy
from duenotice.domain.fleet import ALONE, EventsPolicy, GroupKind
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine


class AskedPolicy(AzureJson, frozen=True):
    """The part of a VM or a set that can be changed."""

    scheduled_events_policy: ScheduledEventsPolicy | None = None


class AskedOwned(AzureJson, frozen=True):
    """What a client wants to change of a VM or a set."""

    properties: AskedPolicy | None = None


async def say(engine: Engine, request: Request, of: str, policy: EventsPolicy) -> None:
    """An owner says what is approved beforehand: a PUT says all of it, a PATCH only what it names."""
    await engine.submit(SetEventsPolicy(of, policy, keep=request.method == "PATCH"), actor_of(request))


class Policies(AzureResource):
    """What owners say about the events of VMs and availability sets."""

    def calls(self) -> list[AzureCall]:
        """The rows of the table."""
        vm, group = f"{COMPUTE}/virtualMachines/{{name}}", f"{COMPUTE}/availabilitySets/{{name}}"
        return [
            *(AzureCall(method, vm, Role.OPERATOR, self.change_vm) for method in ("PATCH", "PUT")),
            *(AzureCall(method, group, Role.OPERATOR, self.change_set, ONE_LARGE) for method in ("PATCH", "PUT")),
        ]

    async def change_vm(self, request: Request) -> Response:
        """Of a VM that is there."""
        vm, body = await self._vm(request), await read(request, dict[str, Any])
        policy = _asked(wish(body, vm_shown(vm, self._engine.state), VM, AskedOwned))
        if policy is not None:
            await say(self._engine, request, ALONE + vm.name, policy)
        state = self._engine.state
        return shown(vm_shown(state.fleet.vms.get(vm.name, vm), state))

    async def change_set(self, request: Request) -> Response:
        """Of an availability set that is there."""
        group, body = self._group(request, GroupKind.AVAILABILITY_SET), await read(request, dict[str, Any])
        policy = _asked(wish(body, set_shown(group, [], self._site), AVAILABILITY_SET, AskedOwned))
        if policy is not None:
            await say(self._engine, request, group.key, policy)
        return Written(await self._engine.look(lambda state: set_with_vms(group, state)))


def _asked(wanted: AskedOwned) -> EventsPolicy | None:
    policy = None if wanted.properties is None else wanted.properties.scheduled_events_policy
    return None if policy is None else policy_of(policy)
