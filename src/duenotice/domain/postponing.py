"""Moving the start of events later, so that their notice is whole when they are seen (S2)."""

from collections.abc import Iterable, Iterator
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
    least = [(event, least_notice(state, event)) for event in _waiting(state, event_ids)]
    if not least:
        return None
    at = min(event.not_before - timedelta(microseconds=notice) for event, notice in least)
    return Instant(at, min(event.notice_ends - notice for event, notice in least))


def owed(state: State, records: Iterable[t.Record]) -> tuple[str, ...]:
    """Events of which these records say the whole notice, when they were decided: it must be whole when they are seen.

    New ones; and those that were made later because nobody could be told of them (S25).
    """
    return tuple(dict.fromkeys(_owed(state, records)))


def _owed(state: State, records: Iterable[t.Record]) -> Iterator[str]:
    for record in records:
        match record.transition:
            case t.EventRaised(event):
                yield event.id
            case t.EventPostponed(event):
                if event.not_before - record.at >= timedelta(microseconds=least_notice(state, event)):
                    yield event.id


def _later(state: State, event: Event, now: Instant, spare: int) -> Event | None:
    """The event with its notice from now on; None when enough is left."""
    least = least_notice(state, event)
    if event.not_before >= now.after(least).at and event.notice_ends >= now.steady + least:
        return None
    return notice.moved_to(event, max(event.not_before, notice.earliest(now, least + spare)), now)


def least_notice(state: State, event: Event) -> int:
    """The minimum notice of this event, in microseconds."""
    vm = next((state.fleet.vms[name] for name in event.resources if name in state.fleet.vms), None)
    return notice.minimum_notice(event.type, None if vm is None else group_of_vm(state, vm))


def _waiting(state: State, event_ids: tuple[str, ...]) -> list[Event]:
    events = [state.events[event_id] for event_id in event_ids if event_id in state.events]
    return [event for event in events if event.phase is Phase.SCHEDULED and not event.approved_by]
