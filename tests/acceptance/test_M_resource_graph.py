"""Section M, Resource Graph: the real client asks for events, present and past."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.mgmt.resourcegraph import ResourceGraphClient
from azure.mgmt.resourcegraph.models import QueryRequest, QueryRequestOptions

from duenotice.azure_api.sign_in import TENANT
from tests.support.azure import SUBSCRIPTION, Azure
from tests.support.node import Node

FLEET = """
[site]
resource_group = "demo"
[[vms]]
name = "db-0"
zone = "2"
address = "127.0.1.10"
[[availability_sets]]
name = "web"
vms = [{ name = "web-0", address = "127.0.2.1" }, { name = "web-1", address = "127.0.2.2" }]
"""
DOCUMENT = Path(__file__).parents[2] / "docs" / "resource-graph.md"
PLACE = f"/subscriptions/{SUBSCRIPTION}/resourcegroups/demo/providers/microsoft.compute"
ALL = "maintenanceresources | where type =~ 'Microsoft.Maintenance/scheduledEvents'"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node with one event that is over, one that was cancelled, one that has started and two that wait."""
    with Node(FLEET, azure_listen="127.0.0.1:0") as running:
        for name in ("db-0", "web-0"):
            running.enable(name)
        first = running.operate("/v1/vms/db-0/restart")[0]["id"]
        running.operate(f"/v1/events/{first}/approve", {})
        running.advance("10m")
        second = running.operate("/v1/vms/db-0/redeploy")[0]["id"]
        running.operate(f"/v1/events/{second}/cancel", {})
        third = running.operate("/v1/vms/db-0/restart")[0]["id"]
        running.operate(f"/v1/events/{third}/approve", {})
        for name in ("web-0", "web-1"):
            running.operate("/v1/events", {"type": "Freeze", "resources": [name]})
        yield running


@pytest.fixture(scope="module")
def graph(node: Node) -> Iterator[Any]:
    """The real client."""
    with Azure(node) as clients:
        yield clients.client(ResourceGraphClient)


def ask(graph: Any, query: str, subscriptions: Any = None, **options: Any) -> Any:
    asked = QueryRequest(subscriptions=subscriptions, query=query, options=QueryRequestOptions(**options))
    return graph.resources(asked)


def test_M12_events_are_rows_with_what_the_document_says(node: Node, graph: Any) -> None:
    """The id lies below the set that is told; it, the name and the EventId are in lower case."""
    found = ask(graph, f"{ALL} | where properties.EventStatus == 'Scheduled' | take 1").data
    (told,) = [event for event in node.events("web-0") if event["EventId"].lower() == found[0]["name"]]
    lower, target = told["EventId"].lower(), f"{PLACE}/availabilitysets/web"
    assert [row["properties"] for row in found] == [told | {"EventId": lower, "TargetResourceId": target}]
    below = f"/availabilitysets/web/providers/microsoft.maintenance/scheduledevents/{lower}"
    assert found[0]["id"].endswith(below)
    assert (found[0]["resourceGroup"], found[0]["subscriptionId"]) == ("demo", SUBSCRIPTION)


def test_M12_events_that_are_over_are_rows_too(graph: Any) -> None:
    """Completed and Canceled, which a document never says."""
    found = ask(graph, f"{ALL} | project what = properties.EventType, status = properties.EventStatus").data
    assert sorted((row["what"], row["status"]) for row in found) == [
        ("Freeze", "Scheduled"),
        ("Freeze", "Scheduled"),
        ("Reboot", "Completed"),
        ("Reboot", "Started"),
        ("Redeploy", "Canceled"),
    ]


@pytest.mark.parametrize(
    ("query", "data"),
    [
        ("| count", [{"Count": 5}]),
        ("| where properties.EventType in ('Freeze', 'Redeploy') | count", [{"Count": 3}]),
        (
            "| summarize n = count() by kind = tostring(properties.EventType) | order by kind asc",
            [{"kind": "Freeze", "n": 2}, {"kind": "Reboot", "n": 2}, {"kind": "Redeploy", "n": 1}],
        ),
        (
            "| where properties.EventType == 'Redeploy' | project properties.Resources | limit 1",
            [{"properties_Resources": ["db-0"]}],
        ),
    ],
)
def test_M12_queries_choose_count_and_put_in_order(graph: Any, query: str, data: list[dict[str, object]]) -> None:
    """where, project, order by, limit, count and summarize, through the real client."""
    assert ask(graph, ALL + query).data == data


MICROSOFTS = (
    """

maintenanceresources
| where type == "microsoft.maintenance/scheduledevents"

""",
    """

Maintenanceresources
| where type == "microsoft.maintenance/scheduledevents"
| sort by tostring(properties.EventStatus), tostring(properties.EventId) asc
| project resourceGroup, zones, properties.EventStatus, properties.NotBefore, \
properties.Resources, properties.EventId, properties.TargetResourceId, properties.EventType, properties.Description

""",
)
"""Every query of Microsoft's page scheduled-events-resource-graph, as it stands there (2026)."""


@pytest.mark.parametrize("query", MICROSOFTS)
def test_M12_the_queries_of_microsofts_page_work_as_they_stand_there(graph: Any, query: str) -> None:
    """Each gives all events."""
    assert len(ask(graph, query).data) == 5


def test_M12_the_second_query_of_that_page_shows_zone_target_and_status(graph: Any) -> None:
    """Status from Z to A, then by id; what has started or is over has no NotBefore."""
    found = ask(graph, MICROSOFTS[1]).data
    assert [row["properties_EventStatus"] for row in found] == [
        "Started",
        "Scheduled",
        "Scheduled",
        "Completed",
        "Canceled",
    ]
    waiting = [row["properties_EventId"] for row in found[1:3]]
    assert waiting == sorted(waiting)
    assert (found[0]["zones"], found[1]["zones"]) == (["2"], None)
    assert (found[0]["properties_TargetResourceId"], found[0]["properties_NotBefore"]) == (
        f"{PLACE}/virtualmachines/db-0",
        "",
    )


def test_M12_columns_are_added_with_extend(graph: Any) -> None:
    """Under a name of one's own, which later steps know."""
    query = f"{ALL} | extend status = tostring(properties.EventStatus) | where status in ('Completed', 'Canceled')"
    found = ask(graph, f"{query} | project name, status, tenantId | order by status asc").data
    assert [row["status"] for row in found] == ["Canceled", "Completed"]
    assert {row["tenantId"] for row in found} == {TENANT}


def test_M12_pages_fit_together(graph: Any) -> None:
    """$top makes pages, $skipToken goes on, $skip leaves rows out."""
    names, token, pages = [], None, 0
    while token or not pages:
        page = ask(graph, ALL, skip_token=token, **({} if token else {"top": 2}))
        names += [row["name"] for row in page.data]
        assert (page.total_records, page.result_truncated) == (5, "false")
        token, pages = page.skip_token, pages + 1
    assert (len(names), len(set(names)), pages) == (5, 5, 3)
    assert [row["name"] for row in ask(graph, ALL, skip=4).data] == names[4:]


def test_M12_an_answer_can_be_a_table(graph: Any) -> None:
    """Columns with their types, and rows without names."""
    found = ask(graph, f"{ALL} | summarize count() by type", result_format="table").data
    assert found["columns"] == [{"name": "type", "type": "string"}, {"name": "count_", "type": "integer"}]
    assert found["rows"] == [["microsoft.maintenance/scheduledevents", 5]]


def test_M12_other_subscriptions_have_no_rows(graph: Any) -> None:
    """Ours has, in upper case too; without any, ours is meant."""
    assert ask(graph, ALL, ["22222222-2222-2222-2222-222222222222"]).total_records == 0
    assert ask(graph, ALL, [SUBSCRIPTION.upper()]).total_records == 5


@pytest.mark.parametrize(
    ("query", "options", "saying"),
    [
        ("resources", {}, "There is no table 'resources' here"),
        (f"{ALL} | join kind=inner (x) on y", {}, "The operator 'join' is not understood"),
        (f"{ALL} | where properties.EventType contains 'x'", {}, "Understood is: maintenanceresources"),
        (ALL, {"skip_token": "nonsense"}, "skipToken is not one of ours"),
        (ALL, {"result_format": "csv"}, "Use objectArray or table"),
    ],
)
def test_M12_what_is_not_understood_is_a_400_that_says_what_is(
    graph: Any, query: str, options: dict[str, str], saying: str
) -> None:
    """In Azure's shape, which the real client reads."""
    with pytest.raises(HttpResponseError) as refused:
        ask(graph, query, **options)
    assert refused.value.status_code == 400
    assert saying in str(refused.value)


def test_M12_the_query_in_the_document_works(graph: Any) -> None:
    """docs/resource-graph.md shows reboots and redeploys that wait; here none does, and one has started."""
    _, query, _ = DOCUMENT.read_text().split('"""')
    assert ask(graph, query).data == []
    (row,) = ask(graph, query.replace("'Scheduled'", "'Started'")).data
    assert row["properties_Resources"] == ["db-0"]
