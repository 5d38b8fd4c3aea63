"""When which event is due, as a heap in steady time, and what blocks events (G01, S11, C07).

Stale entries of the heap are skipped, then dropped. An event that has to wait for another update domain of its scope is
put again when it may go on. Until then it is not on it, or only for the end of its span.
"""

import heapq
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct, structs

from duenotice.clock import Instant
from duenotice.domain.bulk import ascending, up_to
from duenotice.domain.event import BY_USER, PLANNED, Event, EventType, Phase


class Unapproved(NamedTuple):
    """The last moment at which the notice ends of those on a host who have not approved, by both faces of time."""

    at: datetime
    steady: int


class ScopeBlockers(Struct, frozen=True, gc=False):
    """For one scope: how many events of the platform hit each domain now, and the deletes to come.

    Events that need the consent of a whole host wait for `others` too (C07).
    """

    hits: tuple[tuple[int | None, int], ...] = ()
    unapproved_deletes: int = 0
    approved_deletes: int = 0
    others: Unapproved | None = None


NOTHING = ScopeBlockers()

Blockers = dict[str, ScopeBlockers]
"""By scope, and by `Event.shares`; where nothing has to wait there is no entry."""


def blockers_of(blockers: Blockers, event: Event) -> ScopeBlockers:
    """All that may make an event wait."""
    blocked_by = blockers.get(event.scope, NOTHING)
    shared = None if (key := event.shares) is None else blockers.get(key)
    return blocked_by if shared is None else structs.replace(blocked_by, others=shared.others)


def awaits_others(blocked_by: ScopeBlockers, now: Instant) -> bool:
    """Whether somebody on its host has neither approved nor run out of notice (C07)."""
    return blocked_by.others is not None and (now.steady < blocked_by.others.steady or now.at < blocked_by.others.at)


def consents(blockers: Blockers, key: str, waiting: Iterable[Event]) -> bool:
    """These events of a host wait for each other; tells whether that goes on as before."""
    silent = [event for event in waiting if not event.approved_by]
    others = None
    if silent:
        others = Unapproved(max(event.not_before for event in silent), max(event.notice_ends for event in silent))
    before = blockers.pop(key, NOTHING)
    if others is not None:
        blockers[key] = ScopeBlockers(others=others)
    return before.others == others


def blocks_domain(blocked_by: ScopeBlockers, event: Event) -> bool:
    """Whether another domain of its scope is being hit by the platform right now (G01, S11)."""
    if not blocked_by.hits or event.update_domain is None or event.cause not in PLANNED:
        return False
    return any(domain != event.domain for domain, _ in blocked_by.hits)


def blocks_delete(blocked_by: ScopeBlockers, event: Event) -> bool:
    """Whether an approved delete has another one beside it that nobody has approved yet."""
    return blocked_by.unapproved_deletes > 0 and event.type is EventType.TERMINATE


def alike(one: ScopeBlockers, other: ScopeBlockers) -> bool:
    """Whether the same events have to wait."""
    if one is other:
        return True
    if bool(one.unapproved_deletes) != bool(other.unapproved_deletes):
        return False
    return one.hits == other.hits or dict(one.hits).keys() == dict(other.hits).keys()


def count(blockers: Blockers, scope: str, before: Event | None, after: Event | None) -> bool:
    """An event of a scope has changed, come (`before` None) or gone; tells whether the same events have to wait."""
    known = blockers.get(scope, NOTHING)
    now = _with(_with(known, before, -1), after, 1)
    if now is known:
        return True
    if now == NOTHING:
        blockers.pop(scope, None)
    else:
        blockers[scope] = now
    return alike(known, now)


def _with(blocked_by: ScopeBlockers, event: Event | None, number: int) -> ScopeBlockers:
    if event is None:
        return blocked_by
    if event.phase is Phase.STARTED:
        return blocked_by if event.cause in BY_USER else _with_hit(blocked_by, event.domain, number)
    if event.type is not EventType.TERMINATE:
        return blocked_by
    if event.approved_by:
        return structs.replace(blocked_by, approved_deletes=blocked_by.approved_deletes + number)
    return structs.replace(blocked_by, unapproved_deletes=blocked_by.unapproved_deletes + number)


def _with_hit(blocked_by: ScopeBlockers, domain: int | None, number: int) -> ScopeBlockers:
    counts = dict(blocked_by.hits)
    counts[domain] = counts.get(domain, 0) + number
    return structs.replace(blocked_by, hits=tuple((domain, hits) for domain, hits in counts.items() if hits))


Entry = tuple[int, str]
TimerHeap = list[Entry]
Events = Mapping[str, Event]

_AT_ONCE = -1

_SPARE = 1000
"""Stale entries that are not worth a clean-up."""


def due_at(event: Event, blocked_by: ScopeBlockers, deletes_together: bool = True) -> int | None:
    """When something happens to an event by itself; None when something else has to happen first."""
    if event.phase is Phase.STARTED:
        return event.impact_ends
    if event.is_advice:
        return None
    if blocked_by.others is not None:  # nobody can be earlier than the last
        return blocked_by.others.steady
    if blocks_domain(blocked_by, event):  # it can only miss its span
        return None if event.opening is None or event.opening.ends is None else event.opening.closes
    if not event.approved_by or (deletes_together and blocks_delete(blocked_by, event)):
        return event.notice_ends  # a delete that waits for others waits no longer than its notice
    return _AT_ONCE if event.opening is None else event.opening.opens


def put(timers: TimerHeap, event: Event, blocked_by: ScopeBlockers) -> None:
    """Note when an event is due next."""
    due = due_at(event, blocked_by)
    if due is not None:
        heapq.heappush(timers, (due, event.id))


def trim(timers: TimerHeap, events: Events, blockers: Blockers) -> None:
    """Drop stale entries at the front, and all stale ones when there are many (S24)."""
    while timers and not _is_true(timers[0], events, blockers):
        heapq.heappop(timers)
    if len(timers) > 2 * len(events) + _SPARE:
        timers[:] = dict.fromkeys(entry for entry in timers if _is_true(entry, events, blockers))
        heapq.heapify(timers)


def due(timers: TimerHeap, events: Events, blockers: Blockers, steady: int) -> list[Entry]:
    """What is due by now, in no order; one that was put twice may stand there twice."""
    if not timers or timers[0][0] > steady:
        return []  # as nearly always when a command is done
    return [entry for entry in up_to(timers, steady) if _is_true(entry, events, blockers)]


def next_after(timers: TimerHeap, events: Events, blockers: Blockers, steady: int) -> int | None:
    """The first moment later than this at which something is due."""
    later = (entry for entry in ascending(timers) if entry[0] > steady)
    return next((entry[0] for entry in later if _is_true(entry, events, blockers)), None)


def _is_true(entry: Entry, events: Events, blockers: Blockers) -> bool:
    """Whether an entry is still true."""
    event = events.get(entry[1])
    return event is not None and due_at(event, blockers_of(blockers, event)) == entry[0]
