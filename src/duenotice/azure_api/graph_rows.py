"""Events as rows of Resource Graph's `maintenanceresources`: those that live, and those that are over (M12). Pure."""

from collections.abc import Iterable, Iterator

from duenotice.azure_api.graph_steps import Forgetful
from duenotice.domain.event import Phase
from duenotice.domain.fleet import Site
from duenotice.domain.pieces import in_order
from duenotice.engine.event_traces import EventTrace
from duenotice.wire.event_resource import event_resource

COLUMNS = ("id", "name", "type", "location", "properties", "tenantId", "resourceGroup", "subscriptionId")


class EventRow(Forgetful):
    """One event as a row. Its values are made when the first is asked for, and may be forgotten again."""

    __slots__ = ("_made", "_site", "_tenant", "_trace")

    def __init__(self, trace: EventTrace, site: Site, tenant: str) -> None:
        self._trace, self._site, self._tenant = trace, site, tenant
        self._made: dict[str, object] | None = None

    def get(self, name: str) -> object:
        """The value of a column; None if there is none."""
        return self.whole().get(name)

    def whole(self) -> dict[str, object]:
        """All of its columns."""
        if self._made is None:
            self._made = _made(self._trace, self._site, self._tenant)
        return self._made

    def forget(self) -> None:
        """Keep none of them."""
        self._made = None


def rows_of(traces: Iterable[EventTrace], site: Site, tenant: str) -> Iterator[EventRow]:
    """All events as rows, in the order in which they were raised: an order that does not change while they live."""
    return (EventRow(trace, site, tenant) for trace in in_order(traces, key=_raised))


def _raised(trace: EventTrace) -> tuple[float, str]:
    return 0.0 if trace.raised_at is None else trace.raised_at.timestamp(), trace.event.id


def _made(trace: EventTrace, site: Site, tenant: str) -> dict[str, object]:
    event = trace.event.with_(phase=Phase(trace.outcome)) if trace.outcome else trace.event
    return {
        **event_resource(event, site, trace.reason),
        "tenantId": tenant,
        "resourceGroup": site.resource_group.lower(),
        "subscriptionId": site.subscription_id,
    }
