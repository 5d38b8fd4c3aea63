"""What the agent knows: records of what happened, and the cases that result. Pure; the ledger stores the records.

A case is one event that hits this VM, from the moment it was seen until everything is put back. Its life:

    seen ─► preparing ─► prepared │ failed  (each handler) ─► approved ─► returning ─► recovering ─► recovered ─► closed

`returning` is the turning point: after it nothing is prepared any more, and recovery runs. A closed case whose event is
Scheduled again is a new case.
"""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from duenotice.wire.seen_documents import SeenEvent

CLOSED_KEPT = 20
"""How many closed cases are kept, for people to look at (S24)."""

_LONG_AGO = datetime.fromtimestamp(0, UTC)

What = Literal[
    "snapshot",
    "seen",
    "preparing",
    "prepared",
    "failed",
    "note",
    "undone",
    "again",
    "skipped",
    "unprepared",
    "approved",
    "returning",
    "recovering",
    "stuck",
    "recovered",
]


class Work(Struct, frozen=True):
    """What one handler did for a case: for which content, on which boot, and its notes."""

    state: Literal["preparing", "prepared", "failed", "recovering", "recovered"]
    content: str
    boot: str
    at: datetime
    tries: int = 1
    reason: str = ""
    output: str = ""
    """The end of what its hooks printed when all went well; else that is in the reason."""
    notes: dict[str, Any] = {}
    again: int = 0
    """How often it was prepared and must be prepared again: what its hooks had done before does not count any more."""
    skipped: bool = False
    """Whether a person has said that the event need not wait for it (`agent skip`)."""

    @property
    def is_settled(self) -> bool:
        return self.skipped or self.state in ("prepared", "failed")

    @property
    def has_failed(self) -> bool:
        """Whether it has failed to prepare, and nobody has said that this does not matter."""
        return self.state == "failed" and not self.skipped

    @property
    def is_stuck(self) -> bool:
        """Whether putting back was tried and failed."""
        return self.state == "recovering" and bool(self.reason)


class Case(Struct, frozen=True):
    """One event that hits us and what was done about it; `works` stand in the order in which they began."""

    event: SeenEvent
    first_seen: datetime
    drill: bool = False
    not_before: datetime | None = None
    """The last NotBefore that we saw; a Started event no longer shows it."""
    approved: str = ""
    """The content that was approved."""
    approved_at: datetime | None = None
    unprepared: str = ""
    """What was not done when the event started, or its notice was over."""
    unprepared_at: datetime | None = None
    returning: str = ""
    """Why the way back began: `gone` or `rebooted`."""
    works: dict[str, Work] = {}

    @property
    def content(self) -> str:
        return fingerprint(self.event)

    @property
    def is_closed(self) -> bool:
        return bool(self.returning) and all(work.state == "recovered" for work in self.works.values())


Cases = dict[str, Case]


class LedgerRecord(Struct, frozen=True, omit_defaults=True):
    """One thing that happened; `boot` names the boot it happened on."""

    what: What
    event_id: str
    at: datetime
    boot: str = ""
    handler: str = ""
    content: str = ""
    reason: str = ""
    output: str = ""
    key: str = ""
    value: Any = None
    seen: SeenEvent | None = None
    drill: bool = False
    cases: dict[str, Case] = {}


def fingerprint(event: SeenEvent) -> str:
    """Names the content that work was done for (S12). A NotBefore that moves later leaves it as it is."""
    parts = (event.event_id, event.type, *sorted(event.resources))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def apply(cases: Cases, record: LedgerRecord) -> None:
    """Apply one record. A record that fits no case changes nothing, so that an old ledger can always be read."""
    case = cases.get(record.event_id)
    if record.what == "snapshot":
        cases.clear()
        cases.update(record.cases)
    elif record.what == "seen":
        _seen(cases, case, record)
    elif case is not None:
        cases[record.event_id] = _CHANGES[record.what](case, record)


def unfinished(cases: Cases) -> set[str]:
    """The handlers that have something to put back."""
    works = (item for case in cases.values() for item in case.works.items())
    return {name for name, work in works if work.state != "recovered"}


def snapshot(cases: Cases) -> LedgerRecord:
    """One record that stands for all before it."""
    return LedgerRecord(
        "snapshot", "", max((case.first_seen for case in cases.values()), default=_LONG_AGO), cases=cases
    )


def _seen(cases: Cases, case: Case | None, record: LedgerRecord) -> None:
    assert record.seen is not None
    if case is None or case.is_closed:
        cases.pop(
            record.event_id, None
        )  # the new one goes to the end: cases are in the order in which they were first seen
        cases[record.event_id] = Case(record.seen, record.at, record.drill, record.seen.not_before)
    else:
        not_before = record.seen.not_before or case.not_before
        cases[record.event_id] = replace(case, event=record.seen, not_before=not_before)


def forget_old(cases: Cases) -> None:
    """Drop the oldest of those that are closed."""
    closed = [event_id for event_id, case in cases.items() if case.is_closed]
    for event_id in closed[:-CLOSED_KEPT]:
        del cases[event_id]


def _begun(case: Case, record: LedgerRecord) -> Case:
    old = case.works.get(record.handler)
    tries, notes, again = (old.tries + 1, old.notes, old.again) if old else (1, {}, 0)
    work = Work("preparing", record.content, record.boot, record.at, tries, notes=notes, again=again)
    return _with(case, record, work)


def _now(state: Literal["prepared", "failed", "recovering", "recovered"]) -> Callable[[Case, LedgerRecord], Case]:
    def change(case: Case, record: LedgerRecord) -> Case:
        if (work := case.works.get(record.handler)) is None:
            return case
        return _with(case, record, replace(work, state=state, at=record.at, reason=record.reason, output=record.output))

    return change


def _again(case: Case, record: LedgerRecord) -> Case:
    """What was done does not count any more: prepare again, or try at once to put back."""
    if (work := case.works.get(record.handler)) is None:
        return case
    content = work.content if case.returning else ""
    again = work.again + (work.state == "prepared")  # what has failed goes on where it ended
    return _with(case, record, replace(work, content=content, reason=record.reason, skipped=False, again=again))


def _skipped(case: Case, record: LedgerRecord) -> Case:
    """On the way out the work counts, for this content. On the way back it is given up."""
    work = case.works.get(record.handler)
    if work is None:  # it had not begun, so there is nothing to put back
        work = Work("recovered", record.content, record.boot, record.at, 0)
    if case.returning:
        return _with(case, record, replace(work, state="recovered", at=record.at, reason=record.reason))
    state: Literal["failed", "prepared", "recovered"] = "failed"  # what it had begun is still put back later
    if work.state in ("prepared", "recovered"):
        state = work.state
    made = replace(work, state=state, content=record.content, at=record.at, reason=record.reason, skipped=True)
    return _with(case, record, made)


def _noted(case: Case, record: LedgerRecord) -> Case:
    if (work := case.works.get(record.handler)) is None:
        return case
    return _with(case, record, replace(work, notes={**work.notes, record.key: record.value}))


def _with(case: Case, record: LedgerRecord, work: Work) -> Case:
    return replace(case, works={**case.works, record.handler: work})


def _approved(case: Case, record: LedgerRecord) -> Case:
    return replace(case, approved=record.content, approved_at=record.at)


_CHANGES: dict[What, Callable[[Case, LedgerRecord], Case]] = {
    "preparing": _begun,
    "prepared": _now("prepared"),
    "failed": _now("failed"),
    "note": _noted,
    "undone": _again,
    "again": _again,
    "skipped": _skipped,
    "unprepared": lambda case, record: replace(case, unprepared=record.reason, unprepared_at=record.at),
    "approved": _approved,
    "returning": lambda case, record: replace(case, returning=record.reason),
    "recovering": _now("recovering"),
    "stuck": _now("recovering"),
    "recovered": _now("recovered"),
}
