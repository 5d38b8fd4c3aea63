"""Where records go: into the ledger first, then to the log and the counters, so that they always agree."""

import asyncio
from collections import Counter
from typing import Any

from duenotice.agent.cases import Cases, LedgerRecord, apply, forget_old
from duenotice.agent.ledger import Ledger
from duenotice.agent.logs import log

_BAD = ("failed", "stuck")
COUNTED = ("prepared", "failed", "recovered", "stuck", "approved")


class Pretended:
    """A ledger for a dry run: it keeps records in memory and writes nothing."""

    times_lost = 0

    def __init__(self, cases: Cases) -> None:
        self.cases = cases

    async def append(self, *records: LedgerRecord) -> None:
        for record in records:
            apply(self.cases, record)
        forget_old(self.cases)

    async def look_after(self) -> None:
        """Nothing is on a disk."""


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
        self.times_lost = 0

    @property
    def cases(self) -> Cases:
        return self._ledger.cases

    async def append(self, *records: LedgerRecord) -> None:
        """Durable when it returns. Who is cancelled meanwhile waits no longer; the records are written all the same."""
        if records:
            writing = asyncio.ensure_future(self._append(records))
            writing.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.shield(writing)

    async def look_after(self) -> None:
        """See that the ledger is still there."""
        await self._ledger.look_after()
        self._say_if_lost()

    def _say_if_lost(self) -> None:
        if self._ledger.times_lost > self.times_lost:
            self.times_lost = self._ledger.times_lost
            hint = "Nothing is lost. Find out who moves, removes or changes files in the state directory."
            log("ledger-lost", "error", error="The ledger was gone or changed; it was written again.", hint=hint)

    async def _append(self, records: tuple[LedgerRecord, ...]) -> None:
        await self._ledger.append(*records)
        self._say_if_lost()
        for record in records:
            self.counters.count(record)
            if record.what != "note":  # a handler's notes may hold what a log must not show
                log(record.what, "error" if record.what in _BAD else "info", **_fields(record))


def _fields(record: LedgerRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {"event_id": record.event_id, "handler": record.handler, "reason": record.reason}
    fields["output"] = record.output
    if event := record.seen:
        fields |= {"type": event.type, "status": event.status, "resources": event.resources}
        fields |= {"not_before": event.not_before.isoformat() if event.not_before else ""}
    return {key: value for key, value in (fields | {"drill": record.drill}).items() if value}
