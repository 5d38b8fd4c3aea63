"""What is done costs what changes: for four times as many it takes four times as many calls, not sixteen times."""

import sys
from collections.abc import Callable

import pytest
from msgspec import structs

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain.apply import apply
from duenotice.domain.event import Cause, EventType
from duenotice.domain.fleet import Declaration, Group, GroupKind, Host, Vm
from duenotice.domain.rules.due import due_actions, next_due, window_is_due
from duenotice.domain.rules.preview import outlook, preview
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from duenotice.domain.window import Window, WindowSpan
from tests.unit.domain.build import NOW, POLICY, SECOND, SEED, do, id_of

FEW = 60
SET = Group(GroupKind.AVAILABILITY_SET, "big")
SCALE_SET = Group(GroupKind.SCALE_SET, "many", terminate_notice=300)

Work = Callable[[], object]


def fleet(vms: list[Vm], listens: bool = True) -> State:
    """A fleet of these, in two groups or in none, on the first of many hosts."""
    hosts = tuple(Host(f"host-{number:02}") for number in range(50))
    state = State()
    do(state, c.ApplyFleet(Declaration("first", hosts=hosts, groups=(SET, SCALE_SET), vms=tuple(vms))))
    for vm in vms if listens else ():
        do(state, c.EnableScope(vm.name))
    return state


def alone(number: int) -> list[Vm]:
    return [Vm(f"vm-{n}", f"10.0.{n // 256}.{n % 256}", host="host-00") for n in range(number)]


def in_set(number: int) -> list[Vm]:
    return [Vm(vm.name, vm.address, SET.key, update_domain=n % 5, host="host-00") for n, vm in enumerate(alone(number))]


def in_scale_set(number: int) -> list[Vm]:
    """Each in a placement group of its own, so that there are as many scopes as VMs."""
    return [Vm(vm.name, vm.address, SCALE_SET.key, n, update_domain=0) for n, vm in enumerate(alone(number))]


def pass_until(state: State, now: Instant) -> None:
    for _, changes in due_actions(state, now, POLICY):
        for change in changes:
            apply(state, change)


def begin(state: State, **fields: int) -> None:
    do(state, c.StartMaintenance(SEED, EventType.REBOOT, tuple(state.fleet.vms), **fields))  # type: ignore[arg-type]


def notices_of_a_set_run_out(number: int) -> Work:
    state = fleet(in_set(number))
    do(state, c.DegradeHost("host-00", 600 * SECOND, SEED))
    return lambda: pass_until(state, NOW.after(600 * SECOND))


def moves_off_a_degraded_host_end(number: int) -> Work:
    state = fleet(in_set(number))
    do(state, c.DegradeHost("host-00", 600 * SECOND, SEED))
    pass_until(state, NOW.after(600 * SECOND))
    return lambda: pass_until(state, NOW.after(1200 * SECOND))


def a_risk_grows(number: int) -> Work:
    state = fleet(in_set(number))
    do(state, c.DegradeHost("host-00", 86_400 * SECOND, SEED))
    return lambda: do(state, c.DegradeHost("host-00", 600 * SECOND, id_of(2)))


def a_host_fails(number: int) -> Work:
    state = fleet(alone(number))
    return lambda: do(state, c.FailHost("host-00", SEED))


def a_failure_ends(number: int) -> Work:
    state = fleet(alone(number))
    do(state, c.FailHost("host-00", SEED))
    return lambda: pass_until(state, NOW.after(600 * SECOND))


def many_wait_for_one_to_end(number: int) -> Work:
    """The others of the set are approved and held back; nobody looks at them again and again."""
    state = fleet(in_set(number))
    for n, name in enumerate(state.fleet.vms):
        do(state, c.ScheduleEvent(id_of(n), EventType.REBOOT, (name,)))
        do(state, c.ApproveEvents((id_of(n),)))
    pass_until(state, NOW)

    def look_often() -> None:
        for seconds in range(number):
            pass_until(state, NOW.after(seconds))

    return look_often


def deletes_wait_for_each_other(number: int) -> Work:
    state = fleet([Vm(vm.name, vm.address, SCALE_SET.key, 0, update_domain=0) for vm in alone(number)])
    do(state, c.ScaleSet("many", SEED, 0))
    do(state, c.ApproveEvents(tuple(state.events)[1:]))
    return lambda: pass_until(state, NOW.after(300 * SECOND))


def many_events_of_one_vm_end(number: int) -> Work:
    state = fleet(alone(1))
    for n in range(number):
        do(state, c.ScheduleEvent(id_of(n), EventType.REBOOT, ("vm-0",)))
    pass_until(state, NOW.after(901 * SECOND))
    return lambda: pass_until(state, NOW.after(1600 * SECOND))


def a_plan_waits_for_room(number: int) -> Work:
    """Its scope may have ten events."""
    state = fleet([Vm(vm.name, vm.address, SET.key, update_domain=0, host=vm.name) for vm in alone(number)])
    policy = structs.replace(POLICY, events_per_scope=10)
    begin(state)

    def go_on() -> None:
        for minutes in range(0, number // 10 * 26, 5):
            for _, changes in due_actions(state, NOW.after(60 * minutes * SECOND), policy):
                for change in changes:
                    apply(state, change)

    return go_on


def a_plan_goes_on_one_by_one(number: int) -> Work:
    state = fleet(alone(number))
    begin(state, at_once=1)

    def go_on() -> None:
        for n in range(number):
            pass_until(state, NOW.after(1500 * n * SECOND))
            pass_until(state, NOW.after((1500 * n + 900) * SECOND))

    return go_on


def a_plan_goes_on_all_at_once(number: int) -> Work:
    state = fleet(in_set(number))
    begin(state, settle=60 * SECOND)

    def go_on() -> None:
        for minutes in range(0, 150, 5):
            pass_until(state, NOW.after(60 * minutes * SECOND))

    return go_on


def a_preview_one_by_one(number: int) -> Work:
    state = fleet(alone(number))
    asked = c.StartMaintenance(SEED, EventType.REBOOT, tuple(state.fleet.vms), at_once=1, settle=60 * SECOND)
    return lambda: preview(state, asked, NOW, POLICY)


def a_preview_of_a_drain(number: int) -> Work:
    state = fleet(in_set(number))
    asked = c.StartMaintenance(SEED, EventType.FREEZE, tuple(state.fleet.vms), Cause.LIVE_MIGRATION)
    return lambda: preview(state, asked, NOW, POLICY)


def an_outlook(number: int) -> Work:
    state = fleet(in_scale_set(number))
    begin(state, at_once=2, settle=60 * SECOND)
    pass_until(state, NOW)
    plan = state.maintenances[SEED]
    return lambda: outlook(state, plan, NOW, POLICY)


def many_plans_end_at_once(number: int) -> Work:
    state = fleet(alone(number), listens=False)
    for n, name in enumerate(state.fleet.vms):
        do(state, c.StartMaintenance(id_of(n), EventType.REBOOT, (name,)))
    pass_until(state, NOW)
    return lambda: pass_until(state, NOW.after(600 * SECOND))


def a_plan_is_stopped(number: int) -> Work:
    state = fleet(alone(number), listens=False)
    begin(state)
    pass_until(state, NOW)

    def stop() -> None:
        do(state, c.CancelMaintenance(SEED))
        pass_until(state, NOW.after(600 * SECOND))

    return stop


def a_scale_set_leaves(number: int) -> Work:
    others = [Vm(f"other-{n}", f"10.1.{n // 256}.{n % 256}") for n in range(number)]
    state = fleet([*in_scale_set(number), *others])
    return lambda: do(state, c.ApplyFleet(Declaration("second", vms=tuple(others))))


def vms_with_events_move(number: int) -> Work:
    state = fleet(in_set(number))
    for n, name in enumerate(state.fleet.vms):
        do(state, c.ScheduleEvent(id_of(n), EventType.REBOOT, (name,)))
    return lambda: do(state, c.ApplyFleet(Declaration("second", vms=tuple(alone(number)))))


def a_restart(number: int) -> Work:
    state = fleet(in_set(number))
    begin(state)
    pass_until(state, NOW.after(900))
    return lambda: restore(take(state))


def calls(work: Work) -> int:
    """How many functions are called to do it, those of the interpreter too."""
    counted = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return counted


@pytest.mark.parametrize(
    "making",
    [
        notices_of_a_set_run_out,
        moves_off_a_degraded_host_end,
        a_risk_grows,
        a_host_fails,
        a_failure_ends,
        many_wait_for_one_to_end,
        deletes_wait_for_each_other,
        many_events_of_one_vm_end,
        a_plan_waits_for_room,
        a_plan_goes_on_one_by_one,
        a_plan_goes_on_all_at_once,
        a_preview_one_by_one,
        a_preview_of_a_drain,
        an_outlook,
        many_plans_end_at_once,
        a_plan_is_stopped,
        a_scale_set_leaves,
        vms_with_events_move,
        a_restart,
    ],
)
def test_four_times_as_many_cost_about_four_times_as_much(making: Callable[[int], Work]) -> None:
    few, many = calls(making(FEW)), calls(making(4 * FEW))
    assert many < 5 * few, f"{FEW}: {few} calls, {4 * FEW}: {many}"


def test_a_plan_that_waits_for_its_window_costs_nothing_however_large_it_is() -> None:
    """Each moment that something else is due, and each look of the ticker."""
    begins, now = NOW.after(86_400 * SECOND), NOW.after(60 * SECOND)

    def waiting(number: int) -> Work:
        state = fleet(alone(number))
        window = Window((WindowSpan(begins.at, begins.after(3600 * SECOND).at),))
        do(state, c.StartMaintenance(SEED, EventType.REBOOT, tuple(state.fleet.vms), window=window))

        def look() -> None:
            pass_until(state, now)
            assert not window_is_due(state, now, POLICY)
            assert next_due(state, now.steady, now.at) is not None

        return look

    assert calls(waiting(4 * FEW)) == calls(waiting(FEW))
