"""Follows a drill by reading the ledger that the agent writes; changes nothing."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from duenotice.agent.cases import Record
from duenotice.agent.ledger import NAME, read_cases, read_ledger
from duenotice.clock import monotonic

LOOK_SECONDS = 0.2
PATIENCE = 60.0
"""Seconds that recovery may take after the end of the drill."""


class Line(NamedTuple):
    """One step, in words, and whether it went well."""

    text: str
    good: bool = True


def follow(directory: Path, event_id: str, seconds: float) -> Iterator[Line]:
    """Each step as it is recorded, until everything is put back."""
    told = 0
    deadline = monotonic() + seconds + PATIENCE
    while monotonic() < deadline:
        records = [each for each in read_ledger(directory / NAME).records if each.event_id == event_id]
        yield from (_line(record) for record in records[told:] if record.what != "note")
        told = max(told, len(records))
        case = read_cases(directory).get(event_id)
        if case is not None and case.is_closed:
            yield Line("no handler was used" if not case.works else "everything is put back")
            return
        time.sleep(LOOK_SECONDS)
    yield Line("the drill did not end in time", good=False)


def _line(record: Record) -> Line:
    parts = (record.what, record.handler, record.seen.status if record.seen else "", record.reason)
    return Line(" ".join(filter(None, parts)), record.what not in ("failed", "stuck"))
