"""Every metric of the agent as one row, and the text that Prometheus reads. docs/metrics.md is made from this table."""

from collections import Counter
from collections.abc import Iterator, Set
from datetime import datetime
from typing import NamedTuple

from duenotice import __version__
from duenotice.agent.cases import Case, Cases
from duenotice.agent.problems import KINDS
from duenotice.agent.recorder import OUTCOMES, Counters

PREFIX = "duenotice_agent_"


class AgentMetric(NamedTuple):
    """One metric; `wake` says when somebody should look at it."""

    kind: str
    text: str
    labels: tuple[str, ...] = ()
    wake: str = ""


METRICS = {
    "info": AgentMetric("gauge", "The agent's version.", ("version",)),
    "events": AgentMetric("gauge", "Events that hit this VM, by what the agent is doing about them.", ("state",)),
    "handler_runs_total": AgentMetric(
        "counter", "Handlers that ended, by outcome.", ("handler", "outcome"), "failed or stuck grows"
    ),
    "approvals_total": AgentMetric("counter", "Events approved."),
    "problem": AgentMetric(
        "gauge", "Whether there is a problem of this kind; `agent status` says which.", ("kind",), "any is 1"
    ),
    "unprepared_total": AgentMetric(
        "counter", "Events for which not all was prepared when they began, or their notice was over.", wake="it grows"
    ),
    "ledger_lost_total": AgentMetric(
        "counter", "How often the ledger was gone or changed, and was written again.", wake="it grows"
    ),
    "documents_total": AgentMetric("counter", "Documents that were different from the one before."),
    "poll_errors_total": AgentMetric("counter", "Polls that gave no document.", wake="20 in ten minutes"),
    "drained": AgentMetric("gauge", "Whether the readiness switch says drained."),
    "last_document_timestamp_seconds": AgentMetric("gauge", "When the document last changed."),
    "notice_left_seconds": AgentMetric("gauge", "Seconds until the next event may start; -1 for none."),
}
STATES = ("seen", "preparing", "prepared", "failed", "approved", "started", "recovering", "stuck", "unrecorded", "over")
LABELS: dict[str, tuple[str, ...]] = {"state": STATES[:-1], "outcome": OUTCOMES, "kind": tuple(KINDS)}
"""The words of each label; a handler is named as in the configuration."""

Sample = tuple[tuple[str, ...], float]


class AgentFacts(NamedTuple):
    """What is so now: the cases, those of them that are not recorded, the kinds of problems there are."""

    cases: Cases
    unrecorded: Set[str] = frozenset()
    problems: Set[str] = frozenset()
    drained: bool = False
    heard_at: datetime | None = None


def metrics(facts: AgentFacts, counters: Counters, times_lost: int, now: datetime) -> str:
    """The text that Prometheus reads."""
    samples = _samples(facts, counters, times_lost, now)
    return "".join(f"{line}\n" for name, row in METRICS.items() for line in _lines(name, row, samples[name]))


def _samples(facts: AgentFacts, counters: Counters, times_lost: int, now: datetime) -> dict[str, list[Sample]]:
    real = [case for case in facts.cases.values() if not case.drill and not case.is_closed]
    states = Counter("unrecorded" if case.event.event_id in facts.unrecorded else state_of(case) for case in real)
    runs = {(handler, what): number for (what, handler), number in sorted(counters.records.items()) if handler}
    return {
        "info": [((__version__,), 1)],
        "events": [((state,), number) for state, number in sorted(states.items())],
        "handler_runs_total": list(runs.items()),
        "approvals_total": [((), counters.records["approved", ""])],
        "problem": [((kind,), int(kind in facts.problems)) for kind in KINDS],
        "unprepared_total": [((), counters.records["unprepared", ""])],
        "ledger_lost_total": [((), times_lost)],
        "documents_total": [((), counters.documents)],
        "poll_errors_total": [((), counters.poll_errors)],
        "drained": [((), int(facts.drained))],
        "last_document_timestamp_seconds": [((), facts.heard_at.timestamp() if facts.heard_at else 0.0)],
        "notice_left_seconds": [((), _least(real, now))],
    }


def _lines(name: str, row: AgentMetric, samples: list[Sample]) -> Iterator[str]:
    yield f"# HELP {PREFIX}{name} {row.text}"
    yield f"# TYPE {PREFIX}{name} {row.kind}"
    for words, value in samples:
        labels = ",".join(f'{label}="{word}"' for label, word in zip(row.labels, words, strict=True))
        yield f"{PREFIX}{name}{{{labels}}} {value}" if labels else f"{PREFIX}{name} {value}"


def state_of(case: Case) -> str:
    """The case in one word."""
    states = {work.state for work in case.works.values()}
    if case.is_closed:
        return "over"
    if case.returning:
        return "stuck" if any(work.is_stuck for work in case.works.values()) else "recovering"
    if case.event.started:
        return "started"
    if case.approved:
        return "approved"
    return next((state for state in ("failed", "preparing", "prepared") if state in states), "seen")


def _least(cases: list[Case], now: datetime) -> float:
    waiting = [case for case in cases if not (case.event.started or case.event.is_advice or case.returning)]
    coming = [case.not_before for case in waiting if case.not_before]
    return max(0.0, (min(coming) - now).total_seconds()) if coming else -1.0
