"""The calls of VMs, instances, scale sets and availability sets, and what owners approve beforehand (M06-M09)."""

from collections import defaultdict
from typing import Any

import msgspec
from msgspec import field, structs
from starlette.requests import Request
from starlette.responses import Response

from duenotice.azure_api.compute_json import (
    AskedScaleSet,
    ScheduledEventsPolicy,
    VmShown,
    policy_of,
    scale_set_shown,
    set_shown,
    view_of,
    view_of_scale_set,
    vm_shown,
)
from duenotice.azure_api.operations import (
    MOST_NAMED,
    OperatedResource,
    Operations,
    name_of,
    name_of_many,
    name_of_plan,
    new_id,
    raised_in,
)
from duenotice.azure_api.resource import COMPUTE, SUBSCRIPTION, AzureCall, AzureResource, Handle, actor_of, is_instance
from duenotice.azure_api.shape import (
    AzureJson,
    AzureProblem,
    EncodedResponse,
    encoded_item,
    json_response,
    names_of_instances,
    page_of,
    read,
)
from duenotice.azure_api.updates import AVAILABILITY_SET, SCALE_SET, VM, requested_change
from duenotice.bounds import ONE_LARGE, PAGES
from duenotice.domain import commands as c
from duenotice.domain.event import EventType, Phase
from duenotice.domain.fleet import ALONE, EventsPolicy, Group, GroupKind, Vm
from duenotice.domain.rules.scale_sets import staying
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.errors import Conflict

_EVERYWHERE = f"{SUBSCRIPTION}/providers/Microsoft.Compute"
_VMS = f"{COMPUTE}/virtualMachines"
_SCALE_SETS = f"{COMPUTE}/virtualMachineScaleSets"
_SCALE_SET = f"{_SCALE_SETS}/{{name}}"
_INSTANCES = f"{_SCALE_SET}/virtualMachines"
_AVAILABILITY_SETS = f"{COMPUTE}/availabilitySets"


class Reimaging(AzureJson, frozen=True, forbid_unknown_fields=True):
    """How an OS image is to be replaced: only as usual."""

    instance_ids: tuple[str, ...] | None = None
    temp_disk: bool | None = None
    force_update_os_disk: bool | None = field(default=None, name="forceUpdateOSDiskForEphemeral")
    exact_version: str | None = None
    os_profile: dict[str, Any] | None = None

    def refuse_unkept(self) -> None:
        """Refuse what would be asked for nothing (M16)."""
        for name, value in msgspec.to_builtins(self).items():
            if value and name != "instanceIds":
                hint = "Leave it out: there are no disks and images here."
                raise AzureProblem.of(400, "InvalidParameter", f"{name} is not supported.", hint=hint, target=name)


class VirtualMachines(OperatedResource):
    """VMs, or the instances of scale sets: the same calls, but they are found below their scale sets (M06, M07)."""

    def __init__(self, engine: Engine, operations: Operations, of_scale_sets: bool = False) -> None:
        super().__init__(engine, operations)
        self._of_scale_sets = of_scale_sets

    def calls(self) -> list[AzureCall]:
        """The rows of the table."""
        viewer, operator = Role.VIEWER, Role.OPERATOR
        all_, one = (_INSTANCES, f"{_INSTANCES}/{{instance}}") if self._of_scale_sets else (_VMS, f"{_VMS}/{{name}}")
        everywhere = AzureCall("GET", f"{_EVERYWHERE}/virtualMachines", viewer, self.index, PAGES)
        reimage_all = AzureCall("POST", f"{one}/reimageall", operator, self.reimage)
        return [
            AzureCall("GET", all_, viewer, self.index, PAGES),
            *(() if self._of_scale_sets else (everywhere,)),
            AzureCall("GET", one, viewer, self.show),
            AzureCall("GET", f"{one}/instanceView", viewer, self.view),
            AzureCall("POST", f"{one}/restart", operator, self._operation(EventType.REBOOT)),
            AzureCall("POST", f"{one}/redeploy", operator, self._operation(EventType.REDEPLOY)),
            AzureCall("POST", f"{one}/reimage", operator, self.reimage),
            *((reimage_all,) if self._of_scale_sets else ()),
            AzureCall("DELETE", one, operator, self.delete),
            AzureCall("POST", f"{one}/simulateEviction", operator, self.evict),
            AzureCall("POST", f"{one}/performMaintenance", operator, self.perform),
        ]

    async def index(self, request: Request) -> Response:
        """A page of them by name."""
        group = self._group(request, GroupKind.SCALE_SET) if self._of_scale_sets else None
        ordered, with_view = await self._engine.publisher.names.put_in_order(), _wants_view(request)

        def look(state: State) -> bytes:
            def show(name: str) -> VmShown | None:
                vm = state.fleet.vms.get(name)
                if vm is None or (is_instance(vm) if group is None else vm.group != group.key):
                    return None
                return vm_shown(vm, state, view_of(vm, state)) if with_view else vm_shown(vm, state)

            return page_of(request, ordered if group is None else names_of_instances(ordered, group), show)

        return EncodedResponse(await self._engine.look(look))

    async def show(self, request: Request) -> Response:
        """One of them."""
        vm, state = await self._named(request), self._engine.state
        return json_response(vm_shown(vm, state, view_of(vm, state)) if _wants_view(request) else vm_shown(vm, state))

    async def view(self, request: Request) -> Response:
        """One as it is now, with what is planned for it."""
        return json_response(view_of(await self._named(request), self._engine.state))

    async def delete(self, request: Request) -> Response:
        """Told before, where that is asked for (G05). One that is not there is deleted already, as Azure has it."""
        try:
            vm = await self._named(request)
        except AzureProblem:
            return Response(status_code=204)
        if request.query_params.get("forceDeletion", "").lower() == "true":
            message = "forceDeletion is not supported: a VM that is to be told before is told."
            raise AzureProblem.of(400, "InvalidParameter", message, hint="Leave it out.", target="forceDeletion")
        event_id = self._id_for(request)
        return await self._operate(request, event_id, c.OperateVm(event_id, vm.name, EventType.TERMINATE))

    async def reimage(self, request: Request) -> Response:
        """Replace its OS image; it is told before where its scale set asks for that (M15)."""
        vm = await self._named(request)
        (await read(request, Reimaging)).refuse_unkept()
        event_id = self._id_for(request)
        command = c.OperateVm(event_id, vm.name, EventType.REBOOT, reimage=True)
        return await self._operate(request, event_id, command)

    async def evict(self, request: Request) -> Response:
        """The platform takes a spot VM back (G04)."""
        vm = await self._named(request)
        await self._do(request, c.EvictVm(new_id(), vm.name))
        return Response(status_code=204)

    async def perform(self, request: Request) -> Response:
        """Have now what waits for it."""
        vm = await self._named(request)
        waiting = [
            event
            for event in self._engine.state.events_of(vm)
            if event.phase is Phase.SCHEDULED and not event.is_advice
        ]
        ids = tuple(event.id for event in waiting)[:MOST_NAMED]
        if not ids:
            raise Conflict(f"Nothing waits for {vm.name}.", hint="Its instanceView says what is planned.")
        await self._do(request, c.ApproveEvents(ids, vm.name))
        return self._operations.begun(request, name_of(ids))

    async def _named(self, request: Request) -> Vm:
        return self._instance(request) if self._of_scale_sets else await self._vm(request)

    def _operation(self, event_type: EventType) -> Handle:
        async def operate(request: Request) -> Response:
            vm, event_id = await self._named(request), self._id_for(request)
            return await self._operate(request, event_id, c.OperateVm(event_id, vm.name, event_type))

        return operate


def _wants_view(request: Request) -> bool:
    """Whether each VM is to be shown as it is now; one of two parameters asks for it."""
    asked = request.query_params
    return asked.get("$expand", "").lower() == "instanceview" or asked.get("statusOnly", "").lower() == "true"


class InstanceIds(AzureJson, frozen=True, forbid_unknown_fields=True):
    """Which instances a client means; none named are all."""

    instance_ids: tuple[str, ...] | None = None


class NoBody(AzureJson, frozen=True, forbid_unknown_fields=True):
    """Nothing can be said."""


_UPGRADED = "Virtual machine's OS image is going to be upgraded."


class ScaleSets(OperatedResource):
    """The scale sets of the fleet."""

    def calls(self) -> list[AzureCall]:
        """The rows of the table."""
        viewer, operator = Role.VIEWER, Role.OPERATOR
        return [
            AzureCall("GET", _SCALE_SETS, viewer, self.index, PAGES),
            AzureCall("GET", f"{_EVERYWHERE}/virtualMachineScaleSets", viewer, self.index, PAGES),
            AzureCall("GET", _SCALE_SET, viewer, self.show),
            AzureCall("GET", f"{_SCALE_SET}/instanceView", viewer, self.view),
            AzureCall("PATCH", _SCALE_SET, operator, self.change),
            AzureCall("PUT", _SCALE_SET, operator, self.change),
            AzureCall("POST", f"{_SCALE_SET}/restart", operator, self._operation(EventType.REBOOT)),
            AzureCall("POST", f"{_SCALE_SET}/redeploy", operator, self._operation(EventType.REDEPLOY)),
            AzureCall("POST", f"{_SCALE_SET}/reimage", operator, self.reimage),
            AzureCall("POST", f"{_SCALE_SET}/reimageall", operator, self.reimage),
            AzureCall("POST", f"{_SCALE_SET}/osRollingUpgrade", operator, self.upgrade),
            AzureCall("POST", f"{_SCALE_SET}/delete", operator, self.delete),
        ]

    async def index(self, request: Request) -> Response:
        """A page of them by name."""

        def look(state: State) -> bytes:
            groups = {group.name: group for group in state.fleet.groups.values() if _is_scale_set(group)}
            return page_of(request, sorted(groups), lambda name: scale_set_shown(groups[name], state))

        return EncodedResponse(await self._engine.look(look))

    async def show(self, request: Request) -> Response:
        """One of them."""
        group = self._group(request, GroupKind.SCALE_SET)
        return json_response(await self._engine.look(lambda state: scale_set_shown(group, state)))

    async def view(self, request: Request) -> Response:
        """Its instances in numbers."""
        group = self._group(request, GroupKind.SCALE_SET)
        return json_response(await self._engine.look(lambda state: view_of_scale_set(group, state)))

    async def change(self, request: Request) -> Response:
        """Another capacity, notification or policy; a PUT makes no scale set, and nothing else is changed (M16)."""
        group, body, seed = self._group(request, GroupKind.SCALE_SET), await read(request, dict[str, Any]), new_id()
        present = await self._engine.look(lambda state: scale_set_shown(group, state))
        asked = requested_change(body, present, SCALE_SET, AskedScaleSet)
        command = c.ChangeScaleSet(group.name, seed, asked.capacity, asked.terminate_notice, asked.os_image_notice)
        policy = None if asked.policy is None else policy_of(asked.policy)
        records = await self._do(request, command)
        if policy is not None:
            await set_policy(self._engine, request, group.key, policy)
        now = self._engine.state.fleet.groups.get(group.key, group)
        answer = await self._engine.look(lambda state: scale_set_shown(now, state))
        if not raised_in(records):
            return json_response(answer)
        under_way = structs.replace(answer.properties, provisioning_state="Updating")
        links = self._operations.links(request, name_of_many(seed, records))
        return json_response(structs.replace(answer, properties=under_way), headers=links)

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


class AvailabilitySets(AzureResource):
    """The availability sets of the fleet."""

    def calls(self) -> list[AzureCall]:
        """The rows of the table."""
        return [
            AzureCall("GET", _AVAILABILITY_SETS, Role.VIEWER, self.index, PAGES),
            AzureCall("GET", f"{_EVERYWHERE}/availabilitySets", Role.VIEWER, self.index, PAGES),
            AzureCall("GET", f"{_AVAILABILITY_SETS}/{{name}}", Role.VIEWER, self.show, ONE_LARGE),
        ]

    async def index(self, request: Request) -> Response:
        """A page of them by name."""

        def look(state: State) -> bytes:
            members, site = _members(state), state.fleet.site
            groups = {g.name: g for g in state.fleet.groups.values() if g.kind is GroupKind.AVAILABILITY_SET}
            return page_of(request, sorted(groups), lambda name: set_shown(g := groups[name], members[g.key], site))

        return EncodedResponse(await self._engine.look(look))

    async def show(self, request: Request) -> Response:
        """One of them."""
        group = self._group(request, GroupKind.AVAILABILITY_SET)
        return EncodedResponse(await self._engine.look(lambda state: set_with_vms(group, state)))


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


class AskedPolicy(AzureJson, frozen=True):
    """The part of a VM or a set that can be changed."""

    scheduled_events_policy: ScheduledEventsPolicy | None = None


class AskedOwned(AzureJson, frozen=True):
    """What a client wants to change of a VM or a set."""

    properties: AskedPolicy | None = None


async def set_policy(engine: Engine, request: Request, of: str, policy: EventsPolicy) -> None:
    """An owner says what is approved beforehand: a PUT says all of it, a PATCH only what it names."""
    await engine.submit(c.SetEventsPolicy(of, policy, keep=request.method == "PATCH"), actor_of(request))


class Policies(AzureResource):
    """What owners say about the events of VMs and availability sets."""

    def calls(self) -> list[AzureCall]:
        """The rows of the table."""
        vm, group = f"{_VMS}/{{name}}", f"{_AVAILABILITY_SETS}/{{name}}"
        return [
            *(AzureCall(method, vm, Role.OPERATOR, self.change_vm) for method in ("PATCH", "PUT")),
            *(AzureCall(method, group, Role.OPERATOR, self.change_set, ONE_LARGE) for method in ("PATCH", "PUT")),
        ]

    async def change_vm(self, request: Request) -> Response:
        """Of a VM that is there."""
        vm, body = await self._vm(request), await read(request, dict[str, Any])
        policy = _policy_of(requested_change(body, vm_shown(vm, self._engine.state), VM, AskedOwned))
        if policy is not None:
            await set_policy(self._engine, request, ALONE + vm.name, policy)
        state = self._engine.state
        return json_response(vm_shown(state.fleet.vms.get(vm.name, vm), state))

    async def change_set(self, request: Request) -> Response:
        """Of an availability set that is there."""
        group, body = self._group(request, GroupKind.AVAILABILITY_SET), await read(request, dict[str, Any])
        policy = _policy_of(requested_change(body, set_shown(group, [], self._site), AVAILABILITY_SET, AskedOwned))
        if policy is not None:
            await set_policy(self._engine, request, group.key, policy)
        return EncodedResponse(await self._engine.look(lambda state: set_with_vms(group, state)))


def _policy_of(wanted: AskedOwned) -> EventsPolicy | None:
    policy = None if wanted.properties is None else wanted.properties.scheduled_events_policy
    return None if policy is None else policy_of(policy)
