"""When: the least notice of an event (D01, S2), when it may start or has to wait (C05, G01, S1, S11), and later times.

Time during which nobody could be told does not count as notice (S25). Microseconds, unless a name says seconds.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from duenotice.clock import MICROS, Instant, later, micros_of, seconds
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.event import Act, Event, EventType, Phase, move
from duenotice.domain.fleet import Group
from duenotice.domain.policy import Policy
from duenotice.domain.state import State, group_of_vm
from duenotice.domain.timers import awaits_others, blockers_of, blocks_delete, blocks_domain
from duenotice.errors import Refused

MINIMUM_SECONDS = {
    EventType.FREEZE: 15 * 60,
    EventType.REBOOT: 15 * 60,
    EventType.REDEPLOY: 10 * 60,
    EventType.PREEMPT: 30,
    EventType.TERMINATE: 5 * 60,
    EventType.SPOT_REBALANCE_RECOMMENDATION: 30,
}
LONGEST_TERMINATE_SECONDS = 15 * 60

_FARTHEST = timedelta(days=366)
LAST_TOLD = datetime(9990, 1, 1, tzinfo=UTC)
"""From here on there may be no dates for notices, windows and what else comes later."""


def minimum_notice(event_type: EventType, group: Group | None) -> int:
    """The notice an event of this type must give; a scale set may ask for more before Terminate (D01)."""
    if event_type is EventType.TERMINATE and group is not None and group.terminate_notice is not None:
        return group.terminate_notice * MICROS
    return MINIMUM_SECONDS[event_type] * MICROS


def can_be_given(now: Instant) -> bool:
    """Whether there are dates enough ahead; only a clock that is wrong shows such a year."""
    return now.at < LAST_TOLD


def check_dates(now: Instant) -> None:
    """Refuse what VMs could not be told of in time (S2)."""
    if not can_be_given(now):
        raise Refused(
            f"The service's clock shows the year {now.at.year}: there are no dates left to tell VMs of anything.",
            hint="Set the clock of its machine right (NTP).",
        )


def earliest(now: Instant, notice: int) -> datetime:
    """The first moment after the notice that a document can show: rounded up, as it shows whole seconds."""
    return whole_second(now.after(notice).at)


def checked(asked: datetime, now: Instant, notice: int, allowance: int = 0) -> datetime:
    """The moment an operator asked for, refused when the notice would be too short or the time is too far ahead.

    `allowance` is for the time until others can see it: notice counts from then on (S2).
    """
    if asked - now.at > _FARTHEST:
        raise Refused("NotBefore is more than a year ahead.", hint="Schedule it nearer to its time.")
    not_before = whole_second(asked)
    if not_before < now.after(notice + allowance).at:
        soonest = earliest(now, notice + allowance)
        raise Refused(
            f"NotBefore {asked:%Y-%m-%dT%H:%M:%SZ} gives less than the minimum notice of {seconds(notice):g} seconds.",
            hint=f"Ask for {soonest:%Y-%m-%dT%H:%M:%SZ} or later, or leave NotBefore out.",
        )
    return not_before


def whole_second(moment: datetime) -> datetime:
    """The moment, or the next that a document can show."""
    if moment.microsecond == 0:
        return moment
    return later(moment.replace(microsecond=0), timedelta(seconds=1))


def moved_to(event: Event, not_before: datetime, now: Instant) -> Event:
    """The event with this time; its notice ends then, in steady time too."""
    return event.with_(not_before=not_before, notice_ends=now.steady + micros_of(not_before - now.at))


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
    blocked_by = blockers_of(state.blockers, event)
    if awaits_others(blocked_by, now):
        return True
    waits = policy.deletes_together and blocks_delete(blocked_by, event) and not notice_is_over(event, now)
    return waits or blocks_domain(blocked_by, event)


def started(event: Event, act: Act, now: Instant, policy: Policy) -> Event:
    """The event as it is once its impact has begun."""
    lasts = policy.lasts(event)
    return event.with_(
        phase=move(None if act is Act.HAPPEN else event.phase, act),
        started_at=now.at,
        impact_ends=None if lasts is None else now.steady + lasts,
    )


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
    return moved_to(event, max(event.not_before, earliest(now, least + spare)), now)


def least_notice(state: State, event: Event) -> int:
    """The minimum notice of this event, in microseconds."""
    vm = next(filter(None, map(state.fleet.vms.get, event.resources)), None)
    return minimum_notice(event.type, None if vm is None else group_of_vm(state, vm))


def _waiting(state: State, event_ids: tuple[str, ...]) -> list[Event]:
    events = [state.events[event_id] for event_id in event_ids if event_id in state.events]
    return [event for event in events if event.phase is Phase.SCHEDULED and not event.approved_by]


_NOT_WORTH_TELLING = timedelta(seconds=2)
"""A shorter absence changes nothing: a restart takes a moment, and every changed document wakes its readers."""


def make_up_for_downtime(
    state: State, command: c.MakeUpForDowntime, now: Instant, policy: Policy
) -> list[t.Transition]:
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
