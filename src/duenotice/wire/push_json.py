"""What receivers are sent about a change of an event: the schema of Event Grid, or CloudEvents 1.0 (M13)."""

from datetime import datetime
from typing import NamedTuple
from uuid import NAMESPACE_URL, uuid5

import msgspec

from duenotice.clock import Instant
from duenotice.domain.event import Event
from duenotice.domain.fleet import Site
from duenotice.domain.subscription import PushFormat
from duenotice.wire.event_resource import event_resource, resource_id

EMITTED = "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted"
VALIDATION = "Microsoft.EventGrid.SubscriptionValidationEvent"
API_VERSION, DATA_VERSION, METADATA_VERSION = "2024-07-01", "3.0", "1"
MEDIA_TYPES = {
    PushFormat.EVENTGRID: "application/json; charset=utf-8",
    PushFormat.CLOUDEVENTS: "application/cloudevents+json; charset=utf-8",
}

_encode = msgspec.json.Encoder().encode


class EventChange(NamedTuple):
    """A change of an event: where it is in the journal, when it was, the event after it and before it.

    `failure` is why it failed, if it did.
    """

    position: int
    when: Instant
    event: Event
    before: Event
    failure: str = ""

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
        "data": _data(change, site),
        "eventType": EMITTED,
        "dataVersion": DATA_VERSION,
        "metadataVersion": METADATA_VERSION,
        "eventTime": change.when.at,
    }


def _cloud_event(change: EventChange, site: Site) -> dict[str, object]:
    return {
        "specversion": "1.0",
        "id": change.id,
        "source": topic_of(site),
        "subject": resource_id(change.event, site),
        "type": EMITTED,
        "time": change.when.at,
        "datacontenttype": "application/json",
        "data": _data(change, site),
    }


def _data(change: EventChange, site: Site) -> dict[str, object]:
    return {"resourceInfo": event_resource(change.event, site, change.failure), "apiVersion": API_VERSION}


def topic_of(site: Site) -> str:
    """What all messages are published under."""
    return f"/subscriptions/{site.subscription_id}"


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
