"""A drained host returns: the VMs that were moved away from it are told, and come back."""

import pytest
from msgspec import structs

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.event import Cause, EventType, Phase
from duenotice.domain.fleet import Host, Vm
from duenotice.domain.plan import Status, StepStatus
from duenotice.domain.policy import Policy
from duenotice.domain.state import State
from duenotice.errors import Conflict, NotFound, Refused
from tests.unit.domain.build import (
    DAY,
    HOUR,
    NOW,
    SECOND,
    SEED,
    VMS,
    declaration,
    do,
    id_of,
    listening,
    operate,
    started,
    state_of,
    tick,
)
from tests.unit.domain.test_raising import refused

FREEZE, REDEPLOY = EventType.FREEZE, EventType.REDEPLOY
MOVED = ("alone", "web-0", "web-2", "web-3", "zonal")
LATER = NOW.after(DAY)
MUCH_LATER = NOW.after(2 * DAY)


def pass_by(state: State, until: Instant) -> None:
    """Hour by hour."""
    at = Instant(until.at.replace(day=until.at.day - 1), until.steady - DAY)
    for hour in range(25):
        tick(state, at.after(hour * HOUR))


def drain(state: State, host: str = "host-1", number: int = 1, now: Instant = NOW) -> None:
    """As `duenotice host drain` asks for it."""
    vms = tuple(vm.name for vm in state.fleet.on_host(host))
    do(state, c.HoldHost(host), now)
    do(state, c.StartMaintenance(id_of(number), FREEZE, vms, Cause.LIVE_MIGRATION, drains=host), now)
    tick(state, now)


def drained(state: State | None = None) -> State:
    """host-1 is empty."""
    state = state or listening()
    drain(state)
    pass_by(state, LATER)
    assert not state.fleet.on_host("host-1")
    return state


def bring_back(
    state: State,
    host: str = "host-1",
    number: int = 2,
    now: Instant = LATER,
    type: EventType = FREEZE,
    at_once: int = 0,
) -> None:
    """As `duenotice host return` asks for it."""
    do(state, c.RepairHost(host), now)
    vms = tuple(vm.name for vm in state.fleet.away(host))
    cause = Cause.MAINTENANCE if type is REDEPLOY else Cause.LIVE_MIGRATION
    do(state, c.StartMaintenance(id_of(number), type, vms, cause, at_once=at_once, to=host), now)
    tick(state, now)


def away(state: State, host: str = "host-1") -> list[str]:
    return sorted(vm.name for vm in state.fleet.away(host))


def hosts_of(state: State, *names: str) -> set[str | None]:
    return {state.fleet.vms[name].host for name in names}


def test_who_was_moved_away_from_a_drained_host_is_known() -> None:
    state = drained()
    assert away(state) == sorted(MOVED)
    assert hosts_of(state, *MOVED) == {"host-2"}


@pytest.mark.parametrize("kind", [FREEZE, REDEPLOY])
def test_all_of_them_are_told_and_come_back_one_update_domain_at_a_time(kind: EventType) -> None:
    state = drained()
    bring_back(state, type=kind)
    events = list(state.events.values())
    assert {name for event in events for name in event.resources} == {"alone", "web-0", "web-2", "zonal"}
    assert {(event.type, event.phase, event.host, event.to) for event in events} == {
        (kind, Phase.SCHEDULED, "host-2", "host-1")
    }
    assert all(event.not_before > LATER.at for event in events)
    pass_by(state, MUCH_LATER)
    assert (hosts_of(state, *MOVED), away(state)) == ({"host-1"}, [])
    assert state.maintenances[id_of(2)].status is Status.DONE


def test_a_live_migration_of_a_host_that_is_in_service_is_not_undone() -> None:
    state = listening()
    do(state, c.StartMaintenance(id_of(1), FREEZE, MOVED, Cause.LIVE_MIGRATION))
    pass_by(state, LATER)
    assert (hosts_of(state, *MOVED), away(state)) == ({"host-2"}, [])


def test_a_redeploy_off_a_drained_host_comes_back_too() -> None:
    """An operator whose VM cannot be migrated; also when nobody listens, and it is done at once."""
    state = state_of()
    do(state, c.HoldHost("host-1"))
    do(state, c.OperateVm(id_of(3), "alone", REDEPLOY))
    assert away(state) == ["alone"]


def test_one_that_fails_to_move_stays_away_and_can_be_brought_back_again() -> None:
    state, driven = drained(), Policy(simulated_impact=False)
    bring_back(state)
    event = next(event for event in state.events.values() if event.resources == ("alone",))
    do(state, c.ApproveEvents((event.id,)), LATER, driven)
    tick(state, LATER, driven)
    do(state, c.ReportImpact(event.id, "The host does not take it.", took=SECOND), LATER)
    tick(state, LATER)
    assert state.maintenances[id_of(2)].status is Status.FAILED
    assert (hosts_of(state, "alone"), "alone" in away(state)) == ({"host-2"}, True)
    bring_back(state, number=3, type=REDEPLOY)
    pass_by(state, MUCH_LATER)
    assert (hosts_of(state, *MOVED), away(state)) == ({"host-1"}, [])


def test_one_that_its_owner_has_moved_on_since_is_left_alone() -> None:
    state = drained()
    do(state, c.OperateVm(id_of(9), "alone", REDEPLOY), LATER)
    event = started(state, state.events[id_of(9)], LATER)
    tick(state, LATER.after(HOUR))
    assert event.id not in state.events
    assert (hosts_of(state, "alone"), "alone" in away(state)) == ({"host-3"}, False)


def test_one_that_somebody_moves_while_it_waits_is_not_hit() -> None:
    """As libvirt tells it: it is on host-3 now."""
    state = drained()
    bring_back(state)
    elsewhere = [structs.replace(vm, host="host-3") if vm.name == "alone" else on_2(vm) for vm in VMS]
    changes = do(state, c.ApplyFleet(declaration(*elsewhere, digest="2")), LATER)
    cancelled = [change.reason for change in changes if isinstance(change, t.EventCancelled)]
    assert cancelled == ["Its VMs have left host-2."]
    pass_by(state, MUCH_LATER)
    assert hosts_of(state, "alone") == {"host-3"}
    assert hosts_of(state, "web-0", "web-2", "web-3", "zonal") == {"host-1"}
    (step,) = [step for step in state.maintenances[id_of(2)].steps if step.resources == ("alone",)]
    assert step.status is StepStatus.SKIPPED


def test_one_that_waits_for_its_turn_and_was_moved_by_somebody_is_skipped() -> None:
    state = drained()
    bring_back(state, at_once=1)
    elsewhere = [structs.replace(vm, host="host-3") if vm.name == "web-3" else on_2(vm) for vm in VMS]
    do(state, c.ApplyFleet(declaration(*elsewhere, digest="2")), LATER)
    pass_by(state, MUCH_LATER)
    assert hosts_of(state, "web-3") == {"host-3"}
    assert [step.reason for step in state.maintenances[id_of(2)].steps if step.resources == ("web-3",)] == [
        "Its VMs have left host-2."
    ]


def on_2(vm: Vm) -> Vm:
    """As libvirt tells it after the drain."""
    return structs.replace(vm, host="host-2") if vm.name in MOVED else vm


def test_the_fleet_as_libvirt_tells_it_after_the_move_keeps_who_is_away() -> None:
    state = drained()
    do(state, c.ApplyFleet(declaration(*map(on_2, VMS), digest="2")), LATER)
    assert away(state) == sorted(MOVED)


def test_a_host_that_left_the_fleet_is_not_gone_back_to() -> None:
    state = drained()
    rest = declaration(*map(on_2, VMS), digest="2", hosts=(Host("host-2"), Host("host-3")))
    do(state, c.ApplyFleet(rest), LATER)
    assert away(state) == []


def test_also_not_by_one_that_is_on_its_way_there() -> None:
    state = drained()
    bring_back(state)
    event = next(event for event in state.events.values() if event.resources == ("alone",))
    started(state, event, LATER)
    rest = declaration(*map(on_2, VMS), digest="2", hosts=(Host("host-2"), Host("host-3")))
    do(state, c.ApplyFleet(rest), LATER)
    tick(state, LATER.after(HOUR))
    assert hosts_of(state, "alone") == {"host-3"}


def test_one_that_was_removed_and_made_again_is_another_vm() -> None:
    state = drained()
    do(state, c.ApplyFleet(declaration(*(vm for vm in VMS if vm.name != "alone"), digest="2")), LATER)
    do(state, c.ApplyFleet(declaration(*map(on_2, VMS), digest="3")), LATER)
    assert "alone" not in away(state)


@pytest.mark.parametrize(
    "command", [c.HoldHost("host-1"), c.FailHost("host-1", SEED), c.DegradeHost("host-1", DAY, SEED)]
)
def test_a_host_that_goes_out_of_service_again_gets_nobody_back(command: c.Command) -> None:
    state = drained()
    bring_back(state)
    do(state, command, LATER)
    plan = state.maintenances[id_of(2)]
    assert (plan.status, plan.reason) == (Status.CANCELLED, "The host is out of service.")
    assert not state.events
    assert away(state) == sorted(MOVED)


def test_a_host_that_is_out_of_service_gets_nobody_back() -> None:
    state = drained()
    back = c.StartMaintenance(id_of(2), FREEZE, MOVED, Cause.LIVE_MIGRATION, to="host-1")
    assert refused(state, back, Conflict, "The host host-1 is drained.")
    assert refused(state, structs.replace(back, to="host-9"), NotFound, "no host named")


def test_those_who_are_to_stay_are_told_so_and_stay() -> None:
    state = drained()
    bring_back(state)
    do(state, c.LeaveMoved("host-1"), LATER)
    plan = state.maintenances[id_of(2)]
    assert (plan.status, plan.reason) == (Status.CANCELLED, "The VMs stay where they are.")
    assert (away(state), state.events, hosts_of(state, *MOVED)) == ([], {}, {"host-2"})
    assert do(state, c.LeaveMoved("host-1"), LATER) == []


def test_a_host_that_returns_in_the_middle_of_its_drain_loses_nobody_else() -> None:
    """What has started ends, and is known to be away although the host is in service by then."""
    state = listening()
    drain(state)
    event = next(event for event in state.events.values() if event.resources == ("alone",))
    started(state, event)
    do(state, c.RepairHost("host-1"))
    plan = state.maintenances[id_of(1)]
    assert (plan.status, plan.reason) == (Status.CANCELLED, "The host is in service again.")
    pass_by(state, LATER)
    assert (hosts_of(state, *MOVED), away(state)) == ({"host-1", "host-2"}, ["alone"])
    assert [vm.name for vm in state.fleet.on_host("host-2")] == ["alone", "web-1"]


def test_a_host_that_returns_when_all_of_its_drain_is_under_way_lets_it_end_well() -> None:
    """As after a drain that stops guests: they are started when the host is back, and then it is done."""
    state = listening()
    do(state, c.HoldHost("host-1"))
    do(state, c.StartMaintenance(id_of(1), EventType.REBOOT, ("alone",), Cause.MAINTENANCE, drains="host-1"))
    tick(state)
    (event,) = state.events.values()
    assert started(state, event).phase is Phase.STARTED
    do(state, c.RepairHost("host-1"))
    assert state.maintenances[id_of(1)].status is Status.RUNNING
    pass_by(state, LATER)
    assert state.maintenances[id_of(1)].status is Status.DONE


def test_a_repair_of_a_host_in_service_does_not_stop_a_plan() -> None:
    state = listening()
    do(state, c.StartMaintenance(id_of(1), FREEZE, MOVED, Cause.LIVE_MIGRATION, drains="host-1"))
    do(state, c.RepairHost("host-1"))
    assert state.maintenances[id_of(1)].status is Status.RUNNING


def test_of_two_drained_hosts_the_first_is_home() -> None:
    state = drained()
    drain(state, "host-2", 5, LATER)
    pass_by(state, MUCH_LATER)
    assert hosts_of(state, *MOVED, "web-1") == {"host-3"}
    assert (away(state), away(state, "host-2")) == (sorted(MOVED), ["web-1"])


def test_but_a_home_that_is_in_service_again_without_them_is_no_longer_home() -> None:
    state = drained()
    do(state, c.RepairHost("host-1"), LATER)
    do(state, c.HoldHost("host-3"), LATER)
    drain(state, "host-2", 5, LATER)
    event = next(event for event in state.events.values() if event.resources == ("alone",))
    started(state, event, LATER)
    tick(state, LATER.after(HOUR))
    assert (hosts_of(state, "alone"), "alone" in away(state), "alone" in away(state, "host-2")) == (
        {"host-1"},
        False,
        False,
    )


def test_what_a_driver_says_of_its_work_is_in_the_record() -> None:
    driven = Policy(simulated_impact=False)
    state = listening("alone")
    for number, report in enumerate([{"what": "paused and resumed"}, {"failure": "Broken."}], 1):
        operate(state, "alone", EventType.REBOOT, number=number)
        do(state, c.ApproveEvents((id_of(number),)), policy=driven)
        tick(state, policy=driven)
        (end,) = do(state, c.ReportImpact(id_of(number), took=9 * SECOND, **report))
        assert isinstance(end, t.EventCompleted | t.EventFailed)
        assert end.took == 9 * SECOND
        assert getattr(end, "what", "") == report.get("what", "")


@pytest.mark.parametrize("fields", [{"what": "x" * 4001}, {"took": -1}])
def test_a_report_that_is_not_valid_is_refused(fields: dict[str, object]) -> None:
    state = listening("alone")
    operate(state, "alone", EventType.REBOOT)
    started(state, state.events[id_of(1)])
    assert refused(state, c.ReportImpact(id_of(1), **fields), Refused, "is not valid")  # type: ignore[arg-type]
