"""The routes of hosts: list, drain, degrade, fail, repair."""

from collections import Counter
from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from duenotice.clock import micros
from duenotice.domain import commands as c
from duenotice.domain.event import Cause, EventType
from duenotice.domain.fleet import Host
from duenotice.domain.notice import LONGEST_PREDICTION_SECONDS
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.errors import Listing, Malformed, NotFound, Refused
from duenotice.operator_api.answering import RAISED, raised
from duenotice.operator_api.bodies import decoded, new_id
from duenotice.operator_api.looking import looked
from duenotice.operator_api.maintenances import begun
from duenotice.operator_api.pages import paging_of
from duenotice.operator_api.table import Call
from duenotice.wire import operator_json
from duenotice.wire import operator_shapes as shapes
from duenotice.wire.duration import parse_duration

_RISKS = {"low": float(LONGEST_PREDICTION_SECONDS), "high": 86_400.0}
"""How long before a predicted failure its VMs are told (D03)."""


class DegradeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a prediction: a risk, or the notice itself."""

    risk: Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(_RISKS)})] | None = None
    notice: operator_json.Span | None = None


class DrainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request to empty a host."""

    settle: operator_json.Span = "0s"
    at_once: operator_json.Asked = 0


class Hosts:
    """Translates between JSON and the commands of hosts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def calls(self) -> list[Call]:
        """The rows of the table."""
        viewer, operator, one = Role.VIEWER, Role.OPERATOR, "/v1/hosts/{name}"
        page_, plan = {200: shapes.Page[shapes.Host]}, {201: shapes.Maintenance}
        return [
            Call("GET", "/v1/hosts", viewer, self.index, "List hosts", query=("limit", "cursor"), answers=page_),
            Call("GET", one, viewer, self.show, "Show a host", answers={200: shapes.Host}),
            Call(
                "POST", f"{one}/drain", operator, self.drain, "Move all VMs of a host away", DrainRequest, answers=plan
            ),
            Call(
                "POST",
                f"{one}/degrade",
                operator,
                self.degrade,
                "Predict a host's failure",
                DegradeRequest,
                answers=RAISED,
            ),
            Call("POST", f"{one}/fail", operator, self.fail, "A host has failed", answers=RAISED),
            Call("POST", f"{one}/repair", operator, self.repair, "A host is healthy again", answers=RAISED),
        ]

    async def index(self, request: Request) -> Response:
        """A page of hosts by name, with their condition and how many VMs run there."""
        paging = paging_of(request)

        def look(state: State) -> dict[str, object]:
            running = Counter(vm.host for vm in state.fleet.vms.values())
            return paging.page(
                state.fleet.hosts.values(),
                lambda host: host.name,
                lambda host: operator_json.host_to_json(host, running[host.name]),
            )

        return await looked(self._engine, look)

    async def show(self, request: Request) -> Response:
        """One host."""
        host = self._find(request)
        return await looked(
            self._engine, lambda state: operator_json.host_to_json(host, len(state.fleet.on_host(host.name)))
        )

    async def drain(self, request: Request) -> Response:
        """A maintenance of live migrations over all VMs of a host."""
        name, asked = self._find(request).name, await decoded(request, DrainRequest)
        vms = await self._engine.look(lambda state: operator_json.select((f"host={name}",), state.fleet.vms.values()))
        command = c.StartMaintenance(
            maintenance_id=new_id(),
            type=EventType.FREEZE,
            vms=vms,
            cause=Cause.LIVE_MIGRATION,
            settle=micros(parse_duration(asked.settle)),
            at_once=asked.at_once,
        )
        return await begun(self._engine, request, command)

    async def degrade(self, request: Request) -> Response:
        """Its VMs are to move away before it fails."""
        asked = await decoded(request, DegradeRequest)
        risk = (asked.risk or "low").lower()
        if risk not in _RISKS:
            raise Malformed(f"{risk[:40]!r} is not a risk.", hint=f"Use one of {', '.join(_RISKS)}.")
        if asked.risk is not None and asked.notice is not None:
            raise Refused("Both a risk and a notice are given.", hint="Give one of them.")
        notice = _RISKS[risk] if asked.notice is None else parse_duration(asked.notice)
        command = c.DegradeHost(request.path_params["name"], micros(notice), new_id())
        return await raised(self._engine, request, command)

    async def fail(self, request: Request) -> Response:
        """Its VMs are hit already."""
        return await raised(self._engine, request, c.FailHost(request.path_params["name"], new_id()))

    async def repair(self, request: Request) -> Response:
        """What its degradation had scheduled is cancelled."""
        return await raised(self._engine, request, c.RepairHost(request.path_params["name"]))

    def _find(self, request: Request) -> Host:
        host = self._engine.state.fleet.hosts.get(name := request.path_params["name"])
        if host is None:
            raise NotFound(f"There is no host named {name!r}.", look_at=Listing.HOSTS)
        return host
