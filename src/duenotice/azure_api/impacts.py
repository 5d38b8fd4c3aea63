"""Microsoft.Impact: VMs report how their host is, and are told what happened to it (M17)."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated
from uuid import UUID, uuid5

import msgspec
from msgspec import Meta, Struct, field
from starlette.requests import Request
from starlette.responses import Response

from duenotice.azure_api.operations import OperatedResource, new_id
from duenotice.azure_api.resource import SUBSCRIPTION, AzureCall, is_instance, vm_in_any_case
from duenotice.azure_api.shape import AzureJson, AzureProblem, EncodedResponse, json_response, page_of, read
from duenotice.bounds import PAGES
from duenotice.domain import commands as c
from duenotice.domain.fleet import HOST_GONE, Condition, HealthReport, Vm, verdict_of
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.wire.azure import id_of_vm
from duenotice.wire.instance import vm_id

_ALL = f"{SUBSCRIPTION}/providers/Microsoft.Impact/workloadImpacts"
_ONE = f"{_ALL}/{{impact}}"
_KIND = "Microsoft.Impact/workloadImpacts"
_NAMESPACE = UUID("6c2a7c52-5a3e-4b6b-9a63-7d9f1f6f0b17")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9:-]{2,118}[A-Za-z0-9]", re.ASCII)
_CATEGORY = re.compile(
    r"Resource\.Hpc\.(?:Healthy|Reset|Reboot|(?:Unhealthy|Investigate)\.[A-Za-z0-9_]{1,64})", re.ASCII
)
_RESOURCE = re.compile(
    r"/subscriptions/(?P<subscription>[^/]+)/resourceGroups/(?P<group>[^/]+)/providers/Microsoft\.Compute/"
    r"(?:virtualMachines/(?P<vm>[^/]+)"
    r"|virtualMachineScaleSets/(?P<set>[^/]+)/(?:virtualMachines/)?(?P<instance>[^/]+))/?",
    re.IGNORECASE,
)
_HOST, _VM_ID = "PhysicalHostName", "VmUniqueId"

Text = Annotated[str, Meta(min_length=1, max_length=1000)]
Property = Annotated[str, Meta(max_length=500)] | bool | int | float | None


class ImpactAsked(AzureJson, frozen=True, forbid_unknown_fields=True):
    """What is reported; what Azure knows beside it is refused by name (M16)."""

    start_date_time: Annotated[datetime, Meta(tz=True)]
    impact_category: Text
    impact_description: Text
    impacted_resource_id: Text
    end_date_time: None = None
    additional_properties: dict[str, Property] = field(default_factory=dict)


class Reporting(AzureJson, frozen=True, forbid_unknown_fields=True):
    """The body of a report."""

    properties: ImpactAsked
    id: str | None = None
    name: str | None = None
    type: str | None = None


class ImpactProperties(AzureJson, frozen=True):
    """What was reported, and when."""

    start_date_time: datetime
    impacted_resource_id: str
    impact_unique_id: str
    reported_time_utc: datetime
    impact_category: str
    impact_description: str
    additional_properties: Mapping[str, str]
    provisioning_state: str = "Succeeded"


class ImpactShown(AzureJson, frozen=True):
    """A report as clients read it."""

    id: str
    name: str
    properties: ImpactProperties
    type: str = _KIND


class InsightDetails(AzureJson, frozen=True):
    """What programs read: why there is this insight, and whether it is the last."""

    status_code: str
    terminal_insight: bool


class InsightContent(AzureJson, frozen=True):
    """What people read."""

    title: str
    description: str


class InsightImpact(AzureJson, frozen=True):
    """The report that it belongs to."""

    impact_id: str
    impacted_resource_id: str
    start_time: datetime


class InsightProperties(AzureJson, frozen=True):
    """What happened to the host, and when."""

    additional_details: InsightDetails
    content: InsightContent
    event_time: datetime
    impact: InsightImpact
    insight_unique_id: str
    status: str
    category: str = "MitigationAction"
    provisioning_state: str = "Succeeded"


class Insight(AzureJson, frozen=True):
    """One thing that happened after a report."""

    id: str
    name: str
    properties: InsightProperties
    type: str = "microsoft.impact/workloadimpacts/insights"


class _Outcome(Struct, frozen=True):
    """What a condition of the host is to who has reported it."""

    code: str
    title: str
    is_last: bool = False


_OUTCOMES = {
    Condition.DEGRADED.value: _Outcome("NodeDegraded", "The VMs of the host are told to move."),
    Condition.DRAINED.value: _Outcome("NodeRemovedFromService", "The host is taken out of service.", is_last=True),
    Condition.FAILED.value: _Outcome("NodeRemovedFromService", "The host has failed.", is_last=True),
    Condition.HEALTHY.value: _Outcome("NodeHealthy", "The host is healthy.", is_last=True),
    HOST_GONE: _Outcome("NodeRemovedFromService", "The host has left the fleet.", is_last=True),
}


class Impacts(OperatedResource):
    """What VMs say of their hosts. To report needs an operator's token: it changes where VMs may go."""

    def calls(self) -> list[AzureCall]:
        """The rows of the table."""
        viewer, operator = Role.VIEWER, Role.OPERATOR
        return [
            AzureCall("PUT", _ONE, operator, self.report),
            AzureCall("GET", _ONE, viewer, self.show),
            AzureCall("GET", _ALL, viewer, self.index, PAGES),
            AzureCall("GET", f"{_ONE}/insights", viewer, self.insights),
            AzureCall("GET", f"{_ONE}/insights/{{insight}}", viewer, self.insight),
        ]

    async def report(self, request: Request) -> Response:
        """The host of a VM becomes suspect; the same report again changes nothing."""
        name, asked = request.path_params["impact"], (await read(request, Reporting)).properties
        if not _NAME.fullmatch(name):
            raise _wrong(
                "workloadImpactName", f"{name[:80]!r} is not a name.", "Use 4 to 120 letters, digits, - and :."
            )
        if not _CATEGORY.fullmatch(asked.impact_category):
            hint = "Use Resource.Hpc.Healthy, Reset, Reboot, Unhealthy.WHAT or Investigate.WHAT."
            raise _wrong("impactCategory", f"{asked.impact_category[:80]!r} is not a category here.", hint)
        vm = await self._impacted(asked.impacted_resource_id)
        said = {key: value for key, value in asked.additional_properties.items() if value is not None}
        host = self._host_named(said)
        if said.get(_VM_ID, vm_id(vm)) != vm_id(vm):
            raise _wrong(_VM_ID, f"It is not that of {vm.name}.", "instance metadata has it: compute/vmId.")
        if host is None and _VM_ID not in said:
            raise _wrong("additionalProperties", f"Neither {_HOST} nor {_VM_ID} is given.", "Give one, as Azure asks.")
        more = tuple((key, value if isinstance(value, str) else _plain(value)) for key, value in said.items())
        is_new = name.lower() not in self._engine.state.reports
        command = c.ReportHealth(
            name, vm.name, asked.impact_category, asked.impact_description, asked.start_date_time, new_id(), host, more
        )
        await self._do(request, command)
        return json_response(self._report_json(self._found(name), self._engine.state), 201 if is_new else 200)

    async def show(self, request: Request) -> Response:
        """One report."""
        return json_response(self._report_json(self._found(request.path_params["impact"]), self._engine.state))

    async def index(self, request: Request) -> Response:
        """A page of reports by name."""

        def look(state: State) -> bytes:
            return page_of(request, sorted(state.reports), lambda key: self._report_json(state.reports[key], state))

        return EncodedResponse(await self._engine.look(look))

    async def insights(self, request: Request) -> Response:
        """What happened after a report, step by step."""
        return json_response({"value": self._insights(self._found(request.path_params["impact"]))})

    async def insight(self, request: Request) -> Response:
        """One step."""
        name = request.path_params["insight"].lower()
        for insight in self._insights(self._found(request.path_params["impact"])):
            if insight.name == name:
                return json_response(insight)
        raise AzureProblem.of(404, "ResourceNotFound", f"There is no insight {name[:80]!r}.")

    def _found(self, name: str) -> HealthReport:
        report = self._engine.state.reports.get(name.lower())
        if report is None:
            raise AzureProblem.of(404, "ResourceNotFound", f"There is no impact {name[:80]!r}, or not any more.")
        return report

    async def _impacted(self, resource: str) -> Vm:
        found, site = _RESOURCE.fullmatch(resource), self._site
        if found is not None:
            here = (site.subscription_id.lower(), site.resource_group.lower())
            wanted = found["vm"] or f"{found['set']}_{found['instance']}"
            exact = self._engine.state.fleet.vms.get(wanted)
            vm = exact or await self._engine.look(lambda state: vm_in_any_case(state, wanted))
            is_there = vm is not None and is_instance(vm) == (found["vm"] is None)
            if is_there and vm is not None and (found["subscription"].lower(), found["group"].lower()) == here:
                return vm
        hint = "Use the id of a VM of this fleet, as GET shows it."
        raise _wrong("impactedResourceId", f"{resource[:200]!r} is not a VM of this fleet.", hint)

    def _host_named(self, said: Mapping[str, Property]) -> str | None:
        if _HOST not in said:
            return None
        hosts, name = self._engine.state.fleet.hosts, str(said[_HOST])
        for host in (name, *(host for host in hosts if host.lower() == name.lower())):
            if host in hosts:
                return host
        raise _wrong(_HOST, f"There is no host {name[:80]!r}.", "Use its name in the fleet file.")

    def _id_of(self, report: HealthReport) -> str:
        return f"/subscriptions/{self._site.subscription_id}/providers/{_KIND}/{report.name}"

    def _report_json(self, report: HealthReport, state: State) -> ImpactShown:
        return ImpactShown(
            self._id_of(report),
            report.name,
            ImpactProperties(
                report.began,
                _resource_of(report, state),
                str(uuid5(_NAMESPACE, report.key)),
                report.at,
                report.category,
                report.description,
                dict(report.more),
            ),
        )

    def _insights(self, report: HealthReport) -> list[Insight]:
        verdict = verdict_of(report.category)
        first = _Outcome(f"Acknowledged{verdict.value}", f"The report on {report.host} is taken.")
        steps = [(first, report.at), *((_OUTCOMES[condition], at) for condition, at in report.steps)]
        return [self._insight(report, number, *step) for number, step in enumerate(steps)]

    def _insight(self, report: HealthReport, number: int, outcome: _Outcome, at: datetime) -> Insight:
        name, place = f"insight{number:04}", self._id_of(report)
        return Insight(
            f"{place}/insights/{name}",
            name,
            InsightProperties(
                InsightDetails(outcome.code, outcome.is_last),
                InsightContent(outcome.title, f"Host {report.host}, reported by {report.vm}: {outcome.title}"),
                at,
                InsightImpact(place, _resource_of(report, self._engine.state), report.began),
                str(uuid5(_NAMESPACE, f"{report.key}/{number}")),
                "Resolved" if outcome.is_last else "InProgress",
            ),
        )


def _resource_of(report: HealthReport, state: State) -> str:
    """The VM; one that has left the fleet was somewhere in it."""
    vm = state.fleet.vms.get(report.vm) or Vm(report.vm, "")
    return id_of_vm(vm, state.fleet.groups.get(vm.group) if vm.group else None, state.fleet.site)


def _plain(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _wrong(target: str, message: str, hint: str) -> AzureProblem:
    return AzureProblem.of(400, "InvalidParameter", message, hint=hint, target=target)
