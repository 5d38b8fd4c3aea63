"""When which event is due, as a heap in steady time; stale entries are skipped, then dropped.

An event that has to wait for another update domain of its scope is put again when it may go on. Until then it is not on
it, or only for the end of its span.
"""

import heapq
from collections.abc import Mapping

from duenotice.domain.event import Event, Phase
from duenotice.domain.heaps import ascending, up_to
from duenotice.domain.holds import Holds, ScopeHolds, hold_of, holds_delete, holds_domain

Entry = tuple[int, str]
Agenda = list[Entry]
Events = Mapping[str, Event]

_AT_ONCE = -1

_SPARE = 1000
"""Stale entries that are not worth a clean-up."""


def due_at(event: Event, hold: ScopeHolds, deletes_together: bool = True) -> int | None:
    """When something happens to an event by itself; None when something else has to happen first."""
    if event.phase is Phase.STARTED:
        return event.impact_ends
    if event.is_advice:
        return None
    if hold.others is not None:  # nobody can be earlier than the last
        return hold.others.steady
    if holds_domain(hold, event):  # it can only miss its span
        return None if event.opening is None or event.opening.ends is None else event.opening.closes
    if not event.approved_by or (deletes_together and holds_delete(hold, event)):
        return event.notice_ends  # a delete that waits for others waits no longer than its notice
    return _AT_ONCE if event.opening is None else event.opening.opens


def put(agenda: Agenda, event: Event, hold: ScopeHolds) -> None:
    """Note when an event is due next."""
    due = due_at(event, hold)
    if due is not None:
        heapq.heappush(agenda, (due, event.id))


def trim(agenda: Agenda, events: Events, holds: Holds) -> None:
    """Drop stale entries at the front, and all stale ones when there are many (S24)."""
    while agenda and not _is_true(agenda[0], events, holds):
        heapq.heappop(agenda)
    if len(agenda) > 2 * len(events) + _SPARE:
        agenda[:] = dict.fromkeys(entry for entry in agenda if _is_true(entry, events, holds))
        heapq.heapify(agenda)


def due(agenda: Agenda, events: Events, holds: Holds, steady: int) -> list[Entry]:
    """What is due by now, in no order; one that was put twice may stand there twice."""
    if not agenda or agenda[0][0] > steady:
        return []  # as nearly always when a command is done
    return [entry for entry in up_to(agenda, steady) if _is_true(entry, events, holds)]


def next_after(agenda: Agenda, events: Events, holds: Holds, steady: int) -> int | None:
    """The first moment later than this at which something is due."""
    later = (entry for entry in ascending(agenda) if entry[0] > steady)
    return next((entry[0] for entry in later if _is_true(entry, events, holds)), None)


def _is_true(entry: Entry, events: Events, holds: Holds) -> bool:
    """Whether an entry is still true."""
    event = events.get(entry[1])
    return event is not None and due_at(event, hold_of(holds, event)) == entry[0]
