"""What Azure calls things: resource ids, an event as a resource, its changes as Event Grid or CloudEvents (M12)."""

from datetime import datetime
from typing import NamedTuple, TypedDict
from uuid import NAMESPACE_URL, uuid5

import msgspec

from duenotice.clock import Instant
from duenotice.domain.event import Event, Phase
from duenotice.domain.fleet import Group, GroupKind, Site, Vm
from duenotice.domain.subscription import PushFormat
from duenotice.wire.api_versions import SOURCE_NAMES, STATUS_NAMES, TYPE_NAMES
from duenotice.wire.documents import RESOURCE_TYPE
from duenotice.wire.spans import format_rfc1123

KINDS = {
    GroupKind.AVAILABILITY_SET: "Microsoft.Compute/availabilitySets",
    GroupKind.CLOUD_SERVICE: "Microsoft.Compute/cloudServices",
    GroupKind.SCALE_SET: "Microsoft.Compute/virtualMachineScaleSets",
}
VM = "Microsoft.Compute/virtualMachines"
INSTANCE = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines"


def id_of_resource_group(site: Site) -> str:
    """What all resource ids begin with: there is one subscription with one resource group."""
    return f"/subscriptions/{site.subscription_id}/resourceGroups/{site.resource_group}"


def id_of_group(group: Group, site: Site) -> str:
    """The id of an availability set, a cloud service or a scale set."""
    return f"{id_of_resource_group(site)}/providers/{KINDS[group.kind]}/{group.name}"


def id_of_vm(vm: Vm, group: Group | None, site: Site) -> str:
    """The id of a VM; an instance of a scale set is below its scale set."""
    if group is not None and group.kind is GroupKind.SCALE_SET:
        return f"{id_of_group(group, site)}/virtualMachines/{instance_id(vm, group)}"
    return f"{id_of_resource_group(site)}/providers/{VM}/{vm.name}"


def instance_id(vm: Vm, group: Group) -> str:
    """The name of an instance within its scale set: `3` for `web_3`."""
    return vm.name.removeprefix(f"{group.name}_")


def kind_of_vm(group: Group | None) -> str:
    """The resource type of a VM that is in this group."""
    return INSTANCE if group is not None and group.kind is GroupKind.SCALE_SET else VM


KIND = "microsoft.maintenance/scheduledevents"
STATUSES = {
    **STATUS_NAMES,
    Phase.COMPLETED: "Completed",
    Phase.CANCELLED: "Canceled",
    Phase.FAILED: "Failed",
}
"""Documents have only the first two. Azure has no word for an impact that failed; Canceled would say that none was."""

_PARENTS = {"vm": VM, **{kind.value: KINDS[kind] for kind in GroupKind}}


class EventResource(TypedDict):
    """What Azure says of an event outside of documents; its ids are in lower case."""

    id: str
    name: str
    type: str
    location: str
    properties: dict[str, object]


def event_resource(event: Event, site: Site, failure: str = "") -> EventResource:
    """The event as it is now, also when it is over; `failure` is why it failed, if it did."""
    return {
        "id": resource_id(event, site),
        "name": event.id.lower(),
        "type": KIND,
        "location": site.location,
        "properties": _properties(event) | ({"FailureReason": failure} if event.phase is Phase.FAILED else {}),
    }


def resource_id(event: Event, site: Site) -> str:
    """The event below what is told of it."""
    return f"{target_id(event, site)}/providers/{KIND}/{event.id.lower()}"


def target_id(event: Event, site: Site) -> str:
    """The set, scale set, service or VM whose scope is told of an event."""
    kind, name = event.scope.split("/")[:2]
    return f"{id_of_resource_group(site)}/providers/{_PARENTS[kind]}/{name}".lower()


def _properties(event: Event) -> dict[str, object]:
    """The keys of a document of 2020-07-01, with states that documents do not have."""
    return {
        "EventId": event.id.lower(),
        "EventStatus": STATUSES[event.phase],
        "EventType": TYPE_NAMES[event.type],
        "ResourceType": RESOURCE_TYPE,
        "Resources": event.resources,
        "NotBefore": format_rfc1123(event.not_before) if event.phase is Phase.SCHEDULED else "",
        "Description": event.description,
        "EventSource": SOURCE_NAMES[event.source],
        "DurationInSeconds": event.duration,
    }


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
