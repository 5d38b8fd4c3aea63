"""An event as a resource of Azure: what is pushed about it and what Resource Graph has of it is the same (M12, M13)."""

from typing import TypedDict

from duenotice.domain.event import Event, Phase
from duenotice.domain.fleet import GroupKind, Site
from duenotice.wire.document_json import RESOURCE_TYPE
from duenotice.wire.event_names import SOURCE_NAMES, STATUS_NAMES, TYPE_NAMES
from duenotice.wire.resource_ids import KINDS, VM, id_of_resource_group
from duenotice.wire.times import format_rfc1123

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
