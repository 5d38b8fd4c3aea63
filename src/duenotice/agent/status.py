"""What the agent tells about itself: JSON for people and programs, text for Prometheus. Pure."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from duenotice import __version__
from duenotice.agent.cases import Case, Cases, Record, Work

COUNTED = ("prepared", "failed", "recovered", "stuck", "approved")


def cases_json(cases: Cases, now: datetime) -> list[dict[str, Any]]:
    """Every case, the oldest first."""
    return [_case_json(case, now) for case in cases.values()]


def _case_json(case: Case, now: datetime) -> dict[str, Any]:
    coming = case.not_before is not None and not case.event.started and not case.returning
    left = (case.not_before - now).total_seconds() if coming and case.not_before else None
    return {
        "event_id": case.event.event_id,
        "type": case.event.type,
        "status": case.event.status,
        "state": state_of(case),
        "drill": case.drill,
        "not_before": _time(case.not_before),
        "coming": coming,
        "seconds_left": None if left is None else max(0, round(left)),
        "resources": list(case.event.resources),
        "source": case.event.source,
        "description": case.event.description,
        "duration": case.event.duration,
        "first_seen": _time(case.first_seen),
        "approved_at": _time(case.approved_at),
        "returning": case.returning,
        "handlers": [_work_json(name, work) for name, work in case.works.items()],
    }


def _work_json(name: str, work: Work) -> dict[str, Any]:
    state = "stuck" if work.is_stuck else work.state
    return {"handler": name, "state": state, "at": _time(work.at), "tries": work.tries, "reason": work.reason}


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


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")


class Counters:
    """Counts records as they are written; labels are the handlers of the configuration, so there are few (S24)."""

    def __init__(self) -> None:
        self.records: Counter[tuple[str, str]] = Counter()
        self.poll_errors = 0
        self.documents = 0

    def count(self, record: Record) -> None:
        if record.what in COUNTED and not record.drill:
            self.records[record.what, record.handler] += 1


def metrics(cases: Cases, counters: Counters, now: datetime, drained: bool, heard_at: datetime | None) -> str:
    """The text that Prometheus reads."""
    return "".join(f"{line}\n" for line in _lines(cases, counters, now, drained, heard_at))


def _lines(cases: Cases, counters: Counters, now: datetime, drained: bool, heard_at: datetime | None) -> Iterator[str]:
    real = [case for case in cases.values() if not case.drill and not case.is_closed]
    yield from _head("info", "gauge", "The agent's version.")
    yield f'duenotice_agent_info{{version="{__version__}"}} 1'
    yield from _head("events", "gauge", "Events that hit this VM, by what the agent is doing about them.")
    for state, number in sorted(Counter(map(state_of, real)).items()):
        yield f'duenotice_agent_events{{state="{state}"}} {number}'
    yield from _head("handler_runs_total", "counter", "Handlers that ended, by outcome.")
    for (what, handler), number in sorted(counters.records.items()):
        if handler:
            yield f'duenotice_agent_handler_runs_total{{handler="{handler}",outcome="{what}"}} {number}'
    singles = {
        "approvals_total": ("counter", "Events approved.", counters.records["approved", ""]),
        "documents_total": ("counter", "Documents that were different from the one before.", counters.documents),
        "poll_errors_total": ("counter", "Polls that gave no document.", counters.poll_errors),
        "drained": ("gauge", "Whether the readiness switch says drained.", int(drained)),
        "last_document_timestamp_seconds": ("gauge", "When the document last changed.", _stamp(heard_at)),
        "notice_left_seconds": ("gauge", "Seconds until the next event may start; -1 for none.", _least(real, now)),
    }
    for name, (kind, text, value) in singles.items():
        yield from _head(name, kind, text)
        yield f"duenotice_agent_{name} {value}"


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP duenotice_agent_{name} {text}"
    yield f"# TYPE duenotice_agent_{name} {kind}"


def _stamp(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


def _least(cases: list[Case], now: datetime) -> float:
    coming = [case.not_before for case in cases if case.not_before and not case.event.started and not case.returning]
    return max(0.0, (min(coming) - now).total_seconds()) if coming else -1.0
