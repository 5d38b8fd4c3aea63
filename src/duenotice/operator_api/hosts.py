"""The calls of hosts: list, drain, bring back, hold, degrade, fail, repair."""

from collections import Counter, defaultdict

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from duenotice.clock import micros
from duenotice.domain import commands as c
from duenotice.domain.event import Cause, EventType
from duenotice.domain.fleet import HealthReport, Host, scope_of
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.errors import Conflict, LookAt, Malformed, Refused
from duenotice.operator_api.answers import RAISED
from duenotice.operator_api.calls import Call, Paging, actor_of, decoded, new_id
from duenotice.operator_api.maintenances import Planning
from duenotice.toml import missing
from duenotice.wire import operator as o
from duenotice.wire.operator import from_domain, to_domain
from duenotice.wire.spans import parse_duration

MOST_REPORTS = 20
"""Reports of VMs that one host shows."""


class Hosts(Planning):
    """The hosts of the fleet."""

    def calls(self) -> list[Call]:
        """The rows of the table."""
        viewer, operator, one, paging = Role.VIEWER, Role.OPERATOR, "/v1/hosts/{name}", ("limit", "cursor")
        page, plan = {200: o.Page[o.Host]}, {201: o.Maintenance}
        came = plan | {200: o.Maintenance}
        drain, degrade = "Move all VMs of a host away", "Predict a host's failure"
        back, leave = "Bring back the VMs that were moved away", "Leave VMs that were moved away where they are"
        return [
            Call("GET", "/v1/hosts", viewer, self.index, "List hosts", page, query=paging),
            Call("GET", one, viewer, self.show, "Show a host", {200: o.Host}),
            Call("POST", f"{one}/drain", operator, self.drain, drain, plan, o.DrainRequest),
            Call("POST", f"{one}/degrade", operator, self.degrade, degrade, RAISED, o.DegradeRequest),
            Call("POST", f"{one}/fail", operator, self.fail, "A host has failed", RAISED),
            Call("POST", f"{one}/hold", operator, self.hold, "Take a host out of service", RAISED),
            Call("POST", f"{one}/return", operator, self.bring_back, back, came, o.ReturnRequest),
            Call("POST", f"{one}/leave", operator, self.leave, leave, RAISED),
            Call("POST", f"{one}/repair", operator, self.repair, "A host is healthy again", RAISED),
        ]

    async def index(self, request: Request) -> Response:
        """A page of hosts by name, with their condition and how many VMs run there."""
        paging = Paging.of(request)

        def look(state: State) -> o.Page[o.Host]:
            running = Counter(vm.host for vm in state.fleet.vms.values())
            listening = Counter(vm.host for vm in state.fleet.vms.values() if state.enabled(scope_of(vm)))
            away = Counter(vm.away_from for vm in state.fleet.vms.values())
            reports = _open_reports(state)
            return paging.page(
                state.fleet.hosts.values(),
                lambda host: host.name,
                lambda host: from_domain.host(
                    host, running[host.name], listening[host.name], away[host.name], reports[host.name], 0
                ),
            )

        return await self._looked(look)

    async def show(self, request: Request) -> Response:
        """One host."""
        host = self._find(request)

        def look(state: State) -> o.Host:
            vms, away = state.fleet.on_host(host.name), len(state.fleet.away(host.name))
            listening, reports = sum(state.enabled(scope_of(vm)) for vm in vms), _open_reports(state)[host.name]
            return from_domain.host(host, len(vms), listening, away, reports, MOST_REPORTS)

        return await self._looked(look)

    async def drain(self, request: Request) -> Response:
        """A maintenance of live migrations over all VMs of a host, or of reboots that end when it returns."""
        name, asked = self._find(request).name, await decoded(request, o.DrainRequest)
        vms = await self._engine.look(lambda state: to_domain.select((f"host={name}",), state.fleet.vms.values()))
        command = _command(asked, EventType.REBOOT if asked.stop else EventType.FREEZE, vms)
        return await self._planned(request, structs.replace(command, title=f"Drain {name}", drains=name))

    async def bring_back(self, request: Request) -> Response:
        """A maintenance that moves VMs back to a host which was drained; while one is under way, that one."""
        name, asked = self._find(request).name, await decoded(request, o.ReturnRequest)
        plans = [progress.plan for progress in self._engine.state.plans.values() if progress.is_open]
        if found := [plan.id for plan in plans if plan.to == name]:
            return await self._looked(lambda state: self._told(state, found[0]))
        vms = await self._engine.look(lambda state: tuple(vm.name for vm in state.fleet.away(name)))
        if not vms:
            raise Conflict(f"No VM is away from {name}.", hint="There is nothing to bring back.")
        command = _command(asked, EventType.REDEPLOY if asked.redeploy else EventType.FREEZE, vms)
        return await self._planned(request, structs.replace(command, title=f"Return {name}", to=name))

    async def _planned(self, request: Request, command: c.StartMaintenance) -> Response:
        return await self._begun(request, structs.replace(command, author=actor_of(request)))

    async def leave(self, request: Request) -> Response:
        """Who was moved away stays where it is."""
        return await self._raised(request, c.LeaveMoved(request.path_params["name"]))

    async def degrade(self, request: Request) -> Response:
        """Its VMs are to move away before it fails."""
        asked = await decoded(request, o.DegradeRequest)
        risk = (asked.risk or "low").lower()
        if risk not in o.RISKS:
            raise Malformed(f"{risk[:40]!r} is not a risk.", hint=f"Use one of {', '.join(o.RISKS)}.")
        if asked.risk is not None and asked.notice is not None:
            raise Refused("Both a risk and a notice are given.", hint="Give one of them.")
        notice = o.RISKS[risk] if asked.notice is None else parse_duration(asked.notice)
        command = c.DegradeHost(request.path_params["name"], micros(notice), new_id())
        return await self._raised(request, command)

    async def fail(self, request: Request) -> Response:
        """Its VMs are hit already."""
        return await self._raised(request, c.FailHost(request.path_params["name"], new_id()))

    async def hold(self, request: Request) -> Response:
        """Nothing moves there until it is repaired."""
        return await self._raised(request, c.HoldHost(request.path_params["name"]))

    async def repair(self, request: Request) -> Response:
        """What its degradation had scheduled is cancelled, and what still drains it."""
        return await self._raised(request, c.RepairHost(request.path_params["name"]))

    def _find(self, request: Request) -> Host:
        host = self._engine.state.fleet.hosts.get(name := request.path_params["name"])
        if host is None:
            raise missing(f"There is no host named {name!r}.", name, self._engine.state.fleet.hosts, LookAt.HOSTS)
        return host


def _open_reports(state: State) -> dict[str, list[HealthReport]]:
    """What VMs have reported of each host, the oldest first."""
    found: dict[str, list[HealthReport]] = defaultdict(list)
    for report in state.reports.values():
        if report.is_open:
            found[report.host].append(report)
    return found


def _command(
    asked: o.DrainRequest | o.ReturnRequest, event_type: EventType, vms: tuple[str, ...]
) -> c.StartMaintenance:
    return c.StartMaintenance(
        maintenance_id=new_id(),
        type=event_type,
        vms=vms,
        cause=Cause.LIVE_MIGRATION if event_type is EventType.FREEZE else Cause.MAINTENANCE,
        settle=micros(parse_duration(asked.settle)),
        at_once=asked.at_once,
    )
