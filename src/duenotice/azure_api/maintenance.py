"""Microsoft.Maintenance: approve events, see what is pending for a VM, have it now (M10, M11)."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from msgspec import UNSET, UnsetType, structs
from starlette.requests import Request
from starlette.responses import Response

from duenotice.azure_api.operations import OperatedResource
from duenotice.azure_api.resource import COMPUTE, AzureCall
from duenotice.azure_api.shape import AzureJson, AzureProblem, EncodedResponse, json_response, page_of, read
from duenotice.bounds import PAGES
from duenotice.domain import commands as c
from duenotice.domain.event import Event, EventType, Phase, Source
from duenotice.domain.fleet import GroupKind, Vm
from duenotice.domain.rules.lifecycle import unknown
from duenotice.domain.token import Role
from duenotice.wire.azure import id_of_vm
from duenotice.wire.documents import canonical_id

_PROVIDER = "providers/Microsoft.Maintenance"
_VM = f"{COMPUTE}/virtualMachines/{{name}}/{_PROVIDER}"
_INSTANCE = f"{COMPUTE}/virtualMachineScaleSets/{{name}}/virtualMachines/{{instance}}/{_PROVIDER}"
_GROUPS = {"virtualMachineScaleSets": GroupKind.SCALE_SET, "availabilitySets": GroupKind.AVAILABILITY_SET}
_IMPACTS = {EventType.FREEZE: "Freeze", EventType.REBOOT: "Restart", EventType.REDEPLOY: "Redeploy"}
MOST_IDS = 1000
_APPROVED = {"value": "Successfully Approved"}

Approver = Callable[[Request], Awaitable[c.ApproveEvents]]
"""Who approves with a request: the command without its events."""


class EventIds(AzureJson, frozen=True, forbid_unknown_fields=True):
    """The events that a client acknowledges at once, each by itself."""

    value: tuple[str, ...]


class MultiStatus(AzureJson, frozen=True):
    """What is true of all of them together."""

    code: str
    message: str


class EventStatus(AzureJson, frozen=True):
    """What became of one of them; `target` is its id as the client wrote it."""

    code: str
    message: str
    target: str


class Acknowledged(AzureJson, frozen=True):
    """The answer when they did not all end alike, in the order asked; Azure PowerShell reads this shape (M10)."""

    response: MultiStatus
    details: tuple[EventStatus, ...]


_MANY = MultiStatus("MultiStatusResponse", "Not every event could be approved: see details.")


class UpdatePlace(AzureJson, frozen=True):
    """The VM that it is for."""

    resource_id: str


class PendingUpdate(AzureJson, frozen=True):
    """One event of the platform, as an update that waits."""

    maintenance_scope: str
    impact_type: str
    status: str
    not_before: datetime
    properties: UpdatePlace
    impact_duration_in_sec: int | UnsetType = UNSET


class AppliedProperties(AzureJson, frozen=True):
    """How far it is."""

    status: str
    resource_id: str
    last_update_time: datetime | UnsetType = UNSET


class AppliedUpdate(AzureJson, frozen=True):
    """The result of the wish to have an update now."""

    id: str
    name: str
    type: str
    properties: AppliedProperties


class MaintenanceCalls(OperatedResource):
    """What the owners of VMs do about events without being inside a VM."""

    def calls(self) -> list[AzureCall]:
        """The rows of the table."""
        viewer, operator, rows = Role.VIEWER, Role.OPERATOR, list[AzureCall]()
        for place in (_VM, _INSTANCE):
            rows += [
                AzureCall("GET", f"{place}/updates", viewer, self.updates, PAGES),
                AzureCall("GET", f"{place}/applyUpdates/{{update}}", viewer, self.applied),
                AzureCall("PUT", f"{place}/applyUpdates/{{update}}", operator, self.apply),
                *self._acknowledging(place, self._by_vm),
            ]
        for kind in _GROUPS:
            rows += self._acknowledging(f"{COMPUTE}/{kind}/{{name}}/{_PROVIDER}", self._by_group(_GROUPS[kind]))
        return rows

    def _acknowledging(self, place: str, approver: Approver) -> list[AzureCall]:
        """One event, or a list of them (C02-C05); `approver` says on behalf of which VM or set."""

        async def one(request: Request) -> Response:
            who, event_id = await approver(request), canonical_id(request.path_params["event"])
            await self._do(request, structs.replace(who, event_ids=(event_id,)))
            return json_response(_APPROVED)

        async def many(request: Request) -> Response:
            who, asked = await approver(request), await read(request, EventIds)
            if not 1 <= len(asked.value) <= MOST_IDS:
                raise AzureProblem.of(400, "InvalidParameter", f"Name 1 to {MOST_IDS} events.", target="value")
            command = structs.replace(who, event_ids=tuple(map(canonical_id, asked.value)), each=True)
            await self._do(request, command)
            engine = self._engine
            left_out = frozenset(unknown(engine.state, command, engine.clock.now(), engine.policy))
            if not left_out:
                return json_response(_APPROVED)
            each = zip(asked.value, command.event_ids, strict=True)
            return json_response(Acknowledged(_MANY, tuple(_status(name, one in left_out) for name, one in each)), 207)

        return [
            AzureCall("POST", f"{place}/scheduledevents/{{event}}/acknowledge", Role.OPERATOR, one),
            AzureCall("POST", f"{place}/scheduledevents", Role.OPERATOR, many),
        ]

    async def _by_vm(self, request: Request) -> c.ApproveEvents:
        """As if this VM did it."""
        return c.ApproveEvents((), (await self._vm_or_instance(request)).name)

    def _by_group(self, kind: GroupKind) -> Approver:
        async def approver(request: Request) -> c.ApproveEvents:
            return c.ApproveEvents((), group=self._group(request, kind).key)

        return approver

    async def updates(self, request: Request) -> Response:
        """What the platform has planned for a VM."""
        vm = await self._vm_or_instance(request)
        pending, place = {event.id: event for event in self._pending(vm)}, self._id_of(vm)

        def look() -> bytes:
            return page_of(request, sorted(pending), lambda event_id: _update(pending[event_id], place))

        return EncodedResponse(await self._engine.aside(look))

    async def apply(self, request: Request) -> Response:
        """Approve all that is planned."""
        vm, name = await self._vm_or_instance(request), request.path_params["update"]
        if name.lower() != "default":
            raise AzureProblem.of(404, "NotFound", f"There is no update {name[:80]!r}.", hint="Use default.")
        if asked := await read(request, dict[str, Any]):
            first = next(iter(asked))[:80]
            message = f"{first} cannot be said here: the updates that wait are applied, and none is cancelled."
            raise AzureProblem.of(400, "InvalidParameter", message, hint="Send no body.", target=first)
        if ids := tuple(event.id for event in self._pending(vm) if event.phase is Phase.SCHEDULED):
            await self._do(request, c.ApproveEvents(ids, vm.name))
        return json_response(self._applied(vm), 201 if ids else 200)

    async def applied(self, request: Request) -> Response:
        """How far it is."""
        return json_response(self._applied(await self._vm_or_instance(request)))

    def _applied(self, vm: Vm) -> AppliedUpdate:
        pending, place = self._pending(vm), self._id_of(vm)
        waits = any(not event.approved_by and event.phase is Phase.SCHEDULED for event in pending)
        status = "Pending" if waits else "InProgress" if pending else "NoUpdatesPending"
        moment = max((event.started_at for event in pending if event.started_at), default=UNSET)
        return AppliedUpdate(
            f"{place}/{_PROVIDER}/applyUpdates/default",
            "default",
            "Microsoft.Maintenance/applyUpdates",
            AppliedProperties(status, place, moment),
        )

    def _pending(self, vm: Vm) -> list[Event]:
        events = self._engine.state.events_of(vm)
        return [event for event in events if event.source is Source.PLATFORM and event.type in _IMPACTS]

    def _id_of(self, vm: Vm) -> str:
        fleet = self._engine.state.fleet
        return id_of_vm(vm, fleet.groups.get(vm.group) if vm.group else None, fleet.site)

    async def _vm_or_instance(self, request: Request) -> Vm:
        return self._instance(request) if "instance" in request.path_params else await self._vm(request)


def _status(name: str, is_unknown: bool) -> EventStatus:
    if is_unknown:
        return EventStatus("NotFound", "There is no such event here, or not any more.", name)
    return EventStatus("OK", _APPROVED["value"], name)


def _update(event: Event, place: str) -> PendingUpdate:
    waits = event.phase is Phase.SCHEDULED and not event.approved_by
    return PendingUpdate(
        maintenance_scope="Host",
        impact_type=_IMPACTS[event.type],
        status="Pending" if waits else "InProgress",
        not_before=event.not_before,
        properties=UpdatePlace(place),
        impact_duration_in_sec=UNSET if event.duration < 0 else event.duration,
    )
