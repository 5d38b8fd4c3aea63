"""What Prometheus reads: lines as they are, without their numbers.

docs/metrics.md has name, kind, text and labels of each metric, and is compared with the tables of the code. Here is
what that page does not say: what is really printed, which is what alerts and dashboards ask for.
"""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from duenotice import __version__
from duenotice.agent import status as agent
from duenotice.agent.ledger import Counters
from duenotice.agent.state import Events, apply
from duenotice.domain.state import State
from duenotice.domain.subscription import Subscription
from duenotice.operator_api import metric_table as service
from duenotice.operator_api.node_metrics import node_metrics
from duenotice.operator_api.push_metrics import push_metrics
from duenotice.push.service import PushMeasure
from tests.golden.compare import assert_golden
from tests.golden.examples import NOON, full
from tests.support.node import Node
from tests.unit.agent.build import record, seen
from tests.unit.engine.cluster_rig import three
from tests.unit.engine.rig import in_loop

FLEET = """
[[hosts]]
name = "host-1"
[[vms]]
name = "db-0"
address = "127.0.1.10"
host = "host-1"
"""


def plain(text: str) -> str:
    """Without numbers and the version."""
    text = text.replace(f'"{__version__}"', '"<version>"')
    return re.sub(r"^([^#].*) \S+$", r"\1 N", text, flags=re.MULTILINE)


def names(text: str) -> set[str]:
    return {found.partition(" ")[0] for found in re.findall(r"^# TYPE (.*)$", text, re.MULTILINE)}


class Collected(Collector):
    """These metrics, to be printed."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def printed(metrics: Iterable[Metric]) -> str:
    registry = CollectorRegistry()
    registry.register(Collected(metrics))
    return generate_latest(registry).decode()


def test_the_service_prints_the_metrics_that_it_did() -> None:
    """After a little work, so that each of them has a line; those of subscriptions follow below."""
    with Node(FLEET) as node:
        node.enable("db-0")
        node.approve("db-0", node.schedule("Reboot", "db-0"))
        answer = node.operator("GET", "/metrics")
    text = answer.body.decode()
    assert names(text) == {*service.OF_ANY_SERVICE, *service.OF_PUSH}
    assert_golden("metrics_service.txt", f"content-type: {answer.headers['content-type']}\n\n{plain(text)}")


def test_the_service_prints_the_metrics_of_a_subscription_that_it_did() -> None:
    """From what its deliveries measure, and from what is set aside."""
    subscription, state = full(Subscription), State()
    state.subscriptions[subscription.id] = subscription
    text = printed(push_metrics(state, [PushMeasure(subscription.id, 1, 2, 3, 4.0)]))
    assert names(text) == set(service.OF_PUSH)
    assert_golden("metrics_push.txt", plain(text))


@in_loop
async def test_a_node_prints_the_metrics_that_it_did() -> None:
    """A node on PostgreSQL prints these too."""
    async with three() as cluster:
        text = printed(list(node_metrics(cluster.leader.engine, cluster.micros)))
    assert names(text) == set(service.OF_NODES)
    assert_golden("metrics_node.txt", plain(text))


def test_the_agent_prints_the_metrics_that_it_did() -> None:
    """With a handler that has run."""
    events: Events = {}
    for each in (seen(), record("preparing", "units"), record("prepared", "units")):
        apply(events, each)
    counters = Counters()
    counters.records = Counter({(what, "units"): 1 for what in agent.LABELS["outcome"]} | {("approved", ""): 1})
    text = agent.metrics(
        agent.AgentFacts(events, drained=True, heard_at=NOON), counters, 1, NOON + timedelta(seconds=1)
    )
    assert names(text) == {f"{agent.PREFIX}{name}" for name in agent.METRICS}
    assert_golden("metrics_agent.txt", plain(text))
