"""Every metric of the service as one row: kind, what it says, labels. docs/metrics.md is made from this table."""

from collections.abc import Mapping
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from duenotice.domain.event import EventType
from duenotice.domain.fleet import Condition
from duenotice.domain.plan import Status
from duenotice.wire.operator.words import ACTIONS, LIVE_PHASES

MEMBER_STATES = ("leads", "follows", "silent", "replaced")
REFUSALS = ("no-right", "hidden")


_KINDS: dict[str, type[CounterMetricFamily | GaugeMetricFamily]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
}


class MetricRow(NamedTuple):
    """One metric; `wake` says when somebody should look at it."""

    kind: str
    text: str
    labels: tuple[str, ...] = ()
    wake: str = ""


OF_ANY_SERVICE = {
    "duenotice_info": MetricRow("info", "The running duenotice.", ("version",)),
    "duenotice_vms": MetricRow("gauge", "VMs of the fleet."),
    "duenotice_scopes_listening": MetricRow("gauge", "Scopes that ask for their document."),
    "duenotice_feed_readers": MetricRow("gauge", "How many readers listen to the feed."),
    "duenotice_journal_position": MetricRow("gauge", "The newest record that is durable."),
    "duenotice_clock_time_seconds": MetricRow("gauge", "The time of day of the service's clock."),
    "duenotice_clock_speed": MetricRow("gauge", "Clock seconds per second; 0 for a manual clock."),
    "duenotice_events": MetricRow("gauge", "Live events by type and phase.", ("type", "phase")),
    "duenotice_failed_events": MetricRow(
        "gauge", "Events that failed, and nobody has dealt with that.", wake="more than 0"
    ),
    "duenotice_hosts": MetricRow("gauge", "Hosts by condition.", ("condition",), "one is failed"),
    "duenotice_maintenances": MetricRow("gauge", "Maintenances remembered, by status.", ("status",), "one has failed"),
    "duenotice_records_total": MetricRow("counter", "Records since the start, by action.", ("action",)),
}
OF_PUSH = {
    "duenotice_push_delivered_total": MetricRow(
        "counter", "Messages that receivers took since the start; at the node that leads.", ("subscription",)
    ),
    "duenotice_push_failed_total": MetricRow("counter", "Tries that failed since the start.", ("subscription",)),
    "duenotice_push_waiting": MetricRow("gauge", "Messages that are to be delivered next.", ("subscription",)),
    "duenotice_push_lag_seconds": MetricRow(
        "gauge", "Age of the oldest of them, on the service's clock.", ("subscription",), "more than five minutes"
    ),
    "duenotice_push_dead_letters": MetricRow(
        "gauge", "Messages that were given up, and can be replayed.", ("subscription",), "more than 0"
    ),
}
OF_NODES = {
    "duenotice_node_leads": MetricRow(
        "gauge", "1 if this node leads, else 0.", wake="the sum over all nodes is not 1 for a minute"
    ),
    "duenotice_leader_changes_total": MetricRow(
        "counter", "How often the leader has changed; every node says the same.", wake="it grows again and again"
    ),
    "duenotice_nodes": MetricRow(
        "gauge",
        "Nodes that take part, as this node sees them, by state.",
        ("state",),
        "fewer lead and follow than you have",
    ),
    "duenotice_node_lag_records": MetricRow("gauge", "Records that VMs cannot see at this node yet."),
    "duenotice_node_lag_seconds": MetricRow(
        "gauge", "For how long there have been such records.", wake="more than twice the lease"
    ),
    "duenotice_node_lease_seconds": MetricRow(
        "gauge",
        "After this much silence a node is put out; the setting --lease.",
        wake="it differs between nodes",
    ),
    "duenotice_node_lease_age_seconds": MetricRow(
        "gauge",
        "Time since the last good beat of this node; at 9/10 of the lease it answers VMs with 503.",
        wake="more than half the lease",
    ),
    "duenotice_vm_polls_held_total": MetricRow(
        "counter", "Polls that waited some milliseconds while their events changed."
    ),
    "duenotice_vm_requests_refused_total": MetricRow(
        "counter",
        "Requests of VMs that got 503: without the right to answer, or because a change took too long.",
        ("reason",),
        "it grows",
    ),
}
METRICS = {**OF_ANY_SERVICE, **OF_PUSH, **OF_NODES}
LABELS: dict[str, tuple[str, ...]] = {
    "type": tuple(each.value for each in EventType),
    "phase": LIVE_PHASES,
    "condition": tuple(each.value for each in Condition),
    "status": tuple(each.value for each in Status),
    "action": ACTIONS,
    "state": MEMBER_STATES,
    "reason": REFUSALS,
}
"""The words of each label; the others are a version and the ids of subscriptions. No label names a VM."""


def family(name: str, value: float) -> Metric:
    """A metric of the table that has no labels."""
    return _KINDS[METRICS[name].kind](name, METRICS[name].text, value)


def counts(name: str, values: Mapping[tuple[str, ...], float]) -> Metric:
    """A metric of the table, with a value for each combination of its labels."""
    row = METRICS[name]
    made = _KINDS[row.kind](name, row.text, labels=row.labels)
    for labels, value in values.items():
        made.add_metric(labels, value)
    return made
