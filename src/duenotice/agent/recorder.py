"""Where records go: into the ledger first, then to the log and the counters, so that they always agree."""

from collections import Counter
from typing import Any

from duenotice.agent.cases import Cases, LedgerRecord, apply, forget_old
from duenotice.agent.ledger import Ledger
from duenotice.agent.logs import log

_BAD = ("failed", "stuck")
COUNTED = ("prepared", "failed", "recovered", "stuck", "approved")


class Pretended:
    """A ledger for a dry run: it keeps records in memory and writes nothing."""

    def __init__(self, cases: Cases) -> None:
        self.cases = cases

    def append(self, *records: LedgerRecord) -> None:
        for record in records:
            apply(self.cases, record)
        forget_old(self.cases)


class Counters:
    """Counts records as they are written; labels are the handlers of the configuration, so there are few (S24)."""

    def __init__(self) -> None:
        self.records: Counter[tuple[str, str]] = Counter()
        self.poll_errors = 0
        self.documents = 0

    def count(self, record: LedgerRecord) -> None:
        if record.what in COUNTED and not record.drill:
            self.records[record.what, record.handler] += 1


class Recorder:
    """Every record of the agent passes here once."""

    def __init__(self, ledger: Ledger | Pretended) -> None:
        self._ledger = ledger
        self.counters = Counters()

    @property
    def cases(self) -> Cases:
        return self._ledger.cases

    def append(self, *records: LedgerRecord) -> None:
        """Durable when it returns."""
        if records:
            self._ledger.append(*records)
        for record in records:
            self.counters.count(record)
            if record.what != "note":  # a handler's notes may hold what a log must not show
                log(record.what, "error" if record.what in _BAD else "info", **_fields(record))


def _fields(record: LedgerRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {"event_id": record.event_id, "handler": record.handler, "reason": record.reason}
    if event := record.seen:
        fields |= {"type": event.type, "status": event.status, "resources": event.resources}
        fields |= {"not_before": event.not_before.isoformat() if event.not_before else ""}
    return {key: value for key, value in (fields | {"drill": record.drill}).items() if value}
