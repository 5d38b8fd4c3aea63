"""What makes events of a scope wait, counted as events change, so that it need not be searched (G01, S11)."""

from msgspec import Struct, structs

from duenotice.domain.event import BY_USER, PLANNED, Event, EventType, Phase


class ScopeHolds(Struct, frozen=True, gc=False):
    """For one scope: how many events of the platform hit each update domain now, and the deletes to come."""

    hits: tuple[tuple[int | None, int], ...] = ()
    unapproved_deletes: int = 0
    approved_deletes: int = 0


NOTHING = ScopeHolds()

Holds = dict[str, ScopeHolds]
"""By scope; a scope in which nothing has to wait has no entry."""


def holds_domain(hold: ScopeHolds, event: Event) -> bool:
    """Whether another update domain of its scope is being hit by the platform right now (G01, S11)."""
    if not hold.hits or event.update_domain is None or event.cause not in PLANNED:
        return False
    return any(domain != event.update_domain for domain, _ in hold.hits)


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
        return hold if event.cause in BY_USER else _with_hit(hold, event.update_domain, number)
    if event.type is not EventType.TERMINATE:
        return hold
    if event.approved_by:
        return structs.replace(hold, approved_deletes=hold.approved_deletes + number)
    return structs.replace(hold, unapproved_deletes=hold.unapproved_deletes + number)


def _with_hit(hold: ScopeHolds, domain: int | None, number: int) -> ScopeHolds:
    counts = dict(hold.hits)
    counts[domain] = counts.get(domain, 0) + number
    return structs.replace(hold, hits=tuple((domain, hits) for domain, hits in counts.items() if hits))
