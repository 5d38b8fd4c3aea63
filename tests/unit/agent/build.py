"""Events, worlds and records for tests of the agent's rules."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from duenotice.agent.planner import ApprovalPolicy, HandlerRule, HandlerSpec, World
from duenotice.agent.state import Events, LedgerRecord, TrackedEvent, apply, revision_of
from duenotice.wire.seen_documents import SeenEvent

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
ME = "web-0"
ID = "805C2F53-88EE-4045-95F8-788FD1634F66"
OWN = ApprovalPolicy("own")


def event(status: str = "Scheduled", *, notice: float = 900.0, **more: Any) -> SeenEvent:
    """A Reboot of ME alone, unless said otherwise."""
    fields: dict[str, Any] = {"event_id": ID, "type": "Reboot", "resources": (ME,)} | more
    not_before = None if status == "Started" else NOW + timedelta(seconds=notice)
    return SeenEvent(status=status, not_before=not_before, **fields)


def world(*handlers: HandlerSpec | str, approval: ApprovalPolicy = OWN, boot: str = "boot-1", **more: Any) -> World:
    """One rule for everything that calls for these handlers; `rule` changes it."""
    specs = [each if isinstance(each, HandlerSpec) else HandlerSpec(each) for each in handlers]
    rule = HandlerRule(tuple(spec.name for spec in specs), **more.pop("rule", {}))
    fields: dict[str, Any] = {"now": NOW, "rules": (rule,), "handlers": {spec.name: spec for spec in specs}} | more
    return World(ME, boot, approval=approval, **fields)


def record(kind: Any, handler: str = "", of: SeenEvent | None = None, **more: Any) -> LedgerRecord:
    """A record about the event, for its revision as it is."""
    about = of or event()
    fields = {"boot": "boot-1", "revision": revision_of(about)} | more
    return LedgerRecord(kind, about.event_id, fields.pop("at", NOW), handler=handler, **fields)


def seen(of: SeenEvent | None = None, **more: Any) -> LedgerRecord:
    """The event was read in a document."""
    return record("seen", of=of, seen=of or event(), **more)


def events(*records: LedgerRecord) -> Events:
    """What these records add up to."""
    made: Events = {}
    for each in records:
        apply(made, each)
    return made


class Appends(Protocol):
    """A ledger, or the recorder before it."""

    async def append(self, *records: LedgerRecord) -> None: ...


def append(ledger: Appends, *records: LedgerRecord) -> None:
    """Durable when it returns."""
    asyncio.run(ledger.append(*records))


def tracked(*records: LedgerRecord) -> TrackedEvent:
    """The only event that these records make."""
    (made,) = events(*records).values()
    return made
