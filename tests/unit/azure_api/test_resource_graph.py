"""Events as rows of Resource Graph: each says what the document says, also when it is over."""

from datetime import timedelta

import pytest

from duenotice.azure_api.kql import column_type
from duenotice.azure_api.resource_graph import COLUMNS, rows_of
from duenotice.domain.event import Event, EventType, Phase
from duenotice.domain.fleet import Site
from duenotice.engine.event_traces import EventTrace
from tests.unit.domain.build import NOW, id_of, listening, schedule

SITE = Site("westeurope", "Demo", "11111111-0000-0000-0000-000000000000")
GROUP = f"/subscriptions/{SITE.subscription_id}/resourcegroups/demo/providers/microsoft.compute"


def event(*vms: str, number: int = 1, type: EventType = EventType.FREEZE) -> Event:
    return schedule(listening(), *vms, number=number, type=type)


def only(trace: EventTrace) -> dict[str, object]:
    (row,) = rows_of([trace], SITE, "tenant", listening().fleet.vms)
    return {name: row.get(name) for name in COLUMNS}


def test_a_row_has_every_column_and_the_keys_of_a_document() -> None:
    row = only(EventTrace(event("web-0", "web-2"), NOW.at))
    assert [name for name in COLUMNS if row[name] is None] == ["zones"]
    assert (row["name"], row["type"]) == (id_of(1).lower(), "microsoft.maintenance/scheduledevents")
    assert (row["location"], row["resourceGroup"], row["subscriptionId"], row["tenantId"]) == (
        "westeurope",
        "demo",
        SITE.subscription_id,
        "tenant",
    )
    assert row["properties"] == {
        "EventId": id_of(1).lower(),
        "EventStatus": "Scheduled",
        "EventType": "Freeze",
        "ResourceType": "VirtualMachine",
        "Resources": ("web-0", "web-2"),
        "NotBefore": "Sun, 01 Mar 2026 12:15:00 GMT",
        "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform",
        "DurationInSeconds": 9,
        "TargetResourceId": f"{GROUP}/availabilitysets/web",
    }


@pytest.mark.parametrize(
    ("vm", "parent"),
    [
        ("alone", "virtualmachines/alone"),
        ("web-0", "availabilitysets/web"),
        ("batch_0", "virtualmachinescalesets/batch"),
        ("Front_IN_0", "cloudservices/shop"),
    ],
)
def test_an_event_lies_below_what_is_told_of_it(vm: str, parent: str) -> None:
    below = f"providers/microsoft.maintenance/scheduledevents/{id_of(1).lower()}"
    assert only(EventTrace(event(vm), NOW.at))["id"] == f"{GROUP}/{parent}/{below}"


@pytest.mark.parametrize(("vm", "zones"), [("zonal", ["1"]), ("alone", None), ("web-0", None)])
def test_an_event_is_in_the_zones_of_its_vms(vm: str, zones: list[str] | None) -> None:
    assert only(EventTrace(event(vm), NOW.at))["zones"] == zones


def test_a_vm_that_has_left_the_fleet_is_in_no_zone_that_is_known() -> None:
    (row,) = rows_of([EventTrace(event("zonal"), NOW.at)], SITE, "tenant", {})
    assert row.get("zones") is None


@pytest.mark.parametrize(
    ("phase", "outcome", "status"),
    [
        (Phase.STARTED, "", "Started"),
        (Phase.STARTED, "completed", "Completed"),
        (Phase.SCHEDULED, "cancelled", "Canceled"),
        (Phase.STARTED, "failed", "Failed"),
    ],
)
def test_what_does_not_wait_has_no_time(phase: Phase, outcome: str, status: str) -> None:
    properties = only(EventTrace(event("alone").with_(phase=phase), NOW.at, outcome=outcome))["properties"]
    assert isinstance(properties, dict)
    assert (properties["EventStatus"], properties["NotBefore"]) == (status, "")


def test_rows_come_in_the_order_in_which_events_were_raised() -> None:
    """It stays the same while they live and end, so that pages fit together."""
    later = EventTrace(event("alone", number=1), NOW.at + timedelta(seconds=1))
    first = EventTrace(event("alone", number=2), NOW.at, outcome="completed")
    unknown = EventTrace(event("alone", number=3))
    names = [row.get("name") for row in rows_of([later, first, unknown], SITE, "", {})]
    assert names == [id_of(3).lower(), id_of(2).lower(), id_of(1).lower()]


@pytest.mark.parametrize(
    ("value", "kind"),
    [("x", "string"), (None, "string"), (True, "boolean"), (3, "integer"), (3.5, "number"), ({}, "object")],
)
def test_a_table_tells_what_its_columns_are(value: object, kind: str) -> None:
    assert column_type(value) == kind
