"""What a node among several tells Prometheus: whether it leads, how far behind it is, how old its lease is. Pure."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from duenotice.clock import seconds
from duenotice.engine.node_engine import NodeEngine
from duenotice.engine.seat import Seat
from duenotice.operator_api.node_list import silence_of, state_of

MEMBER_STATES = ("leads", "follows", "silent", "replaced")


def node_metrics(engine: NodeEngine, now: int) -> Iterator[Metric]:
    """Everything as this node sees it; `now` is its time since boot."""
    seat, standing = engine.seat, engine.seat.standing
    yield GaugeMetricFamily("duenotice_node_leads", "1 if this node leads, else 0.", engine.leads)
    # An epoch begins with each change, so every node tells the same number, also after a restart.
    yield CounterMetricFamily("duenotice_leader_changes", "How often the leader has changed.", standing.epoch)
    yield _members(seat, now)
    behind = seconds(now - seat.behind_since) if seat.behind_since else 0
    lag = max(0, standing.known - standing.revealed)
    yield GaugeMetricFamily("duenotice_node_lag_records", "Records that VMs cannot see here yet.", lag)
    yield GaugeMetricFamily("duenotice_node_lag_seconds", "For how long there have been such records.", behind)
    age = seconds(max(0, now - (standing.right_until - standing.terms.right)))
    lease = seconds(standing.terms.lease)
    yield GaugeMetricFamily("duenotice_node_lease_seconds", "After so much silence a node is put out.", lease)
    yield GaugeMetricFamily("duenotice_node_lease_age_seconds", "Time since the last good beat of this node.", age)
    yield from _refusals(engine)


def _members(seat: Seat, now: int) -> Metric:
    """The nodes that take part, by state."""
    standing, members = seat.standing, () if seat.sight is None else seat.sight.members
    counted = Counter(state_of(standing, member, silence_of(standing, member, now)) for member in members)
    family = GaugeMetricFamily("duenotice_nodes", "Nodes that take part, as this node sees them.", labels=["state"])
    for state in MEMBER_STATES:
        family.add_metric([state], counted[state])
    return family


def _refusals(engine: NodeEngine) -> Iterator[Metric]:
    tally = engine.tally
    yield CounterMetricFamily("duenotice_vm_polls_held", "Polls that waited while something changed.", tally.held)
    family = CounterMetricFamily("duenotice_vm_requests_refused", "Requests of VMs that got 503.", labels=["reason"])
    family.add_metric(["no-right"], tally.without_right)
    family.add_metric(["hidden"], tally.hidden_too_long)
    yield family
