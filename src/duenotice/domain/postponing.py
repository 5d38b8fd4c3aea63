"""Moving the start of events later, so that their notice is whole when they are seen (S2)."""

from collections.abc import Iterable
from datetime import timedelta

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import notice
from duenotice.domain import transitions as t
from duenotice.domain.event import Event, Phase
from duenotice.domain.lookup import group_of_vm
from duenotice.domain.policy import Policy
from duenotice.domain.state import State


def postpone(state: State, command: c.PostponeEvents, now: Instant, policy: Policy) -> list[t.Transition]:
    """Events that wait for their notice get it whole, although they are seen late (S2)."""
    waiting = _waiting(state, command.event_ids)
    return [t.EventPostponed(later) for event in waiting if (later := _later(state, event, now, command.spare))]


def to_be_seen_by(state: State, event_ids: tuple[str, ...]) -> Instant | None:
    """The last moment at which all of these events can be shown with their full notice (S2).

    Each face counts on its own: the time of day may stand still or go back while steady time goes on, and the other
    way round.
    """
    until: Instant | None = None
    for event in _waiting(state, event_ids):  # in one go: each commit waits for this
        least = least_notice(state, event)
        at, steady = event.not_before - timedelta(microseconds=least), event.notice_ends - least
        until = Instant(at, steady) if until is None else Instant(min(until.at, at), min(until.steady, steady))
    return until


def owed(state: State, records: Iterable[t.Record], also: Iterable[str] = ()) -> tuple[str, ...]:
    """Events of which these records say the whole notice, when they were decided: it must be whole when they are seen.

    New ones; and those that were made later because nobody could be told of them (S25). `also` comes first.
    """
    found = dict.fromkeys(also)
    for record in records:  # by type, not by pattern: each commit waits for this
        change = record.transition
        if isinstance(change, t.EventRaised) or (
            isinstance(change, t.EventPostponed) and _is_whole(state, change.event, record)
        ):
            found[change.event.id] = None
    return tuple(found)


def _is_whole(state: State, event: Event, record: t.Record) -> bool:
    """Whether an event that was made later had all of its notice then."""
    return event.not_before - record.at >= timedelta(microseconds=least_notice(state, event))


def _later(state: State, event: Event, now: Instant, spare: int) -> Event | None:
    """The event with its notice from now on; None when enough is left."""
    least = least_notice(state, event)
    if event.not_before >= now.after(least).at and event.notice_ends >= now.steady + least:
        return None
    return notice.moved_to(event, max(event.not_before, notice.earliest(now, least + spare)), now)


def least_notice(state: State, event: Event) -> int:
    """The minimum notice of this event, in microseconds."""
    vm = next(filter(None, map(state.fleet.vms.get, event.resources)), None)
    return notice.minimum_notice(event.type, None if vm is None else group_of_vm(state, vm))


def _waiting(state: State, event_ids: tuple[str, ...]) -> list[Event]:
    events = [state.events[event_id] for event_id in event_ids if event_id in state.events]
    return [event for event in events if event.phase is Phase.SCHEDULED and not event.approved_by]
