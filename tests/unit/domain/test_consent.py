"""The consent of a whole host: a maintenance hits none of its VMs before all scopes there agree (C07, S1)."""

import pytest
from msgspec import structs

from duenotice.clock import Instant
from duenotice.domain.commands import (
    ApplyFleet,
    ApproveEvents,
    CancelEvent,
    EnableScope,
    MakeUpForDowntime,
    OperateVm,
    PostponeEvents,
    ReportImpact,
    StartMaintenance,
)
from duenotice.domain.event import Cause, Consent, Event, EventType, Phase
from duenotice.domain.fleet import Declaration, Host, Vm
from duenotice.domain.plan import Status, StepStatus
from duenotice.domain.rules.due import next_due
from duenotice.domain.rules.lifecycle import awaited, awaited_by
from duenotice.domain.rules.maintenance import planned
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from duenotice.domain.timers import blockers_of, due, due_at
from duenotice.errors import Refused
from tests.unit.domain.build import DAY, HOUR, MINUTE, NOW, SECOND, VMS, declaration, do, fail, id_of, listening, tick

REBOOT, FREEZE, REDEPLOY = EventType.REBOOT, EventType.FREEZE, EventType.REDEPLOY
ON_HOST = ("alone", "zonal", "web-0", "web-2")
"""VMs of host-1, in three scopes; web-0 and web-2 are in one update domain, and so in one event."""
SCOPES = ["set/web", "vm/alone", "vm/zonal"]


def begun(state: State, vms: tuple[str, ...] = ON_HOST, kind: EventType = REBOOT) -> dict[str, Event]:
    """Begin a maintenance with the consent of hosts; its events by scope."""
    do(state, StartMaintenance(id_of(900), kind, vms, consent=Consent.HOST))
    tick(state)
    return {event.scope: event for event in state.events.values()}


def after(micros: int) -> Instant:
    return NOW.after(micros)


def phases(state: State) -> dict[str, str]:
    return {event.scope: event.phase.value for event in state.events.values()}


def approve(state: State, event: Event, now: Instant = NOW) -> None:
    do(state, ApproveEvents((event.id,), vm=event.resources[0]), now)
    tick(state, now)


def test_no_vm_of_the_host_is_hit_before_all_scopes_have_approved() -> None:
    """Each reads Scheduled until then, also those that have approved; then all start in one moment."""
    state = listening()
    events = begun(state)
    assert list(events) == SCOPES
    for number, scope in enumerate(SCOPES):
        assert awaited(state, events["vm/alone"], NOW) == SCOPES[number:]
        assert set(phases(state).values()) == {"scheduled"}
        approve(state, events[scope])
    assert phases(state) == dict.fromkeys(SCOPES, "started")
    assert awaited(state, state.events[events["vm/alone"].id], NOW) == []


def test_who_runs_out_of_notice_is_awaited_no_longer() -> None:
    """It starts at NotBefore as ever (S1), and with it those that have approved."""
    state = listening()
    events = begun(state)
    approve(state, events["vm/alone"])
    assert due(state.timers, state.events, state.blockers, NOW.steady) == []  # not looked at again and again
    early, end = after(15 * MINUTE - 1), after(15 * MINUTE)
    assert next_due(state, NOW.steady) == end.steady
    assert tick(state, early) == []
    assert awaited(state, events["vm/alone"], early) == ["set/web", "vm/zonal"]
    tick(state, end)
    assert phases(state) == dict.fromkeys(SCOPES, "started")


def test_approving_again_changes_nothing_and_an_operator_may_approve_for_who_is_silent() -> None:
    """C02, S17."""
    state = listening()
    events = begun(state)
    for _ in range(2):
        approve(state, events["vm/alone"])
    before = take(state)
    assert do(state, ApproveEvents((events["vm/alone"].id,), vm="alone")) == []
    assert take(state).events == before.events
    do(state, ApproveEvents((events["set/web"].id, events["vm/zonal"].id)))
    tick(state)
    assert set(phases(state).values()) == {"started"}


def test_a_cancelled_event_is_awaited_no_longer() -> None:
    state = listening()
    events = begun(state)
    approve(state, events["vm/alone"])
    approve(state, events["set/web"])
    do(state, CancelEvent(events["vm/zonal"].id))
    tick(state)
    assert phases(state) == {"vm/alone": "started", "set/web": "started"}


def test_a_vm_that_leaves_the_host_is_awaited_no_longer_and_not_hit() -> None:
    """Its user redeploys it: the work on the old host does not concern it any more."""
    state = listening()
    events = begun(state)
    approve(state, events["vm/alone"])
    approve(state, events["set/web"])
    do(state, OperateVm(id_of(7), "zonal", REDEPLOY))
    do(state, ApproveEvents((id_of(7),), vm="zonal"))
    tick(state)
    do(state, ReportImpact(id_of(7)))
    tick(state)
    assert events["vm/zonal"].id not in state.events
    assert phases(state) == {"vm/alone": "started", "set/web": "started"}


def test_of_several_vms_of_a_scope_all_have_to_leave() -> None:
    """One of two is still there, so its scope is still asked; and so is one that leaves with a fleet file."""
    state = listening()
    events = begun(state)
    for left, still_awaited in ((["web-0"], SCOPES), (["web-0", "web-2"], ["vm/alone", "vm/zonal"])):
        vms = [structs.replace(vm, host="host-3", placement="host-3") if vm.name in left else vm for vm in VMS]
        do(state, ApplyFleet(declaration(*vms, digest=str(left))))
        assert awaited(state, events["vm/alone"], NOW) == still_awaited


def test_a_vm_that_is_deleted_is_awaited_no_longer() -> None:
    state = listening()
    events = begun(state)
    approve(state, events["vm/alone"])
    approve(state, events["set/web"])
    do(state, ApplyFleet(declaration(*(vm for vm in VMS if vm.name != "zonal"), digest="without")))
    tick(state)
    assert phases(state) == {"vm/alone": "started", "set/web": "started"}


def test_who_does_not_listen_and_who_has_agreed_beforehand_are_not_awaited() -> None:
    """F03, M09: nobody would answer."""
    state = listening("alone")
    events = begun(state)
    assert awaited(state, events["vm/alone"], NOW) == ["vm/alone"]
    approve(state, events["vm/alone"])
    assert set(phases(state).values()) == {"started"}


def test_hosts_do_not_wait_for_each_other_and_vms_without_a_host_for_nobody() -> None:
    state = listening()
    events = begun(state, (*ON_HOST, "web-1", "spot", "adrift"))
    assert awaited(state, events["vm/spot"], NOW) == ["vm/spot"]
    assert awaited(state, events["vm/adrift"], NOW) == []
    approve(state, events["vm/spot"])
    approve(state, events["vm/adrift"])
    assert {scope for scope, phase in phases(state).items() if phase == "started"} == {"vm/spot", "vm/adrift"}


def test_a_second_update_domain_of_a_set_on_the_host_comes_later() -> None:
    """S11 holds as ever: web-3 is asked when web-0 and web-2 are done, and then waits for nobody else."""
    state = listening()
    events = begun(state, (*ON_HOST, "web-3"))
    assert [event.resources for event in state.events.values() if event.scope == "set/web"] == [("web-0", "web-2")]
    for scope in SCOPES:
        approve(state, events[scope])
    tick(state, after(10 * MINUTE))
    (second,) = state.events.values()
    assert (second.resources, awaited(state, second, after(10 * MINUTE))) == (("web-3",), ["set/web"])
    approve(state, second, after(10 * MINUTE))
    assert state.events[second.id].phase is Phase.STARTED


def test_another_update_domain_that_is_hit_holds_up_only_its_own_set() -> None:
    """Consent is given; what else makes an event wait counts for it alone (S11)."""
    state = listening()
    events = begun(state)
    fail(state, "host-2")
    for scope in SCOPES:
        approve(state, events[scope])
    assert {event.scope: event.phase.value for event in state.events.values() if event.cause is Cause.MAINTENANCE} == {
        "set/web": "scheduled",
        "vm/alone": "started",
        "vm/zonal": "started",
    }


def test_time_in_which_nobody_could_be_answered_keeps_all_waiting() -> None:
    """S25: who has approved waits until the new end of the notice of the others."""
    state = listening()
    events = begun(state)
    approve(state, events["vm/alone"])
    back = Instant(after(2 * HOUR).at, NOW.steady + MINUTE)
    do(state, MakeUpForDowntime(), back)
    assert state.events[events["vm/zonal"].id].not_before > events["vm/zonal"].not_before
    assert tick(state, Instant(after(3 * HOUR).at, NOW.steady + 15 * MINUTE - 1)) == []
    tick(state, Instant(after(3 * HOUR).at, NOW.steady + 15 * MINUTE + SECOND))
    assert set(phases(state).values()) == {"started"}


def test_one_that_is_shown_later_than_the_others_is_waited_for() -> None:
    """S2: its notice ends later; those whose notice is over wait for it, and nothing is looked at until then."""
    state = listening()
    events = begun(state)
    do(state, PostponeEvents((events["vm/zonal"].id,), 0), after(5 * MINUTE))
    end = after(20 * MINUTE)
    assert tick(state, after(15 * MINUTE)) == []
    assert next_due(state, after(15 * MINUTE).steady) == end.steady
    tick(state, end)
    assert set(phases(state).values()) == {"started"}


def test_both_faces_of_time_have_to_say_so() -> None:
    """S1: a clock that was set back makes it late, never early."""
    state = listening()
    events = begun(state)
    approve(state, events["vm/alone"])
    assert tick(state, Instant(NOW.at, NOW.steady + DAY)) == []
    tick(state, Instant(after(DAY).at, NOW.steady + DAY))
    assert set(phases(state).values()) == {"started"}


def test_it_is_the_same_after_a_restart() -> None:
    """A snapshot gives back who waits for whom, and when which event is due."""
    state = listening()
    events = begun(state)
    approve(state, events["vm/alone"])
    again = restore(take(state))
    assert (again.consenting, again.blockers, sorted(again.timers)) == (
        state.consenting,
        state.blockers,
        sorted({(due_at(event, blockers_of(state.blockers, event)), event.id) for event in state.events.values()}),
    )
    copy = again.copy()
    for each in (state, again, copy):
        do(each, ApproveEvents((events["set/web"].id, events["vm/zonal"].id)))
        tick(each)
        assert set(phases(each).values()) == {"started"}


def test_the_maintenance_goes_on_to_its_end() -> None:
    state = listening()
    begun(state)
    tick(state, after(15 * MINUTE))
    tick(state, after(25 * MINUTE))
    assert (state.events, state.plans[id_of(900)].plan.status) == ({}, Status.DONE)
    assert not state.consenting and not state.blockers


def test_a_limit_on_steps_does_not_go_with_it() -> None:
    """All VMs of a host are hit together."""
    with pytest.raises(Refused, match="at_once cannot limit that") as refusal:
        planned(listening(), StartMaintenance(id_of(1), REBOOT, ON_HOST, at_once=1, consent=Consent.HOST), NOW)
    assert refusal.value.hint


def test_a_host_of_a_thousand_scopes_starts_as_one() -> None:
    """S24: each approval looks at those of its host once, and nothing is looked at twice."""
    names = [f"vm-{number}" for number in range(1000)]
    vms = tuple(Vm(name, f"10.1.{number // 250}.{number % 250}", host="h") for number, name in enumerate(names))
    state = State()
    do(state, ApplyFleet(Declaration("many", hosts=(Host("h"),), vms=vms)))
    for name in names:
        do(state, EnableScope(name))
    events = begun(state, tuple(names), FREEZE)
    *others, last = events.values()
    do(state, ApproveEvents(tuple(event.id for event in others)))
    assert tick(state) == []
    assert awaited(state, last, NOW) == [last.scope]
    approve(state, last)
    assert {event.phase for event in state.events.values()} == {Phase.STARTED}


def test_a_vm_that_has_left_the_host_before_its_turn_is_left_out() -> None:
    """Its step says why."""
    state = listening()
    begun(state, (*ON_HOST, "web-3"))
    vms = [structs.replace(vm, host="host-3", placement="host-3") if vm.name == "web-3" else vm for vm in VMS]
    do(state, ApplyFleet(declaration(*vms, digest="moved")))
    for moment in (15 * MINUTE, 25 * MINUTE):
        tick(state, after(moment))
    (step,) = (step for step in state.maintenances[id_of(900)].steps if step.resources == ("web-3",))
    assert (step.status, step.reason) == (StepStatus.SKIPPED, "Its VMs have left host-1.")


def test_a_maintenance_knows_all_who_are_awaited_on_any_host() -> None:
    """Each scope that has neither approved nor run out of notice, also where it is the only one on its host."""
    state = listening()
    events = begun(state, (*ON_HOST, "spot", "adrift"))
    plan = state.plans[id_of(900)].plan
    assert sorted(awaited_by(state, plan, NOW)) == [*SCOPES[:2], "vm/spot", SCOPES[2]]
    for scope in ("vm/alone", "vm/spot"):
        approve(state, events[scope])
    assert awaited_by(state, plan, NOW) == ["set/web", "vm/zonal"]
    assert awaited_by(state, structs.replace(plan, consent=Consent.SCOPE), NOW) == []
