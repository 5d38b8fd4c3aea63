"""Events as rows of Resource Graph's `maintenanceresources`: those that live, and those that are over (M12). Pure."""

from collections.abc import Iterable, Iterator

from duenotice.azure_api.graph_steps import Row
from duenotice.domain.event import Event, Phase
from duenotice.domain.fleet import GroupKind, Site
from duenotice.domain.pieces import in_order
from duenotice.engine.event_traces import EventTrace
from duenotice.wire.document_json import RESOURCE_TYPE
from duenotice.wire.event_names import SOURCE_NAMES, STATUS_NAMES, TYPE_NAMES
from duenotice.wire.resource_ids import KINDS, VM, id_of_resource_group
from duenotice.wire.times import format_rfc1123

TYPE = "microsoft.maintenance/scheduledevents"
COLUMNS = ("id", "name", "type", "tenantId", "location", "resourceGroup", "subscriptionId", "properties")
OUTCOMES = {"completed": "Completed", "cancelled": "Canceled", "failed": "Canceled"}
"""Documents have none of these; Azure has no word for an impact that failed."""

_PARENTS = {"vm": VM, **{kind.value: KINDS[kind] for kind in GroupKind}}


def rows_of(traces: Iterable[EventTrace], site: Site, tenant: str) -> Iterator[Row]:
    """All events as rows, in the order in which they were raised: an order that does not change while they live."""
    return (_row(trace, site, tenant) for trace in in_order(traces, key=_raised))


def _raised(trace: EventTrace) -> tuple[float, str]:
    return 0.0 if trace.raised_at is None else trace.raised_at.timestamp(), trace.event.id


def _row(trace: EventTrace, site: Site, tenant: str) -> Row:
    event = trace.event
    return {
        "id": id_of_event(event, site),
        "name": event.id.lower(),
        "type": TYPE,
        "tenantId": tenant,
        "location": site.location,
        "resourceGroup": site.resource_group.lower(),
        "subscriptionId": site.subscription_id,
        "properties": _properties(event, OUTCOMES.get(trace.outcome) or STATUS_NAMES[event.phase]),
    }


def id_of_event(event: Event, site: Site) -> str:
    """The event below the VM, the set, the scale set or the service whose scope is told of it."""
    kind, name = event.scope.split("/")[:2]
    parent = f"{id_of_resource_group(site)}/providers/{_PARENTS[kind]}/{name}"
    return f"{parent}/providers/{TYPE}/{event.id.lower()}"


def _properties(event: Event, status: str) -> Row:
    """The keys of a document of 2020-07-01."""
    waits = status == STATUS_NAMES[Phase.SCHEDULED]
    return {
        "EventId": event.id,
        "EventStatus": status,
        "EventType": TYPE_NAMES[event.type],
        "ResourceType": RESOURCE_TYPE,
        "Resources": event.resources,
        "NotBefore": format_rfc1123(event.not_before) if waits else "",
        "Description": event.description,
        "EventSource": SOURCE_NAMES[event.source],
        "DurationInSeconds": event.duration,
    }
