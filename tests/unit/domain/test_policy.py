"""How long Started lasts (D05)."""

import pytest

from duenotice.domain.event import Cause, Event, EventType
from duenotice.domain.policy import Policy
from tests.unit.domain.build import NOW, SECOND

POLICY = Policy(live_migration_lasts=5 * SECOND, maintenance_lasts=10 * SECOND, removal_lasts=3 * SECOND)


def event(event_type: EventType, cause: Cause) -> Event:
    return Event("A", event_type, cause, "vm/alone", ("alone",), NOW.at, NOW.steady)


@pytest.mark.parametrize(
    ("event_type", "cause", "seconds"),
    [
        (EventType.FREEZE, Cause.LIVE_MIGRATION, 5),
        (EventType.FREEZE, Cause.MAINTENANCE, 10),
        (EventType.REBOOT, Cause.USER, 10),
        (EventType.REBOOT, Cause.HOST_FAILURE, 10),
        (EventType.REDEPLOY, Cause.DEGRADED_HOST, 10),
        (EventType.PREEMPT, Cause.EVICTION, 3),
        (EventType.TERMINATE, Cause.DELETION, 3),
    ],
)
def test_each_kind_of_impact_lasts_as_long_as_the_policy_says(
    event_type: EventType, cause: Cause, seconds: int
) -> None:
    assert POLICY.lasts(event(event_type, cause)) == seconds * SECOND


def test_the_usual_times_are_five_minutes_for_live_migration_and_ten_for_the_rest() -> None:
    usual = Policy()
    assert usual.lasts(event(EventType.FREEZE, Cause.LIVE_MIGRATION)) == 300 * SECOND
    assert usual.lasts(event(EventType.REBOOT, Cause.MAINTENANCE)) == 600 * SECOND


@pytest.mark.parametrize("cause", Cause)
def test_with_a_driver_only_the_driver_tells_when_it_is_over(cause: Cause) -> None:
    assert Policy(simulated_impact=False).lasts(event(EventType.REBOOT, cause)) is None
