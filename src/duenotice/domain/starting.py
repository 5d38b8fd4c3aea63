"""When an event may start, and the event as it is once it has (C05, G01, S1, S11)."""

from duenotice.clock import Instant
from duenotice.domain.event import Event
from duenotice.domain.holds import awaits_others, hold_of, holds_delete, holds_domain
from duenotice.domain.lifecycle import Act, move
from duenotice.domain.policy import Policy
from duenotice.domain.state import State


def may_start(event: Event, now: Instant) -> bool:
    """Approved, or its notice has elapsed *and* the time of day has come: never early (S1).

    Events of a plan with a window start inside it, approved or not (decision 0014).
    """
    if event.opening is not None and not event.opening.lets(now):
        return False
    return bool(event.approved_by) or notice_is_over(event, now)


def notice_is_over(event: Event, now: Instant) -> bool:
    """Whether it has waited long enough in steady time, and until its time of day."""
    return now.steady >= event.notice_ends and now.at >= event.not_before


def held_back(state: State, event: Event, now: Instant, policy: Policy) -> bool:
    """Whether something else of its scope has to come first, or somebody on its host has to approve (C07).

    An approved delete waits for the other deletes of its scope, as real scale sets do it, until its own time.
    """
    hold = hold_of(state.holds, event)
    if awaits_others(hold, now):
        return True
    waits = policy.deletes_together and holds_delete(hold, event) and not notice_is_over(event, now)
    return waits or holds_domain(hold, event)


def started(event: Event, act: Act, now: Instant, policy: Policy) -> Event:
    """The event as it is once its impact has begun."""
    lasts = policy.lasts(event)
    return event.with_(
        phase=move(None if act is Act.HAPPEN else event.phase, act),
        started_at=now.at,
        impact_ends=None if lasts is None else now.steady + lasts,
    )
