"""What real clients send to the Azure door and are answered, byte by byte: the SDK as it is, others as they were read.

Azure PowerShell does not run here. Its requests are those of its generated client (Az.Maintenance); on 207 it reads
`response` and `details`, and takes the order of `details` for the order of the ids.
"""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from azure.core.exceptions import HttpResponseError
from azure.mgmt.maintenance import MaintenanceManagementClient

from tests.golden.compare import assert_golden
from tests.support.azure import GROUP, SUBSCRIPTION, Azure
from tests.support.node import Node

FLEET = """
[site]
resource_group = "demo"
[[hosts]]
name = "host-1"
[[vms]]
name = "db-0"
address = "127.0.1.10"
host = "host-1"
[[scale_sets]]
name = "batch"
capacity = 2
addresses = "127.0.8.0/24"
"""
MOMENT = re.compile(r'("(?:reportedTimeUtc|eventTime)": ")[^"]+')
NOBODY = "11111111-1111-1111-1111-111111111111"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(FLEET, azure_listen="127.0.0.1:0") as running:
        running.enable("db-0", "batch_0")
        yield running


@pytest.fixture(scope="module")
def azure(node: Node) -> Iterator[Azure]:
    with Azure(node) as clients:
        yield clients


class Story:
    """Exchanges as text; ids of events are numbered."""

    def __init__(self, node: Node, azure: Azure) -> None:
        self.node, self.azure, self._ids, self._told = node, azure, list[str](), list[str]()

    def event(self, vm: str) -> str:
        """A new event on this VM."""
        self._ids.append(self.node.schedule("Freeze", vm).lower())
        return self._ids[-1]

    def sent(self, who: str, method: str, target: str, body: bytes | None) -> None:
        """Send what a client sends that does not run here."""
        answer = self.azure.ask(method, target, body, Content_Type="application/json; charset=utf-8")
        self._tell(who, method, target, body, answer.status, answer.body)

    def hear(self, who: str) -> Any:
        """The hook of the SDK that is given what it sent and was answered."""

        def heard(response: Any) -> None:
            sent, url = response.http_request, urlsplit(response.http_request.url)
            body = sent.body.encode() if isinstance(sent.body, str) else sent.body
            told = response.http_response
            self._tell(who, sent.method, f"{url.path}?{url.query}", body, told.status_code, told.body())

        return heard

    def _tell(self, who: str, method: str, target: str, body: bytes | None, status: int, answer: bytes) -> None:
        lines = [f"== {who}", f"{method} {target}", *([f"> {body.decode()}"] if body else []), f"{status}"]
        self._told.append("\n".join([*lines, json.dumps(json.loads(answer), indent=1)]))

    def __str__(self) -> str:
        whole = MOMENT.sub(r"\1{moment}", "\n\n".join(self._told))
        for number, event_id in enumerate(self._ids, 1):
            whole = whole.replace(event_id, f"{{event{number}}}").replace(event_id.upper(), f"{{EVENT{number}}}")
        return whole


def test_acknowledging(node: Node, azure: Azure) -> None:
    """M10: azure-mgmt-maintenance 2.2, Approve-AzScheduledEvent and Approve-AzScheduledEventList."""
    story = Story(node, azure)
    sdk = azure.client(MaintenanceManagementClient, SUBSCRIPTION).scheduled_events
    vm, group = ("virtualMachines", "db-0"), ("virtualmachinescalesets", "batch")
    sdk.acknowledge(GROUP, *vm, story.event("db-0"), raw_response_hook=story.hear("azure-mgmt-maintenance"))
    ids = {"value": [story.event("db-0"), story.event("db-0")]}
    sdk.acknowledge_list(GROUP, *vm, ids, raw_response_hook=story.hear("azure-mgmt-maintenance, a list"))
    ids = {"value": [NOBODY, story.event("db-0")]}
    with pytest.raises(HttpResponseError):
        sdk.acknowledge_list(GROUP, *vm, ids, raw_response_hook=story.hear("azure-mgmt-maintenance, not all"))
    place = (
        f"/subscriptions/{SUBSCRIPTION}/resourcegroups/{GROUP}/providers/Microsoft.Compute/{'/'.join(group)}"
        "/providers/Microsoft.Maintenance/scheduledevents"
    )
    query = "?api-version=2025-11-01"
    story.sent("Approve-AzScheduledEvent", "POST", f"{place}/{story.event('batch_0')}/acknowledge{query}", None)
    story.sent("Approve-AzScheduledEvent, not there", "POST", f"{place}/{NOBODY}/acknowledge{query}", None)
    mixed = f'{{\r\n  "value": [\r\n    "{story.event("batch_1")}",\r\n    "{NOBODY}"\r\n  ]\r\n}}'.encode()
    story.sent("Approve-AzScheduledEventList", "POST", f"{place}{query}", mixed)
    good = json.dumps({"value": [story.event("batch_0")]}).encode()
    story.sent("Approve-AzScheduledEventList, all good", "POST", f"{place}{query}", good)
    assert_golden("azure_acknowledge.txt", str(story))


def test_reporting_health(node: Node, azure: Azure) -> None:
    """M17: the bodies of Microsoft's page about Guest Health Reporting, and the insights that it lists."""
    story = Story(node, azure)
    place = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Impact/workloadImpacts/"
    query, vm = "?api-version=2025-01-01-preview", f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers"
    usual = {
        "startDateTime": "2025-09-15T01:06:21.3886467Z",
        "impactedResourceId": f"{vm}/Microsoft.Compute/virtualMachines/db-0",
    }
    logs = {"LogUrl": "https://someurl.example/rma", "PhysicalHostName": "host-1"}
    gpu = {**logs, "Manufacturer": "Nvidia", "SerialNumber": "12345679", "ModelNumber": "NV3LB225", "Location": "0"}
    own = {"VmUniqueId": azure.get(f"{usual['impactedResourceId']}{query}")["properties"]["vmId"]}
    for what, category, more in (
        ("missing GPU", "Resource.Hpc.Unhealthy.HpcMissingGpu", gpu),
        ("investigate", "Resource.Hpc.Investigate.NVLink", {**own, "CollectTelemetry": "0"}),
        ("healthy", "Resource.Hpc.Healthy", {"PhysicalHostName": "host-1"}),
    ):
        said = {**usual, "impactCategory": category, "impactDescription": what, "additionalProperties": more}
        body = json.dumps({"properties": said}).encode()
        story.sent(f"Guest Health Reporting, {what}", "PUT", f"{place}{what.replace(' ', '-')}{query}", body)
    story.sent("insights", "GET", f"{place}missing-GPU/insights{query}", None)
    assert_golden("azure_impacts.txt", str(story))
