"""How long before an impact a VM must be told (D01, S2); in microseconds, unless a name says seconds."""

from datetime import UTC, datetime, timedelta

from duenotice.clock import MICROS, Instant, later, micros_of, seconds
from duenotice.domain.event import Event, EventType
from duenotice.domain.fleet import Group
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
LONGEST_PREDICTION_SECONDS = 7 * 24 * 3600
"""A host failure is predicted at most seven days ahead (D03)."""

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
