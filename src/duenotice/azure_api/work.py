"""How this door has something done: it submits a command, and says where to ask for the end of what it raised (M05)."""

from typing import Any
from uuid import UUID, uuid4, uuid5

import msgspec
from msgspec import field
from starlette.requests import Request
from starlette.responses import Response

from duenotice.azure_api.calls import AzureResource, actor_of
from duenotice.azure_api.operations import MOST_NAMED, Operations, name_of, name_of_many
from duenotice.azure_api.shape import AzureJson, AzureProblem, read
from duenotice.domain import commands as c
from duenotice.domain.event import EventType, Phase
from duenotice.domain.fleet import Vm
from duenotice.engine.engine import Engine, Records
from duenotice.errors import Conflict

_NAMESPACE = UUID("5d0f2a1e-8f0c-4b55-9a64-2f5a5b0c8d14")


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


class Working(AzureResource):
    """A resource that can be worked on."""

    def __init__(self, engine: Engine, operations: Operations) -> None:
        super().__init__(engine)
        self._operations = operations

    async def _do(self, request: Request, command: c.Command) -> Records:
        return await self._engine.submit(command, actor_of(request))

    async def _operate(self, request: Request, event_id: str, command: c.Command) -> Response:
        """Do what raises one event, if somebody listens."""
        if event_id in self._engine.state.events:  # the same request again: a client that got no answer
            return self._operations.begun(request, name_of((event_id,)))
        return await self._operate_many(request, event_id, command)

    async def _reimage(self, request: Request, vm: Vm) -> Response:
        """Replace the OS image of one VM; it is told before where its scale set asks for that (M15)."""
        (await read(request, Reimaging)).refuse_unkept()
        event_id = self._id_for(request)
        command = c.OperateVm(event_id, vm.name, EventType.REBOOT, reimage=True)
        return await self._operate(request, event_id, command)

    async def _operate_many(self, request: Request, seed: str, command: c.Command) -> Response:
        """The same for a command that may raise many, with ids that follow from its seed.

        Without an event it is done already (F03). That is a 202 too: `az` cannot read another answer.
        """
        return self._operations.begun(request, name_of_many(seed, await self._do(request, command)))

    async def _approve(self, request: Request, vm: Vm) -> tuple[str, ...]:
        """Approve what waits for a VM; the ids of it."""
        waiting = [
            event
            for event in self._engine.state.events_of(vm)
            if event.phase is Phase.SCHEDULED and not event.is_advice
        ]
        ids = tuple(event.id for event in waiting)[:MOST_NAMED]
        if ids:
            await self._do(request, c.ApproveEvents(ids, vm.name))
        return ids

    async def _delete(self, request: Request, vm: Vm) -> Response:
        """Told before, where that is asked for (G05)."""
        if request.query_params.get("forceDeletion", "").lower() == "true":
            message = "forceDeletion is not supported: a VM that is to be told before is told."
            raise AzureProblem.of(400, "InvalidParameter", message, hint="Leave it out.", target="forceDeletion")
        event_id = self._id_for(request)
        return await self._operate(request, event_id, c.OperateVm(event_id, vm.name, EventType.TERMINATE))

    async def _perform(self, request: Request, vm: Vm) -> Response:
        """Have now what waits for a VM."""
        ids = await self._approve(request, vm)
        if not ids:
            raise Conflict(f"Nothing waits for {vm.name}.", hint="Its instanceView says what is planned.")
        return self._operations.begun(request, name_of(ids))

    def _id_for(self, request: Request) -> str:
        """The id of what a request raises: the same, if a client sends it again while it is under way."""
        asked = request.headers.get("x-ms-client-request-id", "")
        seed = f"{request.state.token.id}\n{request.url.path.lower()}\n{asked}"
        wanted = str(uuid5(_NAMESPACE, seed)).upper()
        return new_id() if not asked or wanted in self._engine.state.ended else wanted


def new_id() -> str:
    """An id for something new, in the form of an EventId (B03)."""
    return str(uuid4()).upper()
