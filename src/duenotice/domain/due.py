"""What the passing of time brings: starts and ends (C05, D02, G01, S1, S11)."""

from duenotice.clock import Instant
from duenotice.domain import agenda
from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.ending import complete
from duenotice.domain.event import BY_USER, PLANNED, Event, EventType, Phase
from duenotice.domain.lifecycle import Act
from duenotice.domain.maintenance import looks
from duenotice.domain.planning import go_on
from duenotice.domain.policy import Policy
from duenotice.domain.raising import started
from duenotice.domain.state import State


def tick(state: State, command: c.Tick, now: Instant, policy: Policy) -> list[t.Transition]:
    """What is due, at most one thing for each scope: apply it and ask again, until nothing is.

    One for each, because a start may hold back its neighbour and an end may let it go; scopes do not meet.
    """
    changes: list[t.Transition] = []
    touched: set[str] = set()
    for event in agenda.due(state.agenda, state.events, now.steady):
        meets = {event.scope, *event.resources}
        if meets.isdisjoint(touched) and (step := _step(state, event, now, policy)):
            changes += step
            touched |= meets | {
                change.scope for change in step if isinstance(change, t.EventCancelled | t.EventCompleted)
            }
    return changes or go_on(state, now, policy)


def next_due(state: State, after: int) -> int | None:
    """When something is next due by itself, in steady time; None when nothing is."""
    entries = state.agenda
    soonest_first = entries[:1] if entries and entries[0][0] > after else entries
    moments = [entry[0] for entry in soonest_first if agenda.holds(entry, state.events)]
    # A delete that waits for others waits no longer than its notice.
    moments += [e.notice_ends for e in agenda.due(entries, state.events, after) if e.type is EventType.TERMINATE]
    for plan in state.maintenances.values():
        moments += looks(plan)
    return min((moment for moment in moments if moment > after), default=None)


def _step(state: State, event: Event, now: Instant, policy: Policy) -> list[t.Transition]:
    if event.phase is Phase.STARTED:
        return complete(state, event)
    if _may_start(event, now) and not held_back(state, event, now, policy):
        begun = started(event, Act.START, now, policy)
        if begun.impact_ends is None and not any(name in state.fleet.vms for name in event.resources):
            begun = begun.with_(impact_ends=now.steady)  # nobody is hit, and no driver will report it
        return [t.EventStarted(begun)]
    return []


def _may_start(event: Event, now: Instant) -> bool:
    """Approved, or its notice has truly elapsed *and* the time of day has come: early never (S1)."""
    return bool(event.approved_by) or _notice_is_over(event, now)


def _notice_is_over(event: Event, now: Instant) -> bool:
    return now.steady >= event.notice_ends and now.at >= event.not_before


def held_back(state: State, event: Event, now: Instant, policy: Policy) -> bool:
    """Whether something else of its scope has to come first."""
    return _domain_held(state, event) or (policy.deletes_together and _delete_held(state, event, now))


def _delete_held(state: State, event: Event, now: Instant) -> bool:
    """An approved delete waits for the other deletes of its scope, as real scale sets do it, until its own time."""
    if event.type is not EventType.TERMINATE or _notice_is_over(event, now):
        return False
    others = (state.events[event_id] for event_id in state.scopes[event.scope].events)
    return any(
        other.type is EventType.TERMINATE and other.phase is Phase.SCHEDULED and not other.approved_by
        for other in others
    )


def _domain_held(state: State, event: Event) -> bool:
    """Whether another update domain of its scope is being hit by the platform right now (G01, S11)."""
    if event.cause not in PLANNED or event.update_domain is None:
        return False
    others = (state.events[event_id] for event_id in state.scopes[event.scope].events)
    return any(
        other.phase is Phase.STARTED and other.cause not in BY_USER and other.update_domain != event.update_domain
        for other in others
    )
