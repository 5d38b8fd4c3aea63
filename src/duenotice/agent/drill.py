"""A drill: an event that only this machine sees. Handlers run for real; nothing is ever approved for it (S12).

The drill is a file in the state directory, so that it goes on when the agent is started again. It is
Scheduled until its notice is over or everything is prepared, then Started for a while, then gone. A command that
follows it reads the agent's ledger.
"""

import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from duenotice.agent.ledger import NAME as LEDGER
from duenotice.agent.ledger import read_events, read_ledger
from duenotice.agent.planner import World, is_ready
from duenotice.agent.state import Events, LedgerRecord, TrackedEvent
from duenotice.clock import LAST_MOMENT, later, monotonic
from duenotice.errors import Malformed, Unavailable, reason
from duenotice.system import read_whole
from duenotice.wire.seen_documents import SeenEvent

NAME = "drill.json"
LOOK_SECONDS = 0.2
PATIENCE = 60.0
"""Seconds that recovery may take after the end of the drill."""
LONGEST = timedelta(days=30)
"""How long a drill may give notice, and how long it may last."""
_PREFIX = "DRILL-"


class Drill(Struct, frozen=True, forbid_unknown_fields=True):
    """The event that is played."""

    event_id: str
    type: str
    not_before: datetime
    lasts: float
    source: str = "User"
    duration: int = -1

    def event(self, started: bool, vm: str) -> SeenEvent:
        """The event as a document would show it."""
        status, not_before = ("Started", None) if started else ("Scheduled", self.not_before)
        words = "This is a drill."
        return SeenEvent(self.event_id, status, self.type, (vm,), not_before, words, self.source, self.duration)


def new_id() -> str:
    """Not a GUID, so that nobody takes it for a real one."""
    return f"{_PREFIX}{secrets.token_hex(6).upper()}"


def inject(directory: Path, drill: Drill) -> None:
    """Write the file, so that the agent sees the drill, also the next one."""
    fresh = directory / f"{NAME}.new"
    try:
        fresh.write_bytes(msgspec.json.encode(drill))
        fresh.replace(directory / NAME)
    except OSError as error:
        what = f"{directory / NAME} cannot be written: {reason(error)}."
        raise Unavailable(what, hint="Look at the disk and the directory.") from None


def remove(directory: Path) -> None:
    """The drill is over, or is called off."""
    try:
        (directory / NAME).unlink(missing_ok=True)
    except OSError as error:
        what = f"{directory / NAME} cannot be removed: {reason(error)}."
        raise Unavailable(what, hint="Look at the disk and the directory.") from None


def decode(data: bytes) -> Drill:
    """A drill that can be played, whatever the bytes are; else an error."""
    try:
        drill = msgspec.json.decode(data, type=Drill)
        _check(drill)
    except (ValueError, msgspec.MsgspecError) as error:
        raise Malformed(f"This is not a drill that can be played: {error}.", hint="duenotice agent drill") from None
    return drill


def current(directory: Path, events: Events) -> Drill | None:
    """The drill that was asked for; one that is over is removed. Whatever the file holds, it is a drill or an error."""
    file = directory / NAME
    try:
        drill = decode(read_whole(file))
    except FileNotFoundError:
        return None
    except (OSError, Malformed) as error:
        hint = "Remove it: duenotice agent drill --cancel."
        raise Malformed(f"{file} cannot be used: {reason(error)}", hint=hint) from None
    if drill.event_id in events and events[drill.event_id].is_closed:
        with suppress(OSError):  # a disk that is read-only now: it is over all the same
            file.unlink(missing_ok=True)
        return None
    return drill


def _check(drill: Drill) -> None:
    """Raises a ValueError: its id could be that of a real event, or its times be too late for any clock."""
    words = (drill.event_id, drill.type, drill.source)
    if not all(word.isprintable() and 0 < len(word) <= 80 for word in words) or not drill.event_id.startswith(_PREFIX):
        raise ValueError("its words are odd")
    if drill.not_before.tzinfo is None or drill.not_before.replace(tzinfo=UTC) > LAST_MOMENT - LONGEST:
        raise ValueError("its not_before is odd")
    if not 0.0 <= drill.lasts <= LONGEST.total_seconds():
        raise ValueError("it lasts for an odd time")


def drilled(drill: Drill | None, events: Events, world: World) -> list[SeenEvent]:
    """The events of the drill as they are now; none when it is over."""
    event = events.get(drill.event_id) if drill else None
    if drill is None or (event is not None and event.recovering):
        return []
    start = min(drill.not_before, _prepared_at(event, world) or drill.not_before)
    if world.now >= later(start, timedelta(seconds=drill.lasts)):
        return []
    return [drill.event(world.now >= start, world.me)]


def _prepared_at(event: TrackedEvent | None, world: World) -> datetime | None:
    if event is None or not is_ready(event, world):
        return None
    return max((run.at for run in event.runs.values()), default=event.first_seen)


class DrillLine(NamedTuple):
    """One step, in words, and whether it went well."""

    text: str
    good: bool = True


def follow(directory: Path, event_id: str, seconds: float) -> Iterator[DrillLine]:
    """Each step as it is recorded, until everything is put back."""
    told = 0
    deadline = monotonic() + seconds + PATIENCE
    while monotonic() < deadline:
        records = [each for each in read_ledger(directory / LEDGER).records if each.event_id == event_id]
        yield from (_line(record) for record in records[told:] if record.kind != "note")
        told = max(told, len(records))
        event = read_events(directory).get(event_id)
        if event is not None and event.is_closed:
            yield DrillLine("no handler was used" if not event.runs else "everything is put back")
            return
        time.sleep(LOOK_SECONDS)
    yield DrillLine("the drill did not end in time", good=False)


def _line(record: LedgerRecord) -> DrillLine:
    printed = record.output.splitlines()[-1:]
    parts = (record.kind, record.handler, record.seen.status if record.seen else "", record.reason, *printed)
    return DrillLine(" ".join(filter(None, parts)), record.kind not in ("failed", "stuck"))
