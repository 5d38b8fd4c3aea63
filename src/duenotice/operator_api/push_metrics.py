"""Metrics of subscriptions: there are few of them, so each has its own label."""

from collections.abc import Callable, Iterable

from prometheus_client.core import Metric

from duenotice.domain.state import State
from duenotice.operator_api.metric_table import counts
from duenotice.push.service import PushMeasure

_MEASURED: dict[str, Callable[[PushMeasure], float]] = {
    "duenotice_push_delivered_total": lambda each: each.delivered,
    "duenotice_push_failed_total": lambda each: each.failed,
    "duenotice_push_waiting": lambda each: each.waiting,
    "duenotice_push_lag_seconds": lambda each: each.lag,
}


def push_metrics(state: State, measures: Iterable[PushMeasure]) -> Iterable[Metric]:
    """What is delivered from here, and the dead letters of each subscription."""
    known = list(measures)
    for name, value in _MEASURED.items():
        yield counts(name, {(each.subscription_id,): value(each) for each in known})
    aside: dict[tuple[str, ...], float] = {
        (each.id,): len(each.dead_letters) + each.dropped for each in state.subscriptions.values()
    }
    yield counts("duenotice_push_dead_letters", aside)
