"""What makes events wait, kept as events change, so that it need not be searched (G01, S11, C07)."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct, structs

from duenotice.clock import Instant
from duenotice.domain.event import BY_USER, PLANNED, Event, EventType, Phase


class Unapproved(NamedTuple):
    """The last moment at which the notice ends of those on a host who have not approved, by both faces of time."""

    at: datetime
    steady: int


class ScopeHolds(Struct, frozen=True, gc=False):
    """For one scope: how many events of the platform hit each domain now, and the deletes to come.

    Events that need the consent of a whole host wait for `others` too (C07).
    """

    hits: tuple[tuple[int | None, int], ...] = ()
    unapproved_deletes: int = 0
    approved_deletes: int = 0
    others: Unapproved | None = None


NOTHING = ScopeHolds()

Holds = dict[str, ScopeHolds]
"""By scope, and by `Event.shares`; where nothing has to wait there is no entry."""


def hold_of(holds: Holds, event: Event) -> ScopeHolds:
    """All that may make an event wait."""
    hold = holds.get(event.scope, NOTHING)
    shared = None if (key := event.shares) is None else holds.get(key)
    return hold if shared is None else structs.replace(hold, others=shared.others)


def awaits_others(hold: ScopeHolds, now: Instant) -> bool:
    """Whether somebody on its host has neither approved nor run out of notice (C07)."""
    return hold.others is not None and (now.steady < hold.others.steady or now.at < hold.others.at)


def consents(holds: Holds, key: str, waiting: Iterable[Event]) -> bool:
    """These events of a host wait for each other; tells whether that goes on as before."""
    silent = [event for event in waiting if not event.approved_by]
    others = None
    if silent:
        others = Unapproved(max(event.not_before for event in silent), max(event.notice_ends for event in silent))
    before = holds.pop(key, NOTHING)
    if others is not None:
        holds[key] = ScopeHolds(others=others)
    return before.others == others


def holds_domain(hold: ScopeHolds, event: Event) -> bool:
    """Whether another domain of its scope is being hit by the platform right now (G01, S11)."""
    if not hold.hits or event.update_domain is None or event.cause not in PLANNED:
        return False
    return any(domain != event.domain for domain, _ in hold.hits)


def holds_delete(hold: ScopeHolds, event: Event) -> bool:
    """Whether an approved delete has another one beside it that nobody has approved yet."""
    return hold.unapproved_deletes > 0 and event.type is EventType.TERMINATE


def alike(one: ScopeHolds, other: ScopeHolds) -> bool:
    """Whether the same events have to wait."""
    if one is other:
        return True
    if bool(one.unapproved_deletes) != bool(other.unapproved_deletes):
        return False
    return one.hits == other.hits or dict(one.hits).keys() == dict(other.hits).keys()


def count(holds: Holds, scope: str, before: Event | None, after: Event | None) -> bool:
    """An event of a scope has changed, come (`before` None) or gone; tells whether the same events have to wait."""
    known = holds.get(scope, NOTHING)
    now = _with(_with(known, before, -1), after, 1)
    if now is known:
        return True
    if now == NOTHING:
        holds.pop(scope, None)
    else:
        holds[scope] = now
    return alike(known, now)


def _with(hold: ScopeHolds, event: Event | None, number: int) -> ScopeHolds:
    if event is None:
        return hold
    if event.phase is Phase.STARTED:
        return hold if event.cause in BY_USER else _with_hit(hold, event.domain, number)
    if event.type is not EventType.TERMINATE:
        return hold
    if event.approved_by:
        return structs.replace(hold, approved_deletes=hold.approved_deletes + number)
    return structs.replace(hold, unapproved_deletes=hold.unapproved_deletes + number)


def _with_hit(hold: ScopeHolds, domain: int | None, number: int) -> ScopeHolds:
    counts = dict(hold.hits)
    counts[domain] = counts.get(domain, 0) + number
    return structs.replace(hold, hits=tuple((domain, hits) for domain, hits in counts.items() if hits))
