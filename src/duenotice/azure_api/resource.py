"""What all calls of the Azure door have: a row for each, paths in upper or lower case, and what a path names (M04)."""

import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from duenotice.azure_api.shape import AzureProblem
from duenotice.bounds import SMALL, CallBounds
from duenotice.domain.fleet import Group, GroupKind, Site, Vm
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.wire.azure import KINDS, VM

Handle = Callable[[Request], Awaitable[Response]]

SUBSCRIPTION = "/subscriptions/{subscription}"
GROUP = f"{SUBSCRIPTION}/resourceGroups/{{group}}"
COMPUTE = f"{GROUP}/providers/Microsoft.Compute"
_SCALE_SET = f"{GroupKind.SCALE_SET.value}/"


class AzureCall(NamedTuple):
    """One method of one path; `role` None is anybody."""

    method: str
    path: str
    role: Role | None
    handler: Handle
    bounds: CallBounds = SMALL


class AnyCase(Route):
    """A route that matches in upper or lower case, with or without a slash at the end."""

    def __init__(self, path: str, endpoint: Handle, methods: list[str]) -> None:
        super().__init__(path, endpoint, methods=methods)
        pattern = self.path_regex.pattern.removesuffix("$") + "/?$"
        self.path_regex = re.compile(pattern, re.IGNORECASE)


class AzureResource:
    """What all resources of this door have: an engine to ask, and how a path names things."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def _site(self) -> Site:
        return self._engine.state.fleet.site

    def check_place(self, request: Request) -> None:
        """Refuse another subscription or resource group than the one that there is."""
        site, path = self._site, request.path_params
        subscription, group = path.get("subscription"), path.get("group")
        if subscription is not None and subscription.lower() != site.subscription_id.lower():
            raise AzureProblem.of(
                404,
                "SubscriptionNotFound",
                f"The subscription '{subscription[:80]}' could not be found.",
                hint=f"This fleet has {site.subscription_id}.",
            )
        if group is not None and group.lower() != site.resource_group.lower():
            raise AzureProblem.of(
                404,
                "ResourceGroupNotFound",
                f"Resource group '{group[:90]}' could not be found.",
                hint=f"This fleet has {site.resource_group!r}.",
            )

    async def _vm(self, request: Request) -> Vm:
        """The VM that a path names; instances of scale sets have paths of their own."""
        name, state = request.path_params["name"], self._engine.state
        vm = state.fleet.vms.get(name) or await self._engine.look(lambda state: vm_in_any_case(state, name))
        if vm is None or is_instance(vm):
            raise self._not_there(VM, name)
        return vm

    def _group(self, request: Request, kind: GroupKind) -> Group:
        """The group of a kind that a path names."""
        name, groups = request.path_params["name"], self._engine.state.fleet.groups
        found = groups.get(f"{kind.value}/{name}") or next(
            (group for group in groups.values() if group.kind is kind and group.name.lower() == name.lower()), None
        )
        if found is None:
            raise self._not_there(KINDS[kind], name)
        return found

    def _instance(self, request: Request) -> Vm:
        """The instance of a scale set that a path names."""
        group, number = self._group(request, GroupKind.SCALE_SET), request.path_params["instance"]
        vm = self._engine.state.fleet.vms.get(f"{group.name}_{number}")
        if vm is None or vm.group != group.key:
            raise self._not_there(f"{KINDS[group.kind]}/{group.name}/virtualMachines", number)
        return vm

    def _not_there(self, kind: str, name: str) -> AzureProblem:
        group = self._site.resource_group
        message = f"The Resource '{kind}/{name[:80]}' under resource group '{group}' was not found."
        return AzureProblem.of(404, "ResourceNotFound", message)


def vm_in_any_case(state: State, name: str) -> Vm | None:
    """A VM by name in upper or lower case: a look at all of them."""
    wanted = name.lower()
    return next((vm for vm in state.fleet.vms.values() if vm.name.lower() == wanted), None)


def is_instance(vm: Vm) -> bool:
    """Whether it is an instance of a scale set."""
    return vm.group is not None and vm.group.startswith(_SCALE_SET)


def actor_of(request: Request) -> str:
    """Who asks, as the journal remembers it; the gate has written it down."""
    return str(request.state.actor)
