"""What follows from a time in which nobody could be answered: it was not notice, and documents must say so (S25)."""

from datetime import datetime, timedelta

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.event import Event, Phase
from duenotice.domain.notice import moved_to, whole_second
from duenotice.domain.policy import Policy
from duenotice.domain.state import State

_NOT_WORTH_TELLING = timedelta(seconds=2)
"""A shorter absence changes nothing: a restart takes a moment, and every changed document wakes its readers."""


def make_up(state: State, command: c.MakeUpForAbsence, now: Instant, policy: Policy) -> list[t.Transition]:
    """Steady time stood still meanwhile, the time of day did not: `NotBefore` moves to where the notice ends now."""
    waiting = [event for event in state.events.values() if _waits(event, now)]
    return [t.EventPostponed(_as_late_as_its_notice(event, now)) for event in waiting if _says_too_little(event, now)]


def _waits(event: Event, now: Instant) -> bool:
    return event.phase is Phase.SCHEDULED and not event.approved_by and event.notice_ends > now.steady


def _says_too_little(event: Event, now: Instant) -> bool:
    return event.not_before + _NOT_WORTH_TELLING < _notice_ends_at(event, now)


def _notice_ends_at(event: Event, now: Instant) -> datetime:
    return now.after(event.notice_ends - now.steady).at


def _as_late_as_its_notice(event: Event, now: Instant) -> Event:
    return moved_to(event, whole_second(_notice_ends_at(event, now)), now)
