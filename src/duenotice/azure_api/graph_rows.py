"""Events as rows of Resource Graph's `maintenanceresources`: those that live, and those that are over (M12). Pure."""

from collections.abc import Iterable, Iterator, Mapping

from duenotice.azure_api.graph_steps import Forgetful
from duenotice.domain.bulk import in_order
from duenotice.domain.event import Phase
from duenotice.domain.fleet import Site, Vm
from duenotice.engine.event_traces import EventTrace
from duenotice.wire.azure import event_resource, target_id

COLUMNS = ("id", "name", "type", "location", "properties", "tenantId", "resourceGroup", "subscriptionId", "zones")


class EventRow(Forgetful):
    """One event as a row. Its values are made when the first is asked for, and may be forgotten again."""

    __slots__ = ("_made", "_site", "_tenant", "_trace", "_vms")

    def __init__(self, trace: EventTrace, site: Site, tenant: str, vms: Mapping[str, Vm]) -> None:
        self._trace, self._site, self._tenant, self._vms = trace, site, tenant, vms
        self._made: dict[str, object] | None = None

    def get(self, name: str) -> object:
        """The value of a column; None if there is none."""
        if name == "zones":  # only when it is asked for: an event may have a thousand VMs, and a query all events
            return _zones(self._trace.event.resources, self._vms)
        if self._made is None:
            self._made = _made(self._trace, self._site, self._tenant)
        return self._made.get(name)

    def forget(self) -> None:
        """Keep none of them."""
        self._made = None


def rows_of(traces: Iterable[EventTrace], site: Site, tenant: str, vms: Mapping[str, Vm]) -> Iterator[EventRow]:
    """All events as rows, in the order in which they were raised: an order that does not change while they live.

    `vms` are those of today: their zones are those of their events.
    """
    return (EventRow(trace, site, tenant, vms) for trace in in_order(traces, key=_raised))


def _raised(trace: EventTrace) -> tuple[float, str]:
    return 0.0 if trace.raised_at is None else trace.raised_at.timestamp(), trace.event.id


def _made(trace: EventTrace, site: Site, tenant: str) -> dict[str, object]:
    event = trace.event.with_(phase=Phase(trace.outcome)) if trace.outcome else trace.event
    resource = event_resource(event, site, trace.reason)
    return {
        **resource,
        "properties": {**resource["properties"], "TargetResourceId": target_id(event, site)},
        "tenantId": tenant,
        "resourceGroup": site.resource_group.lower(),
        "subscriptionId": site.subscription_id,
    }


def _zones(names: Iterable[str], vms: Mapping[str, Vm]) -> list[str] | None:
    return sorted({vm.zone for name in names if (vm := vms.get(name)) is not None and vm.zone is not None}) or None
