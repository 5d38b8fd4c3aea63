"""What receivers are sent about a change of an event: the schema of Event Grid, or CloudEvents 1.0 (M13)."""

from datetime import datetime
from typing import NamedTuple
from uuid import NAMESPACE_URL, uuid5

import msgspec

from duenotice.domain.event import Event, Phase
from duenotice.domain.fleet import GroupKind, Site
from duenotice.domain.subscription import PushFormat
from duenotice.wire.document_json import RESOURCE_TYPE
from duenotice.wire.event_names import SOURCE_NAMES, STATUS_NAMES, TYPE_NAMES
from duenotice.wire.times import format_rfc1123

EMITTED = "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted"
VALIDATION = "Microsoft.EventGrid.SubscriptionValidationEvent"
API_VERSION, DATA_VERSION, METADATA_VERSION = "2024-07-01", "3.0", "1"
MEDIA_TYPES = {
    PushFormat.EVENTGRID: "application/json; charset=utf-8",
    PushFormat.CLOUDEVENTS: "application/cloudevents+json; charset=utf-8",
}

PUSHED_STATUS = {
    **STATUS_NAMES,
    Phase.COMPLETED: "Completed",
    Phase.CANCELLED: "Canceled",
    Phase.FAILED: "Canceled",
}
"""Documents have only the first two; the service has no word for an impact that failed."""

_PARENTS = {
    GroupKind.AVAILABILITY_SET.value: "availabilitySets",
    GroupKind.SCALE_SET.value: "virtualMachineScaleSets",
    GroupKind.CLOUD_SERVICE.value: "cloudServices",
    "vm": "virtualMachines",
}

_encode = msgspec.json.Encoder().encode


class EventChange(NamedTuple):
    """A change of an event: where it is in the journal, when it was, the event after it and before it."""

    position: int
    at: datetime
    event: Event
    before: Event

    @property
    def id(self) -> str:
        """Names the message: the same in every try, so that a receiver knows a repeat."""
        return str(uuid5(NAMESPACE_URL, f"{self.event.id}/{self.position}"))


def encode_change(change: EventChange, site: Site, push_format: PushFormat) -> bytes:
    """The body of a delivery."""
    if push_format is PushFormat.CLOUDEVENTS:
        return _encode(_cloud_event(change, site))
    return _encode([_grid_event(change, site)])


def _grid_event(change: EventChange, site: Site) -> dict[str, object]:
    return {
        "id": change.id,
        "topic": topic_of(site),
        "subject": resource_id(change.event, site),
        "data": _data(change.event, site),
        "eventType": EMITTED,
        "dataVersion": DATA_VERSION,
        "metadataVersion": METADATA_VERSION,
        "eventTime": change.at,
    }


def _cloud_event(change: EventChange, site: Site) -> dict[str, object]:
    return {
        "specversion": "1.0",
        "id": change.id,
        "source": topic_of(site),
        "subject": resource_id(change.event, site),
        "type": EMITTED,
        "time": change.at,
        "datacontenttype": "application/json",
        "data": _data(change.event, site),
    }


def _data(event: Event, site: Site) -> dict[str, object]:
    info = {
        "id": resource_id(event, site),
        "name": event.id.lower(),
        "type": "microsoft.maintenance/scheduledevents",
        "location": site.location,
        "properties": _properties(event),
    }
    return {"resourceInfo": info, "apiVersion": API_VERSION}


def _properties(event: Event) -> dict[str, object]:
    """The keys of a document of 2020-07-01, with states that documents do not have."""
    return {
        "EventId": event.id,
        "EventStatus": PUSHED_STATUS[event.phase],
        "EventType": TYPE_NAMES[event.type],
        "ResourceType": RESOURCE_TYPE,
        "Resources": event.resources,
        "NotBefore": format_rfc1123(event.not_before) if event.phase is Phase.SCHEDULED else "",
        "Description": event.description,
        "EventSource": SOURCE_NAMES[event.source],
        "DurationInSeconds": event.duration,
    }


def topic_of(site: Site) -> str:
    """What all messages are published under."""
    return f"/subscriptions/{site.subscription_id}"


def resource_id(event: Event, site: Site) -> str:
    """The event below the set, scale set, service or VM whose scope is told of it."""
    kind, name = event.scope.split("/")[:2]
    parent = f"resourceGroups/{site.resource_group}/providers/Microsoft.Compute/{_PARENTS[kind]}/{name}"
    return f"{topic_of(site)}/{parent}/providers/microsoft.maintenance/scheduledevents/{event.id.lower()}"


def encode_validation(code: str, at: datetime, site: Site) -> bytes:
    """The question whether a receiver wants messages, as Event Grid asks it: it answers with the code."""
    question = {
        "id": str(uuid5(NAMESPACE_URL, code)),
        "topic": topic_of(site),
        "subject": "",
        "data": {"validationCode": code},
        "eventType": VALIDATION,
        "dataVersion": "1",
        "metadataVersion": METADATA_VERSION,
        "eventTime": at,
    }
    return _encode([question])


def validation_response(body: bytes) -> str:
    """The code in an answer to that question; empty when there is none."""
    try:
        said = msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    found = {name.lower(): value for name, value in said.items()}.get("validationresponse")
    return found if isinstance(found, str) else ""
