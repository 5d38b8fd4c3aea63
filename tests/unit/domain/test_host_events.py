"""What happens to VMs with their host: predicted, failed, repaired (D03, D04)."""

from datetime import timedelta
from uuid import UUID

import pytest

from duenotice.clock import LAST_MOMENT, Instant, micros
from duenotice.domain.commands import (
    Command,
    DegradeHost,
    FailHost,
    HoldHost,
    OperateVm,
    RepairHost,
    Tick,
)
from duenotice.domain.event import Cause, EventType, Phase
from duenotice.domain.fleet import Condition
from duenotice.domain.policy import Policy
from duenotice.domain.records import EventCancelled, EventRaised, HostsPut
from duenotice.errors import Conflict, NotFound, Refused
from tests.unit.domain.build import (
    DAY,
    NOW,
    SECOND,
    SEED,
    degrade,
    do,
    fail,
    id_of,
    listening,
    operate,
    schedule,
    started,
    state_of,
    tick,
)
from tests.unit.domain.test_raising import refused

REBOOT, REDEPLOY, TERMINATE = EventType.REBOOT, EventType.REDEPLOY, EventType.TERMINATE


class TestDegradedHost:
    """A failure is predicted (D03)."""

    def test_each_vm_of_the_host_gets_its_own_move_days_ahead(self) -> None:
        state = listening()
        events = degrade(state, "host-1")
        assert [event.resources for event in events] == [("alone",), ("zonal",), ("web-0",), ("web-2",), ("web-3",)]
        for event in events:
            assert (event.type, event.cause, event.host) == (REDEPLOY, Cause.DEGRADED_HOST, "host-1")
            assert event.not_before == NOW.at + timedelta(days=7)
            assert event.approved_by == ""
        assert state.fleet.hosts["host-1"].condition is Condition.DEGRADED

    def test_a_clock_at_the_last_date_that_there_is_breaks_no_rule_and_no_notice(self) -> None:
        """What was told before starts in its steady time; nothing more can be told (S1, S2, S23)."""
        state = listening()
        do(state, DegradeHost("host-3", 600 * SECOND, SEED))
        (event,) = state.events.values()
        assert event.notice_ends == NOW.steady + 600 * SECOND
        with pytest.raises(Refused, match="no dates left"):
            do(state, DegradeHost("host-1", 600 * SECOND, SEED), Instant(LAST_MOMENT, NOW.steady))
        do(state, Tick(), Instant(LAST_MOMENT, event.notice_ends - 1))
        assert state.events[event.id].phase is Phase.SCHEDULED
        do(state, Tick(), Instant(LAST_MOMENT, event.notice_ends))
        assert state.events[event.id].phase is Phase.STARTED

    def test_higher_risk_gives_less_notice_and_the_commit_is_allowed_for(self) -> None:
        state = listening()
        do(state, DegradeHost("host-3", 600 * SECOND, SEED), policy=Policy(commit_allowance=SECOND))
        (event,) = state.events.values()
        assert event.not_before == NOW.at + timedelta(seconds=601)

    @pytest.mark.parametrize("notice", [600 * SECOND - 1, 7 * DAY + 1, -1])
    def test_less_than_the_minimum_or_more_than_seven_days_is_refused(self, notice: int) -> None:
        assert refused(listening(), DegradeHost("host-1", notice, SEED), Refused, "out of bounds")

    @pytest.mark.parametrize("notice", [7 * DAY, 2 * DAY])
    def test_predicting_it_again_at_no_higher_risk_changes_nothing(self, notice: int) -> None:
        state = listening()
        first = degrade(state, "host-1", 2 * DAY)
        assert do(state, DegradeHost("host-1", notice, id_of(7))) == [HostsPut((state.fleet.hosts["host-1"],))]
        assert list(state.events.values()) == first

    def test_a_higher_risk_is_told_by_other_events_in_place_of_the_first(self) -> None:
        """NotBefore itself never moves earlier (D02)."""
        state = listening()
        first = degrade(state, "host-3")
        do(state, DegradeHost("host-3", DAY, id_of(7)))
        (event,) = state.events.values()
        assert event.id not in [other.id for other in first]
        assert (event.resources, event.not_before) == (first[0].resources, NOW.at + timedelta(days=1))

    def test_a_move_that_has_started_is_not_told_again(self) -> None:
        state = listening()
        (first,) = degrade(state, "host-3", 600 * SECOND)
        tick(state, NOW.after(600 * SECOND))
        do(state, DegradeHost("host-3", 600 * SECOND, id_of(7)), NOW.after(601 * SECOND))
        assert list(state.events) == [first.id]

    def test_a_move_that_was_approved_and_has_started_is_not_told_again_although_its_time_was_days_ahead(self) -> None:
        state = listening()
        (first,) = degrade(state, "host-3")
        started(state, first)
        do(state, DegradeHost("host-3", DAY, id_of(7)))
        assert list(state.events) == [first.id]

    def test_ids_are_fresh_guids_that_follow_from_the_seed(self) -> None:
        events = degrade(listening(), "host-1")
        assert [event.id for event in events] == [event.id for event in degrade(listening(), "host-1")]
        assert len({UUID(event.id) for event in events}) == 5
        assert all(event.id == event.id.upper() for event in events)

    def test_an_empty_host_is_only_marked(self) -> None:
        state = listening()
        do(state, OperateVm(id_of(1), "spot", TERMINATE))
        assert degrade(state, "host-3") == []
        assert state.fleet.hosts["host-3"].condition is Condition.DEGRADED

    def test_an_unknown_host_is_not_found(self) -> None:
        assert refused(listening(), DegradeHost("host-9", DAY, SEED), NotFound, "no host named 'host-9'")

    def test_a_user_who_redeploys_in_time_is_rid_of_it(self) -> None:
        state = listening()
        degrade(state, "host-1")
        started(state, operate(state, "alone", REDEPLOY))
        tick(state, NOW.after(600 * SECOND))
        assert state.fleet.vms["alone"].host == "host-2"
        assert state.document("vm/alone").events == ()
        assert len(state.document("vm/zonal").events) == 1

    def test_repair_takes_the_moves_back(self) -> None:
        state = listening()
        events = degrade(state, "host-1")
        other = schedule(state, "alone")
        done = do(state, RepairHost("host-1"))
        cancelled = {change.event_id for change in done if isinstance(change, EventCancelled)}
        assert cancelled == {event.id for event in events}
        assert list(state.events) == [other.id]
        assert state.fleet.hosts["host-1"].condition is Condition.HEALTHY

    def test_a_move_that_has_begun_is_not_taken_back(self) -> None:
        state = listening()
        degrade(state, "host-3")
        (event,) = state.events.values()
        started(state, event)
        do(state, RepairHost("host-3"))
        assert state.events[event.id].phase is Phase.STARTED


class TestHeldHost:
    """A host that is out of service on purpose."""

    def test_nothing_moves_there_until_it_is_repaired(self) -> None:
        state = listening()
        assert state.fleet.other_host(avoid="host-1") == "host-2"
        do(state, HoldHost("host-2"))
        assert state.fleet.hosts["host-2"].condition is Condition.DRAINED
        assert state.fleet.other_host(avoid="host-1") == "host-3"
        do(state, RepairHost("host-2"))
        assert state.fleet.other_host(avoid="host-1") == "host-2"

    def test_its_vms_are_not_hit_by_that_alone_and_twice_is_once(self) -> None:
        state = listening()
        do(state, HoldHost("host-1"))
        assert do(state, HoldHost("host-1")) == []
        assert state.events == {}

    def test_one_that_has_failed_is_repaired_first(self) -> None:
        state = listening()
        do(state, FailHost("host-1", SEED))
        assert refused(state, HoldHost("host-1"), Conflict, "has failed already")


class TestFailedHost:
    """A failure has happened (D04)."""

    def test_events_are_born_started_one_per_scope_and_update_domain(self) -> None:
        state = listening()
        events = fail(state, "host-1")
        assert {event.resources for event in events} == {("alone",), ("zonal",), ("web-0", "web-2"), ("web-3",)}
        for event in events:
            assert (event.type, event.cause, event.phase) == (REBOOT, Cause.HOST_FAILURE, Phase.STARTED)
            assert (event.started_at, event.impact_ends) == (NOW.at, NOW.steady + 600 * SECOND)
            assert event.description == "Virtual machine has encountered a failure."
        assert state.fleet.hosts["host-1"].condition is Condition.FAILED

    def test_their_type_is_a_setting(self) -> None:
        state = listening()
        changes = do(state, FailHost("host-1", SEED), policy=Policy(host_failure_type=REDEPLOY))
        events = [change.event for change in changes if isinstance(change, EventRaised)]
        assert {(event.type, event.phase) for event in events} == {(REDEPLOY, Phase.STARTED)}

    def test_what_was_predicted_has_come_true_and_waits_no_more(self) -> None:
        state = listening()
        predicted = degrade(state, "host-1")
        done = do(state, FailHost("host-1", id_of(7)))
        assert [change.event_id for change in done if isinstance(change, EventCancelled)] == [e.id for e in predicted]
        assert all(event.cause is Cause.HOST_FAILURE for event in state.events.values())

    @pytest.mark.parametrize(
        "command",
        [
            FailHost("host-1", id_of(7)),
            RepairHost("host-1"),
            DegradeHost("host-1", micros(600), id_of(7)),
            OperateVm(id_of(7), "web-0", REDEPLOY),
        ],
    )
    def test_a_prediction_for_two_vms_is_taken_back_once(self, command: Command) -> None:
        """The operator's API makes none, but a change that came twice would stop the service."""
        state = state_of()
        both = schedule(state, "web-0", "web-2", cause=Cause.DEGRADED_HOST, not_before=NOW.at + timedelta(days=1))
        done = do(state, command)
        assert [change.event_id for change in done if isinstance(change, EventCancelled)] == [both.id]

    def test_its_vms_come_up_elsewhere(self) -> None:
        state = listening()
        fail(state, "host-1")
        tick(state, NOW.after(600 * SECOND))
        assert not state.events
        assert {state.fleet.vms[name].host for name in ("alone", "zonal", "web-0", "web-2", "web-3")} == {"host-2"}

    def test_it_asks_no_update_domain_whether_it_may(self) -> None:
        """A failure hits both update domains at once; only planned work is held back (S11)."""
        state = listening()
        fail(state, "host-1")
        assert sum(event.scope == "set/web" for event in state.events.values()) == 2

    def test_with_a_driver_it_lasts_until_reported(self) -> None:
        state = listening()
        do(state, FailHost("host-3", SEED), policy=Policy(simulated_impact=False))
        (event,) = state.events.values()
        assert event.impact_ends is None
        assert tick(state, NOW.after(DAY)) == []

    def test_a_host_that_has_failed_must_be_repaired_before_it_can_fail_or_degrade_again(self) -> None:
        state = listening()
        fail(state, "host-1")
        refused(state, FailHost("host-1", id_of(7)), Conflict, "has failed already")
        refused(state, DegradeHost("host-1", DAY, id_of(7)), Conflict, "has failed already")
        do(state, RepairHost("host-1"))
        assert do(state, FailHost("host-1", id_of(7)))

    def test_the_same_ask_twice_cannot_raise_an_event_twice(self) -> None:
        state = listening()
        fail(state, "host-1")
        do(state, RepairHost("host-1"))
        refused(state, FailHost("host-1", SEED), Conflict, "already an event")

    def test_an_unknown_host_is_not_found(self) -> None:
        assert refused(listening(), FailHost("host-9", SEED), NotFound, "no host named")
        assert refused(listening(), RepairHost("host-9"), NotFound, "no host named")
