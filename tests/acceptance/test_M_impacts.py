"""Section M, health of hosts: VMs report it, operators see it, and who has reported is told what happened to it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from duenotice.domain.rules.hosts import MOST_OF_ONE_VM
from tests.support.azure import SUBSCRIPTION, Azure
from tests.support.cli import duenotice
from tests.support.node import Answer, Node

FLEET = """
[site]
resource_group = "Demo"
[[hosts]]
name = "HOST-1"
[[hosts]]
name = "host-2"
[[vms]]
name = "gpu-0"
address = "127.0.1.10"
host = "HOST-1"
[[vms]]
name = "gpu-1"
address = "127.0.1.11"
host = "HOST-1"
[[vms]]
name = "adrift"
address = "127.0.1.12"
[[scale_sets]]
name = "batch"
capacity = 2
addresses = "127.0.8.0/24"
"""
ALL = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Impact/workloadImpacts"
VM = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/Demo/providers/Microsoft.Compute/virtualMachines"
VERSION = "?api-version=2025-01-01-preview"
IB = "Resource.Hpc.Unhealthy.MissingIB"


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(FLEET, azure_listen="127.0.0.1:0") as running:
        running.enable("gpu-0", "gpu-1")
        yield running


@pytest.fixture
def azure(node: Node) -> Iterator[Azure]:
    with Azure(node) as clients:
        clients.signed_in_as = clients.access()
        yield clients


@pytest.fixture(scope="module")
def still() -> Iterator[tuple[Node, Azure]]:
    """One node for all tests that change nothing."""
    with Node(FLEET, azure_listen="127.0.0.1:0") as running, Azure(running) as clients:
        clients.signed_in_as = clients.access()
        yield running, clients


def impact(vm: str = "gpu-0", category: str = IB, resource: str = "", **more: Any) -> dict[str, Any]:
    """As Microsoft's page about Guest Health Reporting shows it."""
    return {
        "startDateTime": "2025-09-15T01:06:21.3886467Z",
        "impactCategory": category,
        "impactDescription": "IB port is gone",
        "impactedResourceId": resource or f"{VM}/{vm}",
        "additionalProperties": {"LogUrl": "https://logs.example/1", "PhysicalHostName": "HOST-1"},
        **more,
    }


def put(azure: Azure, name: str, properties: dict[str, Any]) -> Answer:
    return azure.ask("PUT", f"{ALL}/{name}{VERSION}", json.dumps({"properties": properties}).encode())


def codes(azure: Azure, name: str) -> list[tuple[str, bool]]:
    """The insights of a report: why each is there, and whether it is the last."""
    told = azure.get(f"{ALL}/{name}/insights{VERSION}")["value"]
    details = [each["properties"]["additionalDetails"] for each in told]
    return [(each["statusCode"], each["terminalInsight"]) for each in details]


def test_M17_a_reported_host_is_suspect_and_operators_see_who_says_what(node: Node, azure: Azure) -> None:
    """In the API, on the command line, in what needs a person, and in the audit trail; no VM is told of anything."""
    made = put(azure, "impact-1", impact())
    assert (made.status, made.json()["properties"]["provisioningState"]) == (201, "Succeeded")
    host = node.operate("/v1/hosts/HOST-1", method="GET")
    assert (host["condition"], host["reported"], node.events("gpu-0")) == ("suspect", [IB], [])
    (report,) = host["reports"]
    assert (report["vm"], report["description"], report["began_at"]) == (
        "gpu-0",
        "IB port is gone",
        "2025-09-15T01:06:21Z",
    )
    assert report["more"] == {"LogUrl": "https://logs.example/1", "PhysicalHostName": "HOST-1"}
    row = next(line for line in duenotice(node, "host", "list").out.splitlines() if line.startswith("HOST-1"))
    assert row.split()[1:] == ["suspect", "2", "0", IB]
    attention = node.operate("/v1/attention", method="GET")
    assert (attention["hosts"]["suspect"], attention["ill_hosts"]) == (1, ["HOST-1"])
    (said,) = node.operate("/v1/audit?action=health-reported", method="GET")
    assert (said["actor"], said["details"]["report"]["category"]) == ("token/admin", IB)


def test_M17_the_same_report_again_changes_nothing(node: Node, azure: Azure) -> None:
    """A client that got no answer sends it again: 200. Another one of that name is refused."""
    put(azure, "impact-1", impact())
    before = node.service.state.position
    assert (put(azure, "IMPACT-1", impact()).status, node.service.state.position) == (200, before)
    assert (put(azure, "impact-1", impact()).status, node.service.state.position) == (200, before)
    assert put(azure, "impact-1", impact(category="Resource.Hpc.Reboot")).json()["error"]["code"] == "Conflict"
    (listed,) = azure.get(ALL + VERSION)["value"]
    assert listed == azure.get(f"{ALL}/Impact-1{VERSION}")
    assert (listed["name"], listed["properties"]["impactedResourceId"]) == ("impact-1", f"{VM}/gpu-0")


def test_M17_insights_tell_what_became_of_it(node: Node, azure: Azure) -> None:
    """Taken, then the host is degraded, then it is taken out of service: that is the last."""
    put(azure, "impact-1", impact())
    assert codes(azure, "impact-1") == [("AcknowledgedUnhealthy", False)]
    node.operate("/v1/hosts/HOST-1/degrade", {"risk": "high"})
    node.operate("/v1/hosts/HOST-1/hold")
    node.operate("/v1/hosts/HOST-1/repair")
    assert codes(azure, "impact-1") == [
        ("AcknowledgedUnhealthy", False),
        ("NodeDegraded", False),
        ("NodeRemovedFromService", True),
    ]
    (_, _, last) = azure.get(f"{ALL}/impact-1/insights{VERSION}")["value"]
    assert azure.get(f"{last['id']}{VERSION}") == last
    assert (last["properties"]["category"], last["properties"]["impact"]["impactId"]) == (
        "MitigationAction",
        f"{ALL}/impact-1",
    )


@pytest.mark.parametrize("category", ["Resource.Hpc.Healthy", "Resource.Hpc.Reset"])
def test_M17_a_vm_takes_back_what_it_has_said(node: Node, azure: Azure, category: str) -> None:
    """The host is healthy again as soon as no other VM suspects it."""
    put(azure, "impact-1", impact())
    put(azure, "impact-2", impact("gpu-1", "Resource.Hpc.Investigate.NVLink"))
    put(azure, "calm-1", impact(category=category))
    assert node.operate("/v1/hosts/HOST-1", method="GET")["reported"] == ["Resource.Hpc.Investigate.NVLink"]
    put(azure, "calm-2", impact("gpu-1", category))
    assert node.operate("/v1/hosts/HOST-1", method="GET")["condition"] == "healthy"
    assert codes(azure, "impact-1") == [("AcknowledgedUnhealthy", False), ("NodeHealthy", True)]


def test_M17_a_setting_lets_an_unhealthy_host_be_degraded() -> None:
    """D03: its VMs are told a day before; what is only to be investigated makes it suspect."""
    with Node(FLEET, azure_listen="127.0.0.1:0", degrade_unhealthy=True) as node, Azure(node) as azure:
        node.enable("gpu-0")
        put(azure, "impact-1", impact(category="Resource.Hpc.Investigate.NVLink"))
        assert (node.operate("/v1/hosts/HOST-1", method="GET")["condition"], node.events("gpu-0")) == ("suspect", [])
        put(azure, "impact-2", impact())
        assert node.operate("/v1/hosts/HOST-1", method="GET")["condition"] == "degraded"
        assert [event["EventType"] for event in node.events("gpu-0")] == ["Redeploy"]
        assert codes(azure, "impact-2") == [("AcknowledgedUnhealthy", False), ("NodeDegraded", False)]


def test_M17_reports_survive_a_restart(tmp_path: Any) -> None:
    """And so does what happened to them."""
    where = {"azure_listen": "127.0.0.1:0", "data_dir": str(tmp_path)}
    with Node(FLEET, **where) as node, Azure(node) as azure:
        put(azure, "impact-1", impact())
        node.operate("/v1/hosts/HOST-1/repair")
    with Node(**where) as node, Azure(node) as azure:
        assert codes(azure, "impact-1") == [("AcknowledgedUnhealthy", False), ("NodeHealthy", True)]


def test_M17_a_vm_is_named_by_its_own_id_or_its_host(node: Node, azure: Azure) -> None:
    """Either of the two properties that Azure asks for; names in any case; a scale set has instances too."""
    place = VM.lower().replace("virtualmachines", "virtualmachinescalesets")
    own = azure.get(f"{VM}/gpu-1{VERSION}")["properties"]["vmId"]
    asked = impact("GPU-1", additionalProperties={"VmUniqueId": own, "Flag": True, "Count": 3, "None": None})
    made = put(azure, "impact-1", asked).json()["properties"]["additionalProperties"]
    assert made == {"VmUniqueId": own, "Flag": "true", "Count": "3"}
    for number, resource in enumerate((f"{place}/batch/virtualMachines/1", f"{place}/batch/1/")):
        more = {"PhysicalHostName": "host-1"}
        assert put(azure, f"impact-1{number}", impact(resource=resource, additionalProperties=more)).status == 201
    vms = [report["vm"] for report in node.operate("/v1/hosts/HOST-1", method="GET")["reports"]]
    assert vms == ["batch_1", "batch_1", "gpu-1"]


def test_M17_a_viewer_reads_and_reports_nothing(node: Node, azure: Azure) -> None:
    """AuthorizationFailed; without a token nothing is read either."""
    put(azure, "impact-1", impact())
    made = node.operate("/v1/tokens", {"name": "looks", "role": "viewer"})
    with Azure(node, made["token"]) as viewer:
        refused = put(viewer, "impact-2", impact("gpu-1"))
        assert (refused.status, refused.json()["error"]["code"]) == (403, "AuthorizationFailed")
        assert viewer.get(f"{ALL}/impact-1{VERSION}")["name"] == "impact-1"
    assert azure.ask("GET", f"{ALL}/impact-1/insights", signed_in=False).status == 401
    assert len(node.service.state.reports) == 1


def test_M17_one_vm_cannot_fill_the_room_of_all(node: Node, azure: Azure) -> None:
    """S24: ten open reports; then it is refused until an operator has looked."""
    answers = [put(azure, f"impact-{number}", impact()).status for number in range(MOST_OF_ONE_VM + 1)]
    assert answers == [201] * MOST_OF_ONE_VM + [409]
    assert put(azure, "impact-x", impact("gpu-1")).status == 201
    node.operate("/v1/hosts/HOST-1/repair")
    assert put(azure, "impact-y", impact()).status == 201


NOBODY = {"PhysicalHostName": "host-9"}


@pytest.mark.parametrize(
    ("name", "properties", "target"),
    [
        ("x", impact(), "workloadImpactName"),
        ("-impact", impact(), "workloadImpactName"),
        ("impact%0A1", impact(), "workloadImpactName"),
        ("i" * 121, impact(), "workloadImpactName"),
        ("impact", impact(category="Resource.Performance"), "impactCategory"),
        ("impact", impact(category="Resource.Hpc.Unhealthy"), "impactCategory"),
        ("impact", impact(category="Resource.Hpc.Unhealthy.a b"), "impactCategory"),
        ("impact", impact("nobody"), "impactedResourceId"),
        ("impact", impact("batch_1"), "impactedResourceId"),
        ("impact", impact(resource="gpu-0"), "impactedResourceId"),
        ("impact", impact(resource=f"{VM}/gpu-0".replace("Demo", "other")), "impactedResourceId"),
        ("impact", impact(resource=f"{VM}/gpu-0".replace(SUBSCRIPTION, "other")), "impactedResourceId"),
        ("impact", impact(additionalProperties=NOBODY), "PhysicalHostName"),
        ("impact", impact(additionalProperties={"VmUniqueId": SUBSCRIPTION}), "VmUniqueId"),
        ("impact", impact(additionalProperties={}), "additionalProperties"),
        ("impact", impact(additionalProperties={"a": {}}), "properties.additionalProperties[...]"),
        ("impact", impact(startDateTime="yesterday"), "properties.startDateTime"),
        ("impact", impact(startDateTime="2025-09-15T01:06:21"), "properties.startDateTime"),
        ("impact", impact(impactDescription=""), "properties.impactDescription"),
        ("impact", impact(confidenceLevel="High"), "properties"),
    ],
)
def test_M17_what_is_wrong_with_a_report_is_said_and_changes_nothing(
    still: tuple[Node, Azure], name: str, properties: dict[str, Any], target: str
) -> None:
    """InvalidParameter in Azure's shape, which names the place."""
    node, azure = still
    before = node.service.state.position
    answer = put(azure, name, properties)
    error = answer.json()["error"]
    assert (answer.status, error["code"], error["target"]) == (400, "InvalidParameter", target), error
    assert node.service.state.position == before


@pytest.mark.parametrize("target", ["/nobody", "/nobody/insights", "/nobody/insights/insight0000"])
def test_M17_what_is_not_there_is_not_found(still: tuple[Node, Azure], target: str) -> None:
    """ResourceNotFound."""
    answer = still[1].ask("GET", f"{ALL}{target}{VERSION}")
    assert (answer.status, answer.json()["error"]["code"]) == (404, "ResourceNotFound")
