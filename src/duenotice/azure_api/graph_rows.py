"""Events as rows of Resource Graph's `maintenanceresources`: those that live, and those that are over (M12). Pure."""

from collections.abc import Iterable, Iterator

from duenotice.azure_api.graph_steps import Row
from duenotice.domain.event import Phase
from duenotice.domain.fleet import Site
from duenotice.domain.pieces import in_order
from duenotice.engine.event_traces import EventTrace
from duenotice.wire.event_resource import event_resource

COLUMNS = ("id", "name", "type", "location", "properties", "tenantId", "resourceGroup", "subscriptionId")


def rows_of(traces: Iterable[EventTrace], site: Site, tenant: str) -> Iterator[Row]:
    """All events as rows, in the order in which they were raised: an order that does not change while they live."""
    return (_row(trace, site, tenant) for trace in in_order(traces, key=_raised))


def _raised(trace: EventTrace) -> tuple[float, str]:
    return 0.0 if trace.raised_at is None else trace.raised_at.timestamp(), trace.event.id


def _row(trace: EventTrace, site: Site, tenant: str) -> Row:
    event = trace.event.with_(phase=Phase(trace.outcome)) if trace.outcome else trace.event
    return {
        **event_resource(event, site),
        "tenantId": tenant,
        "resourceGroup": site.resource_group.lower(),
        "subscriptionId": site.subscription_id,
    }
