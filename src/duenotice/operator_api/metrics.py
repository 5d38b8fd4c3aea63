"""Numbers for Prometheus, counted when asked; labels come from fixed sets, never from names of VMs."""

from collections import Counter
from collections.abc import Iterable, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from duenotice import __version__
from duenotice.domain.event import EventType, Phase
from duenotice.domain.fleet import Condition
from duenotice.domain.maintenance import Status
from duenotice.domain.transitions import Record
from duenotice.engine.engine import Engine
from duenotice.operator_api.feed import Feed
from duenotice.operator_api.table import Call
from duenotice.wire.record_json import action_of

_LIVE = (Phase.SCHEDULED, Phase.STARTED)


class Metrics(Collector):
    """Looks at what is published."""

    def __init__(self, engine: Engine, feed: Feed) -> None:
        self._engine = engine
        self._feed = feed
        self._records: Counter[str] = Counter()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        engine.on_commit.append(self._count)

    def calls(self) -> list[Call]:
        """The rows of the table."""
        return [Call("GET", "/metrics", None, self.show, "Numbers for Prometheus", answers={200: "text/plain"})]

    async def show(self, _: Request) -> Response:
        """All numbers in the text format."""
        return Response(generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: the names do not clash."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Everything as it is now."""
        publisher, clock = self._engine.publisher, self._engine.clock
        yield InfoMetricFamily("duenotice", "The running duenotice.", {"version": __version__})
        yield _gauge("duenotice_vms", "VMs of the fleet.", len(publisher.by_name))
        yield _gauge("duenotice_scopes_listening", "Scopes that ask for their document.", publisher.listening())
        yield _gauge("duenotice_feed_readers", "Who listens to the feed.", len(self._feed.readers))
        yield _gauge("duenotice_journal_position", "The newest record that is durable.", self._feed.position)
        yield _gauge("duenotice_clock_time_seconds", "The clock's time of day.", clock.now().at.timestamp())
        yield _gauge("duenotice_clock_speed", "Clock seconds per second; 0 when told.", clock.speed)
        yield self._events()
        conditions = Counter(host.condition for host in publisher.hosts.values())
        hosts = GaugeMetricFamily("duenotice_hosts", "Hosts by condition.", labels=["condition"])
        for condition in Condition:
            hosts.add_metric([condition.value], conditions[condition])
        yield hosts
        statuses = Counter(plan.status for plan in publisher.maintenances.values())
        plans = GaugeMetricFamily("duenotice_maintenances", "Maintenances remembered, by status.", labels=["status"])
        for status in Status:
            plans.add_metric([status.value], statuses[status])
        yield plans
        records = CounterMetricFamily("duenotice_records", "Records since the start, by action.", labels=["action"])
        for action, count in sorted(self._records.items()):
            records.add_metric([action], count)
        yield records

    def _events(self) -> Metric:
        counts = Counter((event.type, event.phase) for event in self._engine.publisher.events())
        events = GaugeMetricFamily("duenotice_events", "Live events by type and phase.", labels=["type", "phase"])
        for event_type in EventType:
            for phase in _LIVE:
                events.add_metric([event_type.value, phase.value], counts[event_type, phase])
        return events

    def _count(self, records: Sequence[Record]) -> None:
        self._records.update(map(action_of, records))


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value)
