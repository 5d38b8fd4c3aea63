"""The calls of scale sets: list, look at, scale, restart, redeploy, delete instances, terminate notification (M07)."""

from typing import Any

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from duenotice.azure_api.calls import COMPUTE, SUBSCRIPTION, AzureCall, Handle, actor_of
from duenotice.azure_api.group_json import AskedScaleSet, scale_set_shown, view_of_scale_set
from duenotice.azure_api.kept import SCALE_SET, wish
from duenotice.azure_api.operations import name_of_many, name_of_plan, raised_in
from duenotice.azure_api.paging import page_of
from duenotice.azure_api.policies import say
from duenotice.azure_api.policy_json import policy_of
from duenotice.azure_api.shape import AzureJson, AzureProblem, Written, read, shown
from duenotice.azure_api.work import Reimaging, Working, new_id
from duenotice.bounds import PAGES
from duenotice.domain import commands as c
from duenotice.domain.event import EventType
from duenotice.domain.fleet import Group, GroupKind
from duenotice.domain.rules.scale_sets import staying
from duenotice.domain.state import State
from duenotice.domain.token import Role

_ALL = f"{COMPUTE}/virtualMachineScaleSets"
_ONE = f"{_ALL}/{{name}}"


class InstanceIds(AzureJson, frozen=True, forbid_unknown_fields=True):
    """Which instances a client means; none named are all."""

    instance_ids: tuple[str, ...] | None = None


class NoBody(AzureJson, frozen=True, forbid_unknown_fields=True):
    """Nothing can be said."""


_UPGRADED = "Virtual machine's OS image is going to be upgraded."


class ScaleSets(Working):
    """The scale sets of the fleet."""

    def calls(self) -> list[AzureCall]:
        """The rows of the table."""
        viewer, operator, everywhere = Role.VIEWER, Role.OPERATOR, f"{SUBSCRIPTION}/providers/Microsoft.Compute"
        return [
            AzureCall("GET", _ALL, viewer, self.index, PAGES),
            AzureCall("GET", f"{everywhere}/virtualMachineScaleSets", viewer, self.index, PAGES),
            AzureCall("GET", _ONE, viewer, self.show),
            AzureCall("GET", f"{_ONE}/instanceView", viewer, self.view),
            AzureCall("PATCH", _ONE, operator, self.change),
            AzureCall("PUT", _ONE, operator, self.change),
            AzureCall("POST", f"{_ONE}/restart", operator, self._operation(EventType.REBOOT)),
            AzureCall("POST", f"{_ONE}/redeploy", operator, self._operation(EventType.REDEPLOY)),
            AzureCall("POST", f"{_ONE}/reimage", operator, self.reimage),
            AzureCall("POST", f"{_ONE}/reimageall", operator, self.reimage),
            AzureCall("POST", f"{_ONE}/osRollingUpgrade", operator, self.upgrade),
            AzureCall("POST", f"{_ONE}/delete", operator, self.delete),
        ]

    async def index(self, request: Request) -> Response:
        """A page of them by name."""

        def look(state: State) -> bytes:
            groups = {group.name: group for group in state.fleet.groups.values() if _is_scale_set(group)}
            return page_of(request, sorted(groups), lambda name: scale_set_shown(groups[name], state))

        return Written(await self._engine.look(look))

    async def show(self, request: Request) -> Response:
        """One of them."""
        group = self._group(request, GroupKind.SCALE_SET)
        return shown(await self._engine.look(lambda state: scale_set_shown(group, state)))

    async def view(self, request: Request) -> Response:
        """Its instances in numbers."""
        group = self._group(request, GroupKind.SCALE_SET)
        return shown(await self._engine.look(lambda state: view_of_scale_set(group, state)))

    async def change(self, request: Request) -> Response:
        """Another capacity, notification or policy; a PUT makes no scale set, and nothing else is changed (M16)."""
        group, body, seed = self._group(request, GroupKind.SCALE_SET), await read(request, dict[str, Any]), new_id()
        present = await self._engine.look(lambda state: scale_set_shown(group, state))
        asked = wish(body, present, SCALE_SET, AskedScaleSet)
        command = c.ChangeScaleSet(group.name, seed, asked.capacity, asked.terminate_notice, asked.os_image_notice)
        policy = None if asked.policy is None else policy_of(asked.policy)
        records = await self._do(request, command)
        if policy is not None:
            await say(self._engine, request, group.key, policy)
        now = self._engine.state.fleet.groups.get(group.key, group)
        answer = await self._engine.look(lambda state: scale_set_shown(now, state))
        if not raised_in(records):
            return shown(answer)
        under_way = structs.replace(answer.properties, provisioning_state="Updating")
        links = self._operations.links(request, name_of_many(seed, records))
        return shown(structs.replace(answer, properties=under_way), headers=links)

    async def delete(self, request: Request) -> Response:
        """Delete the named instances, told before where that is asked for (G05)."""
        group, asked, seed = self._group(request, GroupKind.SCALE_SET), await read(request, InstanceIds), new_id()
        if not asked.instance_ids:
            message = "The parameter instanceIds is missing."
            raise AzureProblem.of(
                400, "InvalidParameter", message, hint="Name instances, or '*'.", target="instanceIds"
            )
        names = await self._named(group, asked)
        return await self._operate_many(request, seed, c.DeleteInstances(group.name, names, seed))

    async def reimage(self, request: Request) -> Response:
        """Replace the OS image of the named instances, or of all; each is told before where that is asked for (M15)."""
        group, asked, seed = self._group(request, GroupKind.SCALE_SET), await read(request, Reimaging), new_id()
        asked.refuse_unkept()
        names = await self._named(group, InstanceIds(asked.instance_ids))
        return await self._operate_many(request, seed, _reimaging(group, names, seed))

    async def upgrade(self, request: Request) -> Response:
        """Replace the OS image of all: where they are to be told (M15) one update domain after the other."""
        group, plan_id = self._group(request, GroupKind.SCALE_SET), new_id()
        await read(request, NoBody)
        names = await self._named(group, InstanceIds())
        if not group.os_image_notice:
            return await self._operate_many(request, plan_id, _reimaging(group, names, plan_id))
        plan = c.StartMaintenance(
            plan_id,
            EventType.REBOOT,
            names,
            description=_UPGRADED,
            title=f"OS upgrade of {group.name}",
            author=actor_of(request),
        )
        await self._do(request, plan)
        return self._operations.begun(request, name_of_plan(plan_id))

    def _operation(self, event_type: EventType) -> Handle:
        async def operate(request: Request) -> Response:
            group, asked, seed = self._group(request, GroupKind.SCALE_SET), await read(request, InstanceIds), new_id()
            names = await self._named(group, asked)
            return await self._operate_many(request, seed, c.OperateInstances(group.name, names, event_type, seed))

        return operate

    async def _named(self, group: Group, asked: InstanceIds) -> tuple[str, ...]:
        if asked.instance_ids and asked.instance_ids != ("*",):
            return tuple(f"{group.name}_{instance}" for instance in asked.instance_ids)
        return await self._engine.look(lambda state: tuple(vm.name for vm in staying(state, group)))


def _reimaging(group: Group, names: tuple[str, ...], seed: str) -> c.OperateInstances:
    return c.OperateInstances(group.name, names, EventType.REBOOT, seed, reimage=True)


def _is_scale_set(group: Group) -> bool:
    return group.kind is GroupKind.SCALE_SET
