"""Where records go: into the ledger first, then to the log and the counters, so that they always agree."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from datetime import datetime
from typing import Any

from duenotice.agent.cases import Cases, LedgerRecord, apply, forget_old
from duenotice.agent.ledger import Ledger
from duenotice.agent.logs import complain, log
from duenotice.clock import wall
from duenotice.errors import DuenoticeError

_LEVELS = {**dict.fromkeys(("failed", "stuck", "undone", "unprepared"), "error"), "skipped": "warning"}
OUTCOMES = ("prepared", "failed", "undone", "skipped", "recovered", "stuck")
"""What is counted for each handler."""
COUNTED = (*OUTCOMES, "approved", "unprepared")


class Pretended:
    """A ledger for a dry run: it keeps records in memory and writes nothing."""

    times_lost = 0
    shortage = ""

    def __init__(self, cases: Cases) -> None:
        self.cases = cases

    async def append(self, *records: LedgerRecord) -> None:
        for record in records:
            apply(self.cases, record)
        forget_old(self.cases)

    async def look_after(self, rewrite: bool) -> None:
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
        self.lost_at: datetime | None = None
        self.failure = ""
        """Why the ledger cannot be written now; empty when it can."""

    @property
    def cases(self) -> Cases:
        return self._ledger.cases

    @property
    def shortage(self) -> str:
        """Why nothing more could be recorded soon: said before an event comes, when there is time to do something."""
        return self._ledger.shortage

    async def append(self, *records: LedgerRecord) -> None:
        """Durable when it returns. Who is cancelled meanwhile waits no longer; the records are written all the same."""
        if records:
            writing = asyncio.ensure_future(self._append(records))
            writing.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.shield(writing)

    async def look_after(self) -> None:
        """See that the ledger is still there; if it could not be written, try to."""
        await self._watched(self._ledger.look_after(rewrite=bool(self.failure)))

    def _say_if_lost(self) -> None:
        if self._ledger.times_lost > self.times_lost:
            self.times_lost, self.lost_at = self._ledger.times_lost, wall()
            hint = "Nothing is lost. Find out who moves, removes or changes files in the state directory."
            log("ledger-lost", "error", error="The ledger was gone or changed; it was written again.", hint=hint)

    async def _watched(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something with the ledger, and note whether that is possible now (S32)."""
        try:
            await work
        except DuenoticeError as error:
            complain("ledger-failed", error)
            self.failure = f"{error.message} {error.hint}".strip()
            raise
        if self.failure:
            self.failure = ""
            log("ledger-works", note="The ledger can be written again.")
        self._say_if_lost()

    async def _append(self, records: tuple[LedgerRecord, ...]) -> None:
        await self._watched(self._ledger.append(*records))
        for record in records:
            self.counters.count(record)
            if record.what != "note":  # a handler's notes may hold what a log must not show
                log(record.what, _LEVELS.get(record.what, "info"), **_fields(record))


def _fields(record: LedgerRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {"event_id": record.event_id, "handler": record.handler, "reason": record.reason}
    fields["output"] = record.output
    if event := record.seen:
        fields |= {"type": event.type, "status": event.status, "resources": event.resources}
        fields |= {"not_before": event.not_before.isoformat() if event.not_before else ""}
    return {key: value for key, value in (fields | {"drill": record.drill}).items() if value}
