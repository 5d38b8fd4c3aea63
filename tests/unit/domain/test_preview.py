"""The timeline of a plan is what then comes true."""

import pytest

from duenotice.clock import Instant
from duenotice.domain.commands import PauseMaintenance, StartMaintenance
from duenotice.domain.event import Cause, EventType
from duenotice.domain.fleet import Vm
from duenotice.domain.policy import Policy
from duenotice.domain.rules.preview import outlook, preview
from duenotice.domain.snapshot import take
from duenotice.errors import Conflict, Unavailable
from tests.unit.domain.build import (
    NOW,
    POLICY,
    SECOND,
    approve,
    degrade,
    do,
    id_of,
    listening,
    maintain,
    schedule,
    state_of,
    tick,
)

WEBS = ("web-0", "web-1", "web-2", "web-3")
PLAN = StartMaintenance(id_of(1), EventType.REBOOT, WEBS, settle=60 * SECOND)


def test_each_step_has_its_notice_its_impact_and_the_settle_time_of_the_one_before() -> None:
    first, *second = preview(listening(), PLAN, NOW, POLICY)
    assert first.step.resources == ("web-0", "web-2")
    assert (first.scheduled_at, first.not_before, first.starts_at) == (
        NOW.at,
        NOW.after(900 * SECOND).at,
        NOW.after(900 * SECOND).at,
    )
    assert first.ends_at == NOW.after(1500 * SECOND).at
    assert [planned.step.resources for planned in second] == [("web-3",), ("web-1",)]
    assert {planned.scheduled_at for planned in second} == {NOW.after(1560 * SECOND).at}
    assert {planned.ends_at for planned in second} == {NOW.after((1560 + 1500) * SECOND).at}


def test_where_nobody_listens_nothing_waits() -> None:
    first = preview(state_of(), PLAN, NOW, POLICY)[0]
    assert (first.starts_at, first.ends_at) == (NOW.at, NOW.after(600 * SECOND).at)


def test_a_driver_is_taken_to_need_the_usual_time() -> None:
    first = preview(listening(), PLAN, NOW, Policy(simulated_impact=False))[0]
    assert first.ends_at == NOW.after(1500 * SECOND).at


def test_an_event_that_is_there_already_holds_the_other_update_domains_back() -> None:
    """As it then will (S11): both may start after 15 minutes, and the one that was there goes first."""
    state = listening()
    schedule(state, "web-1", number=7)
    first = preview(state, PLAN, NOW, POLICY)[0]
    plan = maintain(state, *WEBS, settle=60 * SECOND)
    for seconds in (900, 1500):
        tick(state, NOW.after(seconds * SECOND))
    came = next(event for event in state.events.values() if event.maintenance == plan.id)
    assert first.not_before == NOW.after(900 * SECOND).at
    assert first.starts_at == came.started_at == NOW.after(1500 * SECOND).at


def test_what_nobody_knows_the_end_of_is_left_out() -> None:
    """A driver may need for ever; a timeline that never ends helps nobody."""
    state, driven = listening(), Policy(simulated_impact=False)
    approve(state, schedule(state, "web-1", number=7))
    tick(state, NOW, driven)
    assert preview(state, PLAN, NOW, driven)[0].starts_at == NOW.after(900 * SECOND).at


def test_a_step_that_something_else_makes_needless_has_no_times() -> None:
    """Whoever is redeployed off a degraded host need not be moved off it any more."""
    state = listening()
    degrade(state, "host-1", notice=600 * SECOND)
    move = StartMaintenance(id_of(1), EventType.FREEZE, ("web-0", "web-3"), Cause.LIVE_MIGRATION)
    assert [planned.step.resources for planned in preview(state, move, NOW, POLICY)] == [("web-0",)]
    assert len(preview(listening(), move, NOW, POLICY)) == 2


def test_looking_ahead_changes_nothing() -> None:
    state = listening()
    schedule(state, "web-1", number=7)
    before = take(state)
    preview(state, PLAN, NOW, POLICY)
    assert take(state) == before


def test_what_would_be_refused_has_no_timeline() -> None:
    state = listening()
    maintain(state, "web-0", number=2)
    with pytest.raises(Conflict, match="under maintenance"):
        preview(state, PLAN, NOW, POLICY)


@pytest.mark.parametrize("settle", [0, 1, 100_000, 333_333])
def test_odd_fractions_of_a_second_lose_no_step(settle: int) -> None:
    plan = StartMaintenance(id_of(1), EventType.FREEZE, (*WEBS, "batch_0", "batch_100", "batch_101"), settle=settle)
    odd = Instant(NOW.after(142_857).at, NOW.steady + 476_190)
    assert len(preview(listening(), plan, odd, POLICY)) == 6


def test_the_outlook_of_a_plan_is_the_rest_of_its_preview() -> None:
    state = listening()
    planned = preview(state, PLAN, NOW, POLICY)
    do(state, PLAN)
    tick(state)
    seen = outlook(state, state.maintenances[PLAN.maintenance_id], NOW.after(60 * SECOND), POLICY)
    assert [(step.step.resources, step.scheduled_at, step.ends_at) for step in seen] == [
        (step.step.resources, step.scheduled_at, step.ends_at) for step in planned[1:]
    ]


def test_a_plan_that_is_paused_has_no_outlook() -> None:
    state = listening()
    do(state, PLAN)
    tick(state)
    do(state, PauseMaintenance(PLAN.maintenance_id))
    assert outlook(state, state.maintenances[PLAN.maintenance_id], NOW, POLICY) == []


def test_an_event_that_a_driver_is_at_is_taken_to_need_the_usual_time() -> None:
    state, policy = state_of(), Policy(simulated_impact=False)
    do(state, PLAN, policy=policy)
    tick(state, policy=policy)
    seen = outlook(state, state.maintenances[PLAN.maintenance_id], NOW, policy)
    assert {step.scheduled_at for step in seen} == {NOW.after(660 * SECOND).at}


@pytest.mark.parametrize("jitter", [-10_000, -1, 1, 10_000])
def test_an_outlook_is_whole_although_the_two_faces_of_time_are_read_apart(jitter: int) -> None:
    state = listening()
    planned = preview(state, PLAN, NOW, POLICY)
    do(state, PLAN)
    tick(state)
    later = Instant(NOW.after(60 * SECOND + jitter).at, NOW.steady + 60 * SECOND)
    assert len(outlook(state, state.maintenances[PLAN.maintenance_id], later, POLICY)) == len(planned) - 1


def test_a_preview_ends_when_nobody_waits_for_it() -> None:
    asked: list[bool] = []

    def impatient() -> bool:
        asked.append(True)
        return len(asked) > 1

    vms = tuple(Vm(f"x{n}", f"10.0.{n // 256}.{n % 256}") for n in range(300))
    command = StartMaintenance(id_of(1), EventType.REBOOT, tuple(vm.name for vm in vms))
    with pytest.raises(Unavailable, match="takes too long") as late:
        preview(state_of(*vms), command, NOW, POLICY, impatient)
    assert "fewer VMs" in late.value.hint
    assert len(asked) == 2


def test_an_outlook_ends_when_it_has_seen_too_much() -> None:
    state = listening()
    do(state, PLAN)
    tick(state)
    plan = state.maintenances[PLAN.maintenance_id]
    assert len(outlook(state, plan, NOW, POLICY, limit=100)) == 2
    with pytest.raises(Unavailable, match="takes too long"):
        outlook(state, plan, NOW, POLICY, limit=10)


def test_the_outlook_of_a_plan_half_done_leaves_out_what_is_over() -> None:
    state = listening()
    maintain(state, *WEBS, settle=60 * SECOND)
    for seconds in (900, 1500):
        tick(state, NOW.after(seconds * SECOND))
    seen = outlook(state, state.maintenances[id_of(1)], NOW.after(1501 * SECOND), POLICY)
    assert [step.step.resources for step in seen] == [("web-3",), ("web-1",)]
    assert {step.scheduled_at for step in seen} == {NOW.after(1560 * SECOND).at}


def test_a_copy_to_look_ahead_from_counts_the_vms_of_each_scope() -> None:
    """Else the outlook of a plan beside an instance that is deleted fails: it counts one VM less than none."""
    state = listening()
    assert state.copy_to_read().scope_sizes == state.scope_sizes != {}
