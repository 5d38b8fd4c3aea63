"""What receivers are sent: Event Grid's schema and CloudEvents 1.0, as the real clients of both read them (M13)."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridEvent

from duenotice.clock import Instant
from duenotice.domain.event import Cause, Event, EventType, Phase
from duenotice.domain.fleet import Site
from duenotice.domain.subscription import PushFormat
from duenotice.wire.azure import EventChange, encode_change, encode_validation, resource_id, validation_response

AT = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
SITE = Site("westeurope", "Shop-RG", "00000000-0000-0000-0000-000000000001")
EVENT = Event(
    "3DA1B9AA-5204-4335-8C33-C54E315DCFFE", EventType.FREEZE, Cause.LIVE_MIGRATION, "scale-set/batch/0",
    ("batch_1", "batch_2"), datetime(2026, 3, 1, 12, 15, tzinfo=UTC), 0, "Paused.", 5,
)  # fmt: skip
PARENT = f"/subscriptions/{SITE.subscription_id}/resourcegroups/shop-rg/providers/microsoft.compute"
EVENT_ID = (
    f"{PARENT}/virtualmachinescalesets/batch/providers/microsoft.maintenance/scheduledevents/"
    "3da1b9aa-5204-4335-8c33-c54e315dcffe"
)
PROPERTIES = {
    "EventId": "3da1b9aa-5204-4335-8c33-c54e315dcffe",
    "EventStatus": "Scheduled",
    "EventType": "Freeze",
    "ResourceType": "VirtualMachine",
    "Resources": ["batch_1", "batch_2"],
    "NotBefore": "Sun, 01 Mar 2026 12:15:00 GMT",
    "Description": "Paused.",
    "EventSource": "Platform",
    "DurationInSeconds": 5,
}
DATA = {
    "resourceInfo": {
        "id": EVENT_ID,
        "name": "3da1b9aa-5204-4335-8c33-c54e315dcffe",
        "type": "microsoft.maintenance/scheduledevents",
        "location": "westeurope",
        "properties": PROPERTIES,
    },
    "apiVersion": "2024-07-01",
}
TYPE = "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted"


def changed(phase: Phase = Phase.SCHEDULED, position: int = 7) -> EventChange:
    return EventChange(position, Instant(AT, 0), EVENT.with_(phase=phase), EVENT)


def test_event_grid_reads_what_it_is_sent() -> None:
    (sent,) = json.loads(encode_change(changed(), SITE, PushFormat.EVENTGRID))
    event = EventGridEvent.from_json(json.dumps(sent))
    assert (event.event_type, event.data_version, event.metadata_version) == (TYPE, "3.0", "1")
    assert (event.topic, event.subject) == (f"/subscriptions/{SITE.subscription_id}", EVENT_ID)
    assert (event.event_time, event.data, event.id) == (AT, DATA, changed().id)


def test_a_cloud_event_reads_what_it_is_sent() -> None:
    event: CloudEvent[Any] = CloudEvent.from_dict(json.loads(encode_change(changed(), SITE, PushFormat.CLOUDEVENTS)))
    assert (event.specversion, event.type, event.time) == ("1.0", TYPE, AT)
    assert (event.source, event.subject) == (f"/subscriptions/{SITE.subscription_id}", EVENT_ID)
    assert (event.data, event.id, event.datacontenttype) == (DATA, changed().id, "application/json")


@pytest.mark.parametrize(
    ("phase", "status", "not_before"),
    [
        (Phase.SCHEDULED, "Scheduled", PROPERTIES["NotBefore"]),
        (Phase.STARTED, "Started", ""),
        (Phase.COMPLETED, "Completed", ""),
        (Phase.CANCELLED, "Canceled", ""),
        (Phase.FAILED, "Failed", ""),
    ],
)
def test_each_phase_has_a_status(phase: Phase, status: str, not_before: str) -> None:
    sent = json.loads(encode_change(changed(phase), SITE, PushFormat.CLOUDEVENTS))
    properties = sent["data"]["resourceInfo"]["properties"]
    assert (properties["EventStatus"], properties["NotBefore"]) == (status, not_before)


def test_a_pager_is_told_that_it_failed_and_why() -> None:
    """Nothing else has such a key."""
    failed = changed(Phase.FAILED)._replace(failure="no power")
    for change, why in ((failed, "no power"), (changed(Phase.CANCELLED)._replace(failure="not now"), None)):
        for push_format in PushFormat:
            sent = json.loads(encode_change(change, SITE, push_format))
            data = (sent[0] if push_format is PushFormat.EVENTGRID else sent)["data"]
            assert data["resourceInfo"]["properties"].get("FailureReason") == why


@pytest.mark.parametrize(
    ("scope", "parent"),
    [
        ("vm/db-0", "virtualmachines/db-0"),
        ("set/web", "availabilitysets/web"),
        ("scale-set/batch/3", "virtualmachinescalesets/batch"),
        ("service/shop", "cloudservices/shop"),
    ],
)
def test_an_event_is_below_who_is_told_of_it(scope: str, parent: str) -> None:
    found = resource_id(EVENT.with_(scope=scope), SITE)
    assert found == f"{PARENT}/{parent}/providers/microsoft.maintenance/scheduledevents/{EVENT.id.lower()}"


def test_a_message_has_one_id_for_ever_and_another_message_has_another() -> None:
    assert changed().id == changed().id != changed(position=8).id


def test_the_question_of_event_grid_is_one_that_its_client_reads() -> None:
    (sent,) = json.loads(encode_validation("code-1", AT, SITE))
    event = EventGridEvent.from_json(json.dumps(sent))
    assert event.event_type == "Microsoft.EventGrid.SubscriptionValidationEvent"
    assert event.data == {"validationCode": "code-1"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"validationResponse": "abc"}', "abc"),
        (b'{"ValidationResponse": "abc"}', "abc"),
        (b'{"validationResponse": 7}', ""),
        (b'["abc"]', ""),
        (b"\xff", ""),
        (b"", ""),
        (b'{"a":' * 5000, ""),
    ],
)
def test_an_answer_has_the_code_or_not(body: bytes, code: str) -> None:
    assert validation_response(body) == code
