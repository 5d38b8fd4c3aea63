"""What follows from a time in which nobody could be answered: it was not notice, and documents must say so (S25)."""

from datetime import datetime, timedelta

from duenotice.clock import Instant, later
from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.event import Event, Phase
from duenotice.domain.notice import moved_to, whole_second
from duenotice.domain.policy import Policy
from duenotice.domain.postponing import least_notice
from duenotice.domain.state import State

_NOT_WORTH_TELLING = timedelta(seconds=2)
"""A shorter absence changes nothing: a restart takes a moment, and every changed document wakes its readers."""


def make_up(state: State, command: c.MakeUpForAbsence, now: Instant, policy: Policy) -> list[t.Transition]:
    """Steady time stood still meanwhile, the time of day did not: `NotBefore` moves to where the notice ends now."""
    waiting = [event for event in state.events.values() if _waits(event, now)]
    margin = policy.commit_allowance // 2
    late = [event for event in waiting if _says_too_little(event, now) or _is_unseen(state, event, now, margin)]
    return [t.EventPostponed(_as_late_as_its_notice(event, now, command.spare)) for event in late]


def _waits(event: Event, now: Instant) -> bool:
    return event.phase is Phase.SCHEDULED and not event.approved_by and event.notice_ends > now.steady


def _says_too_little(event: Event, now: Instant) -> bool:
    return event.not_before + _NOT_WORTH_TELLING < _notice_ends_at(event, now)


def _is_unseen(state: State, event: Event, now: Instant, margin: int) -> bool:
    """Whether its whole notice is ahead, and `NotBefore` says less: then every moment is worth telling (S2).

    It was stored, and perhaps nobody was told before the service went away.
    """
    least = least_notice(state, event)
    return event.notice_ends >= now.steady + least and event.not_before < now.after(least + margin).at


def _notice_ends_at(event: Event, now: Instant) -> datetime:
    return now.after(event.notice_ends - now.steady).at


def _as_late_as_its_notice(event: Event, now: Instant, spare: int) -> Event:
    return moved_to(event, whole_second(later(_notice_ends_at(event, now), timedelta(microseconds=spare))), now)
