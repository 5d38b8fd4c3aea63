"""The routes of sets, scale sets and cloud services: look at them, scale a scale set, delete instances of it."""

from collections import Counter
from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.fleet import LARGEST_SCALE_SET
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine, Records
from duenotice.errors import Listing, NotFound, Refused
from duenotice.operator_api.answering import Answer, done, events_in
from duenotice.operator_api.bodies import decoded, new_id
from duenotice.operator_api.looking import looked
from duenotice.operator_api.pages import paging_of
from duenotice.operator_api.table import Call
from duenotice.wire import operator_json
from duenotice.wire import operator_shapes as shapes


class ScaleRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body that gives a scale set another capacity: how many instances, or how many more or less."""

    capacity: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": LARGEST_SCALE_SET})] | None = None
    by: int | None = None


class DeleteRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body that names instances to delete."""

    instances: Annotated[tuple[str, ...], msgspec.Meta(extra_json_schema={"minItems": 1, "uniqueItems": True})]


class Groups:
    """Translates between JSON and commands about groups."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def calls(self) -> list[Call]:
        """The rows of the table."""
        viewer, operator, paging = Role.VIEWER, Role.OPERATOR, ("limit", "cursor")
        one, scaled = "/v1/scale-sets/{name}", {201: shapes.Scaled, 200: shapes.Scaled}
        all_, group = {200: shapes.Page[shapes.Group]}, {200: shapes.Group}
        return [
            Call("GET", "/v1/groups", viewer, self.index, "List sets, scale sets, cloud services", None, paging, all_),
            Call("GET", "/v1/groups/{kind}/{name}", viewer, self.show, "Show a group", answers=group),
            Call("POST", f"{one}/scale", operator, self.scale, "Scale out or in", ScaleRequest, answers=scaled),
            Call(
                "POST", f"{one}/delete-instances", operator, self.delete, "Delete instances", DeleteRequest, (), scaled
            ),
        ]

    async def index(self, request: Request) -> Response:
        """A page of groups by key, with how many VMs each has."""
        paging = paging_of(request)

        def look(state: State) -> dict[str, object]:
            sizes = Counter(vm.group for vm in state.fleet.vms.values())
            return paging.page(
                state.fleet.groups.values(),
                lambda group: group.key,
                lambda group: operator_json.group_to_json(group, sizes[group.key]),
            )

        return await looked(self._engine, look)

    async def show(self, request: Request) -> Response:
        """One group."""
        key = "{kind}/{name}".format(**request.path_params)
        group = self._engine.state.fleet.groups.get(key)
        if group is None:
            raise NotFound(f"There is no group {key!r}.", look_at=Listing.GROUPS)

        def look(state: State) -> shapes.Group:
            return operator_json.group_to_json(group, sum(vm.group == key for vm in state.fleet.vms.values()))

        return await looked(self._engine, look)

    async def scale(self, request: Request) -> Response:
        """Set the capacity; the answer says which instances were added and removed."""
        asked = await decoded(request, ScaleRequest)
        if (asked.capacity is None) == (asked.by is None):
            raise Refused("Either a capacity is needed or a number to scale by.", hint="Give one of them.")
        name = request.path_params["name"]
        command = c.ScaleSet(name, new_id(), asked.capacity, asked.by or 0)
        return await done(self._engine, request, command, _scaled)

    async def delete(self, request: Request) -> Response:
        """Delete all of them; if one does not exist, delete none."""
        asked = await decoded(request, DeleteRequest)
        command = c.DeleteInstances(request.path_params["name"], asked.instances, new_id())
        return await done(self._engine, request, command, _scaled)


def _scaled(_: State, records: Records) -> Answer:
    changes = [record.transition for record in records]
    body: shapes.Scaled = {
        "events": events_in(records),
        "added": [vm.name for change in changes if isinstance(change, t.VmsPut) for vm in change.vms],
        "removed": [name for change in changes if isinstance(change, t.VmsRemoved) for name in change.names],
    }
    return Answer(body, 201 if body["events"] or body["added"] else 200)
