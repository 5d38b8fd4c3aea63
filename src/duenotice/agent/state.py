"""What the agent knows: records of what happened, and the events that result. Pure; the ledger stores the records.

A tracked event is one that hits this VM, from the moment it was seen until everything is put back. Its life:

    seen ─► preparing ─► prepared │ failed  (each handler) ─► approved ─► returning ─► recovering ─► recovered ─► closed

`returning` is the turning point: after it nothing is prepared any more, and recovery runs. A closed event that is
Scheduled again is a new one. Some fields have another name in the ledger (`rename`): its format stays as it is.
"""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from duenotice.wire.seen_documents import SeenEvent

CLOSED_KEPT = 20
"""How many closed events are kept, for people to look at (S24)."""

_LONG_AGO = datetime.fromtimestamp(0, UTC)

RecordKind = Literal[
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


class HandlerRun(Struct, frozen=True, rename={"revision": "content"}):
    """What one handler did for an event: for which revision of it, on which boot, and its notes."""

    state: Literal["preparing", "prepared", "failed", "recovering", "recovered"]
    revision: str
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


class TrackedEvent(Struct, frozen=True, rename={"seen": "event", "recovering": "returning", "runs": "works"}):
    """One event that hits us and what was done about it; `runs` stand in the order in which they began."""

    seen: SeenEvent
    """As the last document has it."""
    first_seen: datetime
    drill: bool = False
    not_before: datetime | None = None
    """The last NotBefore that we saw; a Started event no longer shows it."""
    approved: str = ""
    """The revision that was approved."""
    approved_at: datetime | None = None
    unprepared: str = ""
    """What was not done when the event started, or its notice was over."""
    unprepared_at: datetime | None = None
    recovering: str = ""
    """Why all is put back: `gone` or `rebooted`; empty before that."""
    runs: dict[str, HandlerRun] = {}

    @property
    def revision(self) -> str:
        return revision_of(self.seen)

    @property
    def is_closed(self) -> bool:
        return bool(self.recovering) and all(run.state == "recovered" for run in self.runs.values())


Events = dict[str, TrackedEvent]


class LedgerRecord(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={"kind": "what", "revision": "content", "events": "cases"},
):
    """One thing that happened; `boot` names the boot it happened on."""

    kind: RecordKind
    event_id: str
    at: datetime
    boot: str = ""
    handler: str = ""
    revision: str = ""
    reason: str = ""
    output: str = ""
    key: str = ""
    value: Any = None
    seen: SeenEvent | None = None
    drill: bool = False
    events: dict[str, TrackedEvent] = {}


def revision_of(seen: SeenEvent) -> str:
    """Names what work was done for: id, type and VMs (S12). A NotBefore that moves later leaves it as it is."""
    parts = (seen.event_id, seen.type, *sorted(seen.resources))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def apply(events: Events, record: LedgerRecord) -> None:
    """Apply one record. A record that fits no event changes nothing, so that an old ledger can always be read."""
    event = events.get(record.event_id)
    if record.kind == "snapshot":
        events.clear()
        events.update(record.events)
    elif record.kind == "seen":
        _seen(events, event, record)
    elif event is not None:
        events[record.event_id] = _CHANGES[record.kind](event, record)


def unfinished(events: Events) -> set[str]:
    """The handlers that have something to put back."""
    runs = (item for event in events.values() for item in event.runs.items())
    return {name for name, run in runs if run.state != "recovered"}


def snapshot(events: Events) -> LedgerRecord:
    """One record that stands for all before it."""
    return LedgerRecord(
        "snapshot", "", max((event.first_seen for event in events.values()), default=_LONG_AGO), events=events
    )


def _seen(events: Events, event: TrackedEvent | None, record: LedgerRecord) -> None:
    assert record.seen is not None
    if event is None or event.is_closed:
        events.pop(
            record.event_id, None
        )  # the new one goes to the end: events are in the order in which they were first seen
        events[record.event_id] = TrackedEvent(record.seen, record.at, record.drill, record.seen.not_before)
    else:
        not_before = record.seen.not_before or event.not_before
        events[record.event_id] = replace(event, seen=record.seen, not_before=not_before)


def forget_old(events: Events) -> None:
    """Drop the oldest of those that are closed."""
    closed = [event_id for event_id, event in events.items() if event.is_closed]
    for event_id in closed[:-CLOSED_KEPT]:
        del events[event_id]


def _begun(event: TrackedEvent, record: LedgerRecord) -> TrackedEvent:
    old = event.runs.get(record.handler)
    tries, notes, again = (old.tries + 1, old.notes, old.again) if old else (1, {}, 0)
    run = HandlerRun("preparing", record.revision, record.boot, record.at, tries, notes=notes, again=again)
    return _with(event, record, run)


def _now(
    state: Literal["prepared", "failed", "recovering", "recovered"],
) -> Callable[[TrackedEvent, LedgerRecord], TrackedEvent]:
    def change(event: TrackedEvent, record: LedgerRecord) -> TrackedEvent:
        if (run := event.runs.get(record.handler)) is None:
            return event
        return _with(event, record, replace(run, state=state, at=record.at, reason=record.reason, output=record.output))

    return change


def _again(event: TrackedEvent, record: LedgerRecord) -> TrackedEvent:
    """What was done does not count any more: prepare again, or try at once to put back."""
    if (run := event.runs.get(record.handler)) is None:
        return event
    revision = run.revision if event.recovering else ""
    again = run.again + (run.state == "prepared")  # what has failed goes on where it ended
    return _with(event, record, replace(run, revision=revision, reason=record.reason, skipped=False, again=again))


def _skipped(event: TrackedEvent, record: LedgerRecord) -> TrackedEvent:
    """Before the event the work counts, for this revision. After it, putting back is given up."""
    run = event.runs.get(record.handler)
    if run is None:  # it had not begun, so there is nothing to put back
        run = HandlerRun("recovered", record.revision, record.boot, record.at, 0)
    if event.recovering:
        return _with(event, record, replace(run, state="recovered", at=record.at, reason=record.reason))
    state: Literal["failed", "prepared", "recovered"] = "failed"  # what it had begun is still put back later
    if run.state in ("prepared", "recovered"):
        state = run.state
    made = replace(run, state=state, revision=record.revision, at=record.at, reason=record.reason, skipped=True)
    return _with(event, record, made)


def _noted(event: TrackedEvent, record: LedgerRecord) -> TrackedEvent:
    if (run := event.runs.get(record.handler)) is None:
        return event
    return _with(event, record, replace(run, notes={**run.notes, record.key: record.value}))


def _with(event: TrackedEvent, record: LedgerRecord, run: HandlerRun) -> TrackedEvent:
    return replace(event, runs={**event.runs, record.handler: run})


def _approved(event: TrackedEvent, record: LedgerRecord) -> TrackedEvent:
    return replace(event, approved=record.revision, approved_at=record.at)


_CHANGES: dict[RecordKind, Callable[[TrackedEvent, LedgerRecord], TrackedEvent]] = {
    "preparing": _begun,
    "prepared": _now("prepared"),
    "failed": _now("failed"),
    "note": _noted,
    "undone": _again,
    "again": _again,
    "skipped": _skipped,
    "unprepared": lambda event, record: replace(event, unprepared=record.reason, unprepared_at=record.at),
    "approved": _approved,
    "returning": lambda event, record: replace(event, recovering=record.reason),
    "recovering": _now("recovering"),
    "stuck": _now("recovering"),
    "recovered": _now("recovered"),
}
