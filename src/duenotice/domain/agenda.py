"""When which event is due, as a heap in steady time; stale entries are skipped, then dropped."""

import heapq
from collections.abc import Iterator, Mapping

from duenotice.domain.event import Event, Phase

Agenda = list[tuple[int, str]]

_AT_ONCE = -1

_SPARE = 1000
"""Stale entries that are not worth a clean-up."""


def due_at(event: Event) -> int | None:
    """When something is to happen to an event by itself; None when a driver must report first."""
    if event.phase is Phase.STARTED:
        return event.impact_ends
    return _AT_ONCE if event.approved_by else event.notice_ends


def put(agenda: Agenda, event: Event) -> None:
    """Note when an event is due next."""
    due = due_at(event)
    if due is not None:
        heapq.heappush(agenda, (due, event.id))


def trim(agenda: Agenda, events: Mapping[str, Event]) -> None:
    """Drop entries at the front that no longer hold, and all such when there are many (S24)."""
    while agenda and not holds(agenda[0], events):
        heapq.heappop(agenda)
    if len(agenda) > 2 * len(events) + _SPARE:
        agenda[:] = [entry for entry in agenda if holds(entry, events)]
        heapq.heapify(agenda)


def due(agenda: Agenda, events: Mapping[str, Event], steady: int) -> list[Event]:
    """The events due by now, soonest first."""
    entries = sorted(set(_up_to(agenda, steady)))  # one that was put again stands there twice
    return [events[entry[1]] for entry in entries if holds(entry, events)]


def _up_to(agenda: Agenda, steady: int) -> Iterator[tuple[int, str]]:
    # In a heap no entry is sooner than the one above it, so whole branches are left out.
    waiting = [0]
    while waiting:
        index = waiting.pop()
        if index < len(agenda) and agenda[index][0] <= steady:
            yield agenda[index]
            waiting += (2 * index + 1, 2 * index + 2)


def holds(entry: tuple[int, str], events: Mapping[str, Event]) -> bool:
    """Whether an entry still tells when its event is due."""
    event = events.get(entry[1])
    return event is not None and due_at(event) == entry[0]
