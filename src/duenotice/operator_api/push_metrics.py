"""Metrics of subscriptions: there are few of them, so each has its own label."""

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from duenotice.domain.state import State
from duenotice.push.pusher import PushMeasure

_LABELS = ["subscription"]
_COUNTERS: dict[str, tuple[str, Callable[[PushMeasure], float]]] = {
    "duenotice_push_delivered": ("Messages that receivers took since the start.", lambda each: each.delivered),
    "duenotice_push_failed": ("Tries that failed since the start.", lambda each: each.failed),
}
_GAUGES: dict[str, tuple[str, Callable[[PushMeasure], float]]] = {
    "duenotice_push_waiting": ("Messages that are to be delivered next.", lambda each: each.waiting),
    "duenotice_push_lag_seconds": ("Age of the oldest of them, on the service's clock.", lambda each: each.lag),
}


def push_metrics(state: State, measures: Iterable[PushMeasure]) -> Iterable[Metric]:
    """What is delivered from here, and what is set aside, of each subscription."""
    known = list(measures)
    for name, (text, value) in _COUNTERS.items():
        counter = CounterMetricFamily(name, text, labels=_LABELS)
        for each in known:
            counter.add_metric([each.subscription_id], value(each))
        yield counter
    for name, (text, value) in _GAUGES.items():
        gauge = GaugeMetricFamily(name, text, labels=_LABELS)
        for each in known:
            gauge.add_metric([each.subscription_id], value(each))
        yield gauge
    aside = GaugeMetricFamily("duenotice_push_set_aside", "Messages that were given up.", labels=_LABELS)
    for subscription in state.subscriptions.values():
        aside.add_metric([subscription.id], len(subscription.set_aside) + subscription.forgotten)
    yield aside
