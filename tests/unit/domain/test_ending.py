"""What an event leaves behind when its impact is over (D03, G04, G05)."""

import pytest

from duenotice.domain.commands import ApplyFleet, OperateVm, RepairHost, ReportImpact
from duenotice.domain.event import Cause, EventType
from duenotice.domain.records import EventCancelled, EventCompleted, EventFailed, VmsPut, VmsRemoved
from duenotice.errors import Conflict
from tests.unit.domain.build import (
    NOW,
    SECOND,
    VMS,
    declaration,
    degrade,
    do,
    evict,
    fail,
    id_of,
    listening,
    operate,
    schedule,
    started,
    tick,
)

OVER = NOW.after(600 * SECOND)


def test_a_reboot_and_a_freeze_leave_the_vm_where_it_is() -> None:
    for event_type in (EventType.REBOOT, EventType.FREEZE):
        state = listening()
        event = started(state, schedule(state, "alone", type=event_type))
        assert tick(state, OVER) == [EventCompleted(event.id, "vm/alone")]
        assert state.fleet.vms["alone"].host == "host-1"


def test_a_redeploy_moves_the_vm_to_another_host() -> None:
    state = listening()
    started(state, operate(state, "alone", EventType.REDEPLOY))
    tick(state, OVER)
    assert state.fleet.vms["alone"].host == "host-2"


def test_a_live_migration_moves_the_vm_to_another_host() -> None:
    state = listening()
    started(state, schedule(state, "alone", type=EventType.FREEZE, cause=Cause.LIVE_MIGRATION))
    tick(state, NOW.after(300 * SECOND))
    assert state.fleet.vms["alone"].host == "host-2"


def test_a_vm_on_no_known_host_stays_there() -> None:
    state = listening()
    event = started(state, operate(state, "adrift", EventType.REDEPLOY))
    assert tick(state, OVER) == [EventCompleted(event.id, "vm/adrift")]


def test_a_move_cancels_what_a_degraded_host_had_planned_and_nothing_else() -> None:
    state = listening()
    predicted = next(event for event in degrade(state, "host-1") if event.resources == ("alone",))
    schedule(state, "alone", number=2)
    started(state, operate(state, "alone", EventType.REDEPLOY))
    done = tick(state, OVER)
    assert EventCancelled(predicted.id, "vm/alone", "alone has moved to another host.") in done
    assert [event.id for event in state.document("vm/alone").events] == [id_of(2)]


def test_a_redeploy_when_nobody_listens_cancels_it_too() -> None:
    state = listening("web-0")
    degrade(state, "host-1")
    do(state, OperateVm(id_of(1), "alone", EventType.REDEPLOY))
    assert state.document("vm/alone").events == ()


def test_the_predicted_move_itself_ends_like_any_other() -> None:
    state = listening()
    (event,) = degrade(state, "host-3")
    started(state, event)
    assert [type(change) for change in tick(state, OVER)] == [EventCompleted, VmsPut]
    assert state.fleet.vms["spot"].host == "host-1"


def test_preempt_removes_the_vm() -> None:
    state = listening()
    event = started(state, evict(state, "spot"))
    assert tick(state, NOW.after(30 * SECOND)) == [EventCompleted(event.id, "vm/spot"), VmsRemoved(("spot",))]
    assert "spot" not in state.fleet.vms


def test_terminate_removes_the_vm() -> None:
    state = listening()
    started(state, operate(state, "batch_0", EventType.TERMINATE))
    tick(state, NOW.after(30 * SECOND))
    assert "batch_0" not in state.fleet.vms


def test_what_only_waited_for_a_removed_vm_is_cancelled() -> None:
    state = listening()
    waiting = schedule(state, "batch_0", number=2)
    started(state, operate(state, "batch_0", EventType.TERMINATE))
    assert EventCancelled(waiting.id, waiting.scope, "Gone: batch_0.") in tick(state, NOW.after(30 * SECOND))


def test_what_waits_for_other_vms_too_is_kept() -> None:
    state = listening()
    waiting = schedule(state, "batch_0", "batch_1", number=2)
    started(state, operate(state, "batch_0", EventType.TERMINATE))
    tick(state, NOW.after(30 * SECOND))
    assert list(state.events) == [waiting.id]


def test_what_waits_for_several_vms_is_cancelled_when_the_last_of_them_goes() -> None:
    """Together or one after the other: an event without VMs is nobody's."""
    together, one_by_one = listening(), listening()
    for state in (together, one_by_one):
        schedule(state, "batch_0", "batch_1", number=2)
    started(together, schedule(together, "batch_1", "batch_0", type=EventType.TERMINATE))
    started(one_by_one, operate(one_by_one, "batch_0", EventType.TERMINATE))
    tick(one_by_one, NOW.after(30 * SECOND))
    started(one_by_one, operate(one_by_one, "batch_1", EventType.TERMINATE, number=3))
    for state in (together, one_by_one):
        tick(state, NOW.after(60 * SECOND))
        assert not state.events


def test_a_started_event_of_a_removed_vm_runs_to_its_end() -> None:
    """Nobody can take back what is happening."""
    state = listening("web-0")
    started(state, schedule(state, "alone"))
    do(state, OperateVm(id_of(2), "alone", EventType.TERMINATE))
    assert list(state.events) == [id_of(1)]
    assert tick(state, OVER) == [EventCompleted(id_of(1), "vm/alone")]


def test_an_eviction_of_a_vm_that_left_the_fleet_meanwhile_just_ends() -> None:
    state = listening()
    event = started(state, evict(state, "spot"))
    do(state, ApplyFleet(declaration(*(vm for vm in VMS if vm.name != "spot"), digest="without spot")))
    assert tick(state, NOW.after(30 * SECOND)) == [EventCompleted(event.id, "vm/spot")]


def test_a_vm_that_has_left_a_failed_host_already_is_not_moved_once_more() -> None:
    """Its predicted move was under way when the host failed: both end, it moves once."""
    state = listening()
    move = next(event for event in degrade(state, "host-1") if event.resources == ("alone",))
    started(state, move)
    fail(state, "host-1", NOW.after(100 * SECOND))
    tick(state, NOW.after(600 * SECOND))
    assert state.fleet.vms["alone"].host == "host-2"
    do(state, RepairHost("host-1"), NOW.after(650 * SECOND))
    tick(state, NOW.after(700 * SECOND))
    assert state.fleet.vms["alone"].host == "host-2"
    assert state.fleet.vms["zonal"].host == "host-2"  # still on the host when its failure was over
    assert not state.events


def test_a_driver_may_report_the_end_before_its_usual_time() -> None:
    state = listening()
    event = started(state, schedule(state, "alone"))
    assert do(state, ReportImpact(event.id)) == [EventCompleted(event.id, "vm/alone")]


@pytest.mark.parametrize("event_type", [EventType.REBOOT, EventType.REDEPLOY, EventType.TERMINATE])
def test_when_the_driver_gives_up_the_event_is_gone_and_the_fleet_is_as_it_was(event_type: EventType) -> None:
    state = listening()
    event = started(state, schedule(state, "alone", type=event_type))
    before = dict(state.fleet.vms)
    assert do(state, ReportImpact(event.id, "exit 1")) == [EventFailed(event.id, "vm/alone", "exit 1")]
    assert (state.fleet.vms, state.events) == (before, {})


def test_a_failure_is_a_change_that_the_scope_is_shown() -> None:
    state = listening()
    event = started(state, schedule(state, "alone"))
    before = state.document("vm/alone").incarnation
    do(state, ReportImpact(event.id, "exit 1"))
    assert (state.document("vm/alone").incarnation, state.document("vm/alone").events) == (before + 1, ())


def test_what_has_not_started_cannot_fail() -> None:
    state = listening()
    event = schedule(state, "alone")
    with pytest.raises(Conflict, match="already scheduled"):
        do(state, ReportImpact(event.id, "exit 1"))
    assert list(state.events) == [event.id]


def test_an_event_of_no_maintenance_leaves_no_outcome() -> None:
    state = listening()
    event = started(state, schedule(state, "alone"))
    do(state, ReportImpact(event.id, "exit 1"))
    assert state.unprocessed_outcomes == {}
