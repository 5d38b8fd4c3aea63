"""A rehearsal: an event that only this machine sees. Handlers run for real; nothing is ever approved for it (S12).

The drill is a file in the state directory: who may write there may drill. It is Scheduled until its notice is over or
everything is prepared, then Started for a while, then gone.
"""

import secrets
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from msgspec import Struct

from duenotice.agent.cases import Case, Cases
from duenotice.agent.plan import View, is_ready
from duenotice.wire.seen_document import SeenEvent

NAME = "drill.json"


class Drill(Struct, frozen=True, forbid_unknown_fields=True):
    """The event that is played."""

    event_id: str
    type: str
    not_before: datetime
    lasts: float
    source: str = "User"
    duration: int = -1


def new_id() -> str:
    """Not a GUID, so that nobody takes it for a real one."""
    return f"DRILL-{secrets.token_hex(6).upper()}"


def inject(directory: Path, drill: Drill) -> None:
    """Let the agent of this directory see it."""
    fresh = directory / f"{NAME}.new"
    fresh.write_bytes(msgspec.json.encode(drill))
    fresh.replace(directory / NAME)


def current(directory: Path) -> Drill | None:
    """The drill that was asked for, if there is one that can be read."""
    try:
        return msgspec.json.decode((directory / NAME).read_bytes(), type=Drill)
    except (OSError, msgspec.MsgspecError):
        return None


def drilled(drill: Drill | None, cases: Cases, view: View) -> list[SeenEvent]:
    """The events of the drill as they are now; none when it is over."""
    case = cases.get(drill.event_id) if drill else None
    if drill is None or (case is not None and case.returning):
        return []
    start = min(drill.not_before, _prepared_at(case, view) or drill.not_before)
    if view.now >= start + timedelta(seconds=drill.lasts):
        return []
    started = view.now >= start
    return [
        SeenEvent(
            drill.event_id,
            "Started" if started else "Scheduled",
            drill.type,
            (view.me,),
            None if started else drill.not_before,
            "This is a drill.",
            drill.source,
            drill.duration,
        )
    ]


def _prepared_at(case: Case | None, view: View) -> datetime | None:
    if case is None or not is_ready(case, view):
        return None
    return max((work.at for work in case.works.values()), default=case.first_seen)
