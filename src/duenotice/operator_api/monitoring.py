"""What monitoring asks, with no token: whether the process lives and takes requests, its version, and metrics.

Metrics are counted when asked for; their labels come from fixed sets, never from names of VMs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from duenotice import __version__
from duenotice.clock import boot_micros
from duenotice.domain.event import EventType, Phase
from duenotice.domain.fleet import Condition
from duenotice.domain.plan import Status
from duenotice.domain.records import Record
from duenotice.domain.state import State
from duenotice.engine.engine import Engine
from duenotice.engine.node_engine import NodeEngine
from duenotice.escape import one_line
from duenotice.operator_api.answers import Resource, problem, shown
from duenotice.operator_api.calls import Call
from duenotice.operator_api.feed import Feed
from duenotice.operator_api.metric_table import METRICS, counts, family
from duenotice.operator_api.node_metrics import node_checks, node_metrics
from duenotice.operator_api.node_troubles import Trouble
from duenotice.operator_api.push_metrics import push_metrics
from duenotice.push.service import PushMeasure
from duenotice.wire import operator as o
from duenotice.wire.api_versions import versions_of
from duenotice.wire.operator.from_domain import action_of

_LATER = {"Retry-After": "5"}
_LIVE = (Phase.SCHEDULED, Phase.STARTED)


class Probes(Resource):
    """Whether the service works, from memory."""

    def __init__(
        self,
        engine: Engine,
        fleet_problem: Callable[[], str | None],
        troubles: Callable[[], Iterable[Trouble]] = tuple,
    ) -> None:
        super().__init__(engine)
        self._fleet_problem, self._troubles = fleet_problem, troubles

    def calls(self) -> list[Call]:
        """The rows of the table."""
        ready, takes = {200: (o.Health, "text/plain")}, "Whether it takes requests"
        return [
            Call("GET", "/livez", None, self.alive, "Whether the process lives", {200: o.Health}),
            Call("GET", "/readyz", None, self.ready, takes, ready, query=("verbose",), refusals=(503,)),
            Call("GET", "/version", None, self.version, "Which duenotice this is", {200: o.Version}),
        ]

    async def alive(self, _: Request) -> Response:
        """Always yes: otherwise nobody would answer."""
        return shown(o.Health("ok"))

    async def ready(self, request: Request) -> Response:
        """200 as long as polls are answered and changes can be stored; `verbose` says what is wrong."""
        stopped = self._engine.failed.done()
        cut_off = not stopped and not self._engine.may_answer()
        if "verbose" in request.query_params:
            failed = stopped or cut_off or self._engine.trouble is not None
            return PlainTextResponse(self._checks(stopped, cut_off), 503 if failed else 200, _LATER if failed else None)
        if stopped:
            return problem(503, "The engine has stopped.", "Look at the service's log.", _LATER)
        if (trouble := self._engine.trouble) is not None:
            return problem(503, trouble.message, trouble.hint, _LATER)
        if cut_off:
            return problem(503, *self._why_cut_off(), _LATER)
        return shown(o.Health("ok"))

    def _why_cut_off(self) -> tuple[str, str]:
        """What is wrong, and what to do (N22)."""
        what = "This node may not answer VMs now."
        found = self._engine.store_trouble if isinstance(self._engine, NodeEngine) else None
        if found is None:
            return what, "It does when it reaches the database."
        return f"{what} {found.error.message}", found.error.hint

    def _checks(self, stopped: bool, cut_off: bool) -> str:
        """One line for each check, in the form that Kubernetes uses."""
        why = (
            "has stopped" if stopped else "may not answer VMs now: it does not reach the database" if cut_off else None
        )
        trouble = self._engine.trouble
        problems = {"engine": why, "fleet": self._fleet_problem()}
        if trouble is not None:
            problems["files"] = f"{trouble.message} {trouble.hint}"
        lines = [one_line(f"[-]{name} {wrong}") if wrong else f"[+]{name} ok" for name, wrong in problems.items()]
        lines += map(one_line, node_checks(self._engine, list(self._troubles()), boot_micros()))
        return "".join(f"{line}\n" for line in [*lines, f"readyz check {'failed' if why or trouble else 'passed'}"])

    async def version(self, _: Request) -> Response:
        """Ours."""
        versions = versions_of(self._engine.policy.spot_rebalance)
        return shown(o.Version(__version__, tuple(version.name for version in reversed(versions))))


class _Counted(NamedTuple):
    """What has to be counted by walking the state."""

    vms: int
    listening: int
    events: Counter[tuple[EventType, Phase]]
    failed: int
    hosts: Counter[Condition]
    plans: Counter[Status]

    @classmethod
    def of(cls, state: State) -> "_Counted":
        """One look at all of it."""
        return cls(
            len(state.fleet.vms),
            sum(scope.enabled for scope in state.scopes.values()),
            Counter((event.type, event.phase) for event in state.events.values()),
            len(state.failures),
            Counter(host.condition for host in state.fleet.hosts.values()),
            Counter(progress.plan.status for progress in state.plans.values()),
        )


class Metrics(Collector):
    """Looks at what is published."""

    def __init__(self, engine: Engine, feed: Feed, pushes: Callable[[], Iterable[PushMeasure]] = tuple) -> None:
        self._engine = engine
        self._feed = feed
        self._pushes = pushes
        self._records: Counter[str] = Counter()
        self._counted = _Counted.of(State())
        self._registry = CollectorRegistry()
        self._registry.register(self)
        engine.on_commit.append(self._count)

    def calls(self) -> list[Call]:
        """The rows of the table."""
        return [Call("GET", "/metrics", None, self.show, "Metrics for Prometheus", {200: "text/plain"})]

    async def show(self, _: Request) -> Response:
        """All numbers in the text format."""
        self._counted = await self._engine.look(_Counted.of)
        return Response(generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    def describe(self) -> Iterable[Metric]:
        """Nothing: there is no need to check for clashes."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Everything as it is now."""
        clock, counted = self._engine.clock, self._counted
        info = "duenotice_info"
        yield InfoMetricFamily(info.removesuffix("_info"), METRICS[info].text, {"version": __version__})
        yield family("duenotice_vms", counted.vms)
        yield family("duenotice_scopes_listening", counted.listening)
        yield family("duenotice_feed_readers", len(self._feed.readers))
        yield family("duenotice_journal_position", self._feed.position)
        yield family("duenotice_clock_time_seconds", clock.now().at.timestamp())
        yield family("duenotice_clock_speed", clock.speed)
        live = [(event_type, phase) for event_type in EventType for phase in _LIVE]
        yield counts(
            "duenotice_events", {(kind.value, phase.value): counted.events[kind, phase] for kind, phase in live}
        )
        yield family("duenotice_failed_events", counted.failed)
        yield counts("duenotice_hosts", {(each.value,): counted.hosts[each] for each in Condition})
        yield counts("duenotice_maintenances", {(each.value,): counted.plans[each] for each in Status})
        yield counts("duenotice_records_total", {(action,): self._records[action] for action in sorted(self._records)})
        yield from push_metrics(self._engine.state, self._pushes())
        if isinstance(self._engine, NodeEngine):
            yield from node_metrics(self._engine, boot_micros())

    def _count(self, records: Sequence[Record]) -> None:
        self._records.update(map(action_of, records))
