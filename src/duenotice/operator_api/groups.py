"""The calls of sets, scale sets and cloud services: look at them, their policies, scale a scale set, delete from it."""

from collections import Counter

from starlette.requests import Request
from starlette.responses import Response

from duenotice.bounds import NAMES
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.fleet import group_of
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Records
from duenotice.errors import LookAt, Refused
from duenotice.operator_api.answers import Reply, Resource, raised_in
from duenotice.operator_api.calls import Call, Paging, decoded, new_id
from duenotice.toml import missing
from duenotice.wire import operator as o
from duenotice.wire.operator import from_domain, to_domain


class Groups(Resource):
    """The groups of the fleet."""

    def calls(self) -> list[Call]:
        """The rows of the table."""
        viewer, operator, paging = Role.VIEWER, Role.OPERATOR, ("limit", "cursor")
        all_, one, scale_set = "/v1/groups", "/v1/groups/{kind}/{name}", "/v1/scale-sets/{name}"
        page, scaled, delete = {200: o.Page[o.Group]}, {201: o.Scaled, 200: o.Scaled}, f"{scale_set}/delete-instances"
        policy, wishes = "Say which events of a group are approved beforehand", o.PolicyRequest
        return [
            Call("GET", all_, viewer, self.index, "List sets, scale sets, cloud services", page, query=paging),
            Call("GET", one, viewer, self.show, "Show a group", {200: o.Group}),
            Call("PUT", f"{one}/policy", operator, self.put_policy, policy, {200: o.Group}, wishes, refusals=(422,)),
            Call("POST", f"{scale_set}/scale", operator, self.scale, "Scale out or in", scaled, o.ScaleRequest),
            Call("POST", delete, operator, self.delete, "Delete instances", scaled, o.DeleteRequest, bounds=NAMES),
        ]

    async def index(self, request: Request) -> Response:
        """A page of groups by key, with how many VMs each has."""
        paging = Paging.of(request)

        def look(state: State) -> o.Page[o.Group]:
            sizes = Counter(vm.group for vm in state.fleet.vms.values())
            return paging.page(
                state.fleet.groups.values(),
                lambda group: group.key,
                lambda group: from_domain.group(group, sizes[group.key]),
            )

        return await self._looked(look)

    async def show(self, request: Request) -> Response:
        """One group."""
        key = "{kind}/{name}".format(**request.path_params)
        group = self._engine.state.fleet.groups.get(key)
        if group is None:
            raise missing(f"There is no group {key!r}.", key, self._engine.state.fleet.groups, LookAt.GROUPS)

        def look(state: State) -> o.Group:
            return from_domain.group(group, sum(vm.group == key for vm in state.fleet.vms.values()))

        return await self._looked(look)

    async def put_policy(self, request: Request) -> Response:
        """This policy takes the place of what the set has said before (M09)."""
        key, asked = "{kind}/{name}".format(**request.path_params), await decoded(request, o.PolicyRequest)

        def build(state: State, _: Records) -> Reply:
            vms = sum(count for scope, count in state.scope_sizes.items() if group_of(scope) == key)
            return Reply(from_domain.group(state.fleet.groups[key], vms))

        return await self._done(request, c.SetEventsPolicy(key, to_domain.events_policy(asked)), build)

    async def scale(self, request: Request) -> Response:
        """Set the capacity; the answer says which instances were added and removed."""
        asked = await decoded(request, o.ScaleRequest)
        if (asked.capacity is None) == (asked.by is None):
            raise Refused("Either a capacity is needed or a number to scale by.", hint="Give one of them.")
        name = request.path_params["name"]
        command = c.ScaleSet(name, new_id(), asked.capacity, asked.by or 0)
        return await self._done(request, command, _scaled)

    async def delete(self, request: Request) -> Response:
        """Delete all of them; if one does not exist, delete none."""
        asked = await decoded(request, o.DeleteRequest)
        command = c.DeleteInstances(request.path_params["name"], asked.instances, new_id())
        return await self._done(request, command, _scaled)


def _scaled(_: State, records: Records) -> Reply:
    changes, raised = [record.transition for record in records], raised_in(records)
    scaled = o.Scaled(
        events=raised.events,
        left_out=raised.left_out,
        added=tuple(vm.name for change in changes if isinstance(change, t.VmsPut) for vm in change.vms),
        removed=tuple(name for change in changes if isinstance(change, t.VmsRemoved) for name in change.names),
    )
    return Reply(scaled, 201 if scaled.events or scaled.added else 200)
