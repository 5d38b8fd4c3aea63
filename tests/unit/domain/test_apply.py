"""The fold, and above all that no VM ever meets an incarnation it has seen with other content (S3, S4)."""

from datetime import timedelta

import pytest

from duenotice.clock import Mark
from duenotice.domain import apply as apply_module
from duenotice.domain import records as t
from duenotice.domain.apply import apply, fold
from duenotice.domain.commands import ApplyFleet, CancelEvent, EnableScope, LiftIncarnations, MarkClock, OperateVm
from duenotice.domain.event import EventType
from duenotice.domain.fleet import Declaration, Vm, scope_of
from duenotice.domain.plan import Status, StepStatus
from duenotice.domain.records import (
    GroupsRemoved,
    HostsRemoved,
    OperationPerformed,
    Record,
    ScopeDisabled,
    ScopeEnabled,
    Transition,
    VmsRemoved,
)
from duenotice.domain.snapshot import take
from duenotice.domain.state import State
from duenotice.errors import InvariantBroken
from tests.unit.domain.build import (
    NOW,
    SECOND,
    VMS,
    WEB,
    declaration,
    do,
    id_of,
    listening,
    maintain,
    operate,
    schedule,
    started,
    state_of,
    tick,
)
from tests.unit.domain.test_indexes import kept

X = Vm("x", "10.0.0.1")
X_IN_WEB = Vm("x", "10.0.0.1", WEB.key, update_domain=0)
Y_IN_WEB = Vm("y", "10.0.0.2", WEB.key, update_domain=1)
Z = Vm("z", "10.0.0.3")


def refleet(state: State, *vms: Vm) -> None:
    """The fleet is these VMs now."""
    do(state, ApplyFleet(declaration(*vms, digest=f"{state.position}")))


def change_times(state: State, vm: str, times: int) -> int:
    """Let the document of a VM change so often; its incarnation then."""
    for number in range(times):
        if number % 2:
            do(state, CancelEvent(id_of(100 + number)))
        else:
            schedule(state, vm, number=101 + number)
    return incarnation(state, vm)


def incarnation(state: State, vm: str) -> int:
    return state.document(scope_of(state.fleet.vms[vm])).incarnation


def test_folding_a_record_moves_to_its_place_and_time() -> None:
    state = State()
    fold(state, Record(7, NOW.at, "operator", OperationPerformed("x", "reboot")))
    assert (state.position, state.at) == (7, NOW.at)


def test_each_change_of_the_events_adds_one_to_the_incarnation() -> None:
    state = listening()
    seen = [incarnation(state, "alone")]
    event = schedule(state, "alone")
    seen.append(incarnation(state, "alone"))
    started(state, event)
    seen.append(incarnation(state, "alone"))
    tick(state, NOW.after(600 * SECOND))
    seen.append(incarnation(state, "alone"))
    assert seen == [0, 1, 2, 3]


def test_a_change_in_one_scope_is_none_in_another() -> None:
    state = listening()
    schedule(state, "alone")
    assert incarnation(state, "zonal") == 0


def test_events_of_a_scope_stand_in_the_order_they_were_raised() -> None:
    state = listening()
    for number in (3, 1, 2):
        schedule(state, "alone", number=number)
    do(state, CancelEvent(id_of(1)))
    assert [event.id for event in state.document("vm/alone").events] == [id_of(3), id_of(2)]


def test_a_clock_mark_is_kept_for_the_next_process() -> None:
    state = State()
    do(state, MarkClock(Mark(NOW.at, 5, "boot", 77)))
    assert state.mark == Mark(NOW.at, 5, "boot", 77)


@pytest.mark.parametrize("change", [VmsRemoved(("nobody",)), HostsRemoved(("none",)), GroupsRemoved(("set/none",))])
def test_removing_what_is_not_there_is_no_fault(change) -> None:
    """The fold cannot fail."""
    state = state_of()
    before = (dict(state.fleet.vms), dict(state.fleet.hosts), dict(state.fleet.groups))
    apply(state, change)
    assert before == (state.fleet.vms, state.fleet.hosts, state.fleet.groups)


def test_a_scope_can_be_turned_on_and_off_before_anything_else_is_known_of_it() -> None:
    state = State()
    apply(state, ScopeDisabled("vm/x"))
    assert not state.enabled("vm/x")
    apply(state, ScopeEnabled("vm/x"))
    assert state.enabled("vm/x")


class TestMoving:
    """A VM that comes to another scope finds a higher incarnation there than it has seen."""

    def test_to_a_scope_that_never_had_an_event(self) -> None:
        state = state_of(X)
        assert change_times(state, "x", 4) == 4
        refleet(state, X_IN_WEB)
        assert incarnation(state, "x") == 5

    def test_to_a_scope_that_has_seen_less(self) -> None:
        state = state_of(X, Y_IN_WEB)
        change_times(state, "y", 2)
        change_times(state, "x", 4)
        refleet(state, X_IN_WEB, Y_IN_WEB)
        assert incarnation(state, "x") == incarnation(state, "y") == 5

    def test_to_a_scope_that_has_seen_as_much(self) -> None:
        """The same number there had other content."""
        state = state_of(X, Y_IN_WEB)
        change_times(state, "y", 2)
        change_times(state, "x", 2)
        refleet(state, X_IN_WEB, Y_IN_WEB)
        assert incarnation(state, "x") == 3

    def test_to_a_scope_that_has_seen_more_nothing_needs_to_change(self) -> None:
        state = state_of(X, Y_IN_WEB)
        change_times(state, "y", 6)
        change_times(state, "x", 2)
        refleet(state, X_IN_WEB, Y_IN_WEB)
        assert incarnation(state, "y") == 6

    def test_there_and_back_again(self) -> None:
        state = state_of(X, Y_IN_WEB)
        change_times(state, "x", 4)
        refleet(state, X_IN_WEB, Y_IN_WEB)
        assert incarnation(state, "x") == 5
        refleet(state, X, Y_IN_WEB)
        assert incarnation(state, "x") == 6

    def test_a_vm_that_never_saw_an_event_disturbs_nobody(self) -> None:
        state = state_of(X, Y_IN_WEB)
        change_times(state, "y", 2)
        refleet(state, X_IN_WEB, Y_IN_WEB)
        assert incarnation(state, "y") == 2

    def test_moving_to_another_host_is_not_moving_to_another_scope(self) -> None:
        state = listening()
        change_times(state, "alone", 2)
        started(state, operate(state, "alone", EventType.REDEPLOY))
        before = incarnation(state, "alone")
        tick(state, NOW.after(600 * SECOND))
        assert state.fleet.vms["alone"].host == "host-2"
        assert incarnation(state, "alone") == before + 1  # the event is gone, nothing more


class TestLeaving:
    """A VM that leaves and returns finds a higher incarnation than it has seen, or the very same document."""

    def test_a_standalone_vm_that_returns_goes_on_behind_what_it_saw(self) -> None:
        state = state_of(X, Z)
        change_times(state, "x", 4)
        refleet(state, Z)
        refleet(state, X, Z)
        assert incarnation(state, "x") == 5

    def test_nothing_of_it_stays_but_its_departure(self) -> None:
        state = state_of(X, Z)
        do(state, EnableScope("x"))
        change_times(state, "x", 4)
        refleet(state, Z)
        assert "vm/x" not in state.scopes
        assert state.tombstones["x"].incarnation == 4
        refleet(state, X, Z)
        assert not state.tombstones
        assert not state.enabled("vm/x")

    def test_of_one_that_only_listened_nothing_stays_at_all(self) -> None:
        """A fleet that churns for years leaves no trail of empty scopes (S24)."""
        state = state_of(X, Z)
        do(state, EnableScope("x"))
        refleet(state, Z)
        assert (list(state.scopes), state.tombstones) == ([], {})

    def test_with_a_live_event_its_scope_stays_until_the_event_is_gone(self) -> None:
        state = state_of(X, Z)
        event = schedule(state, "x", not_before=NOW.at + timedelta(hours=1))
        refleet(state, Z)
        assert state.document("vm/x").events == (event,)
        do(state, CancelEvent(event.id))
        assert "vm/x" not in state.scopes
        refleet(state, X, Z)
        assert incarnation(state, "x") == 3  # 1 raised, 2 cancelled: neither number comes again (S4)

    def test_back_before_the_event_is_gone_it_meets_the_same_document(self) -> None:
        state = state_of(X, Z)
        schedule(state, "x", not_before=NOW.at + timedelta(hours=1))
        before = state.document("vm/x")
        refleet(state, Z)
        refleet(state, X, Z)
        assert state.document("vm/x") == before

    def test_a_vm_that_returns_to_its_set_finds_it_as_it_went_on(self) -> None:
        state = state_of(X_IN_WEB, Y_IN_WEB)
        change_times(state, "y", 4)
        refleet(state, Y_IN_WEB)
        before = state.document("set/web")
        refleet(state, X_IN_WEB, Y_IN_WEB)
        assert state.document("set/web") == before

    def test_a_vm_that_returns_to_another_scope_finds_it_ahead(self) -> None:
        state = state_of(X, Y_IN_WEB)
        change_times(state, "x", 4)
        refleet(state, Y_IN_WEB)
        refleet(state, X_IN_WEB, Y_IN_WEB)
        assert incarnation(state, "x") == 5

    def test_so_does_one_that_has_left_its_set_and_returns_alone(self) -> None:
        state = state_of(X_IN_WEB, Y_IN_WEB)
        change_times(state, "y", 4)
        refleet(state, Y_IN_WEB)
        refleet(state, X, Y_IN_WEB)
        assert incarnation(state, "x") == 5

    def test_one_that_had_moved_before_leaves_nothing_of_its_old_scope_either(self) -> None:
        state = state_of(X, Z)
        change_times(state, "x", 4)
        refleet(state, X_IN_WEB, Z)
        refleet(state, Z)
        assert "vm/x" not in state.scopes

    def test_the_highest_that_a_vm_has_seen_anywhere_is_what_counts(self) -> None:
        """Its event stayed behind where it was, and what became of it counts as seen."""
        state = state_of(X, Y_IN_WEB)
        do(state, EnableScope("x"))
        change_times(state, "x", 9)
        refleet(state, Y_IN_WEB)
        do(state, CancelEvent(id_of(109)))
        assert state.tombstones["x"].incarnation == 10
        refleet(state, X_IN_WEB, Y_IN_WEB)
        assert incarnation(state, "x") == 11

    def test_a_deleted_vm_is_remembered_like_one_that_left_the_file(self) -> None:
        state = state_of(X, Z)
        change_times(state, "x", 2)
        do(state, OperateVm(id_of(1), "x", EventType.TERMINATE))
        refleet(state, X, Z)
        assert incarnation(state, "x") == 3


class TestForgetting:
    """Departures are bounded; those dropped merge into one high-water mark (S24)."""

    @pytest.fixture(autouse=True)
    def keep_two(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(apply_module, "TOMBSTONES_KEPT", 2)

    def leave_in_turn(self, state: State, *seen: int) -> None:
        """VMs v0, v1, … leave, having seen so many changes."""
        vms = [Vm(f"v{n}", f"10.0.1.{n}") for n in range(len(seen))]
        refleet(state, Z, *vms)
        for vm, times in zip(vms, seen, strict=True):
            change_times(state, vm.name, times)
        for n in range(len(vms)):
            refleet(state, Z, *vms[n + 1 :])

    def test_only_so_many_are_kept_the_newest(self) -> None:
        state = state_of(Z)
        self.leave_in_turn(state, 6, 2, 2)
        assert list(state.tombstones) == ["v1", "v2"]
        assert state.tombstone_high_water == 6

    def test_the_mark_is_the_highest_of_all_forgotten(self) -> None:
        state = state_of(Z)
        self.leave_in_turn(state, 4, 8, 2, 2, 2)
        assert state.tombstone_high_water == 8

    def test_a_forgotten_vm_that_returns_goes_on_behind_the_mark(self) -> None:
        state = state_of(Z)
        self.leave_in_turn(state, 4, 8, 2, 2)
        refleet(state, Z, Vm("v0", "10.0.1.0"))
        assert incarnation(state, "v0") == 9

    def test_so_does_one_never_seen_before_as_nobody_can_tell_them_apart(self) -> None:
        state = state_of(Z)
        self.leave_in_turn(state, 4, 2, 2)
        refleet(state, Z, X)
        assert incarnation(state, "x") == 5

    def test_one_that_is_remembered_goes_on_behind_its_own(self) -> None:
        state = state_of(Z)
        self.leave_in_turn(state, 8, 2, 2)
        refleet(state, Z, Vm("v2", "10.0.1.2"))
        assert incarnation(state, "v2") == 3


def test_the_demo_fleet_has_every_kind_of_vm() -> None:
    """So that tests on it mean something: alone, in a set, in a service, in placement groups, spot or not."""
    assert {scope_of(vm).split("/")[0] for vm in VMS} == {"vm", "set", "service", "scale-set"}
    assert {vm.spot for vm in VMS} == {True, False}


class TestGroupsThatLeave:
    """The scope of a group goes with the group (S24), and its numbers go on when it is back (S3, S4)."""

    def _leave(self, state: State, *vms: Vm) -> None:
        do(state, ApplyFleet(Declaration(f"{state.position}", vms=vms)))

    def test_nothing_of_it_stays_in_memory_but_the_number(self) -> None:
        state = listening("web-0")
        change_times(state, "web-0", 2)
        self._leave(state, Z)
        assert WEB.key not in state.scopes
        assert state.tombstones[WEB.key].incarnation == 2
        assert not state.enabled(WEB.key)

    def test_also_of_each_of_its_placement_groups(self) -> None:
        state = listening()
        self._leave(state, Z)
        assert [key for key in state.scopes if key.startswith("scale-set/")] == []

    def test_back_under_its_name_it_goes_on_where_it_was_also_for_vms_that_are_new(self) -> None:
        state = listening()
        before = change_times(state, "web-0", 4)
        self._leave(state, Z)
        refleet(state, Y_IN_WEB, Z)
        assert incarnation(state, "y") == before
        assert change_times(state, "y", 1) == before + 1
        assert WEB.key not in state.tombstones

    def test_events_that_are_still_there_keep_it_until_they_end(self) -> None:
        state = listening()
        running = started(state, schedule(state, "web-0"))
        self._leave(state, Z)
        assert state.document(WEB.key).events == (running,)
        tick(state, NOW.after(600 * SECOND))
        assert WEB.key not in state.scopes

    def test_a_scope_that_vms_stand_in_stays_whatever_the_groups_say(self) -> None:
        state = listening()
        before = change_times(state, "web-0", 2)
        apply(state, GroupsRemoved((WEB.key,)))
        assert incarnation(state, "web-0") == before

    def test_a_lift_reaches_those_that_are_away(self) -> None:
        state = listening()
        before = change_times(state, "web-0", 2)
        self._leave(state, Z)
        do(state, LiftIncarnations(1000))
        refleet(state, Y_IN_WEB, Z)
        assert incarnation(state, "y") == before + 1000


class TestWhatDoesNotApply:
    """A change that does not fit the state is a fault of ours: it is told, and nothing is changed by it."""

    def changes(self, state: State) -> dict[str, Transition]:
        """Each kind of change that needs something to be there, about something that is not."""
        event = schedule(state, "alone")
        stranger = event.with_(id=id_of(99))
        elsewhere = event.with_(scope="vm/zonal")
        return {
            "raised twice": t.EventRaised(event),
            "moved, unknown": t.EventMoved(stranger, event.scope),
            "moved from elsewhere": t.EventMoved(event, "vm/zonal"),
            "approved, unknown": t.EventApproved(id_of(99), event.scope, "x"),
            "approved elsewhere": t.EventApproved(event.id, "vm/zonal", "x"),
            "narrowed, unknown": t.EventNarrowed(stranger),
            "narrowed elsewhere": t.EventNarrowed(elsewhere),
            "postponed, unknown": t.EventPostponed(stranger),
            "started, unknown": t.EventStarted(stranger),
            "started elsewhere": t.EventStarted(elsewhere),
            "completed, unknown": t.EventCompleted(id_of(99), event.scope),
            "completed elsewhere": t.EventCompleted(event.id, "vm/zonal"),
            "cancelled, unknown": t.EventCancelled(id_of(99), event.scope),
            "failed, unknown": t.EventFailed(id_of(99), event.scope, "why"),
            "attempt of an unknown": t.ImpactFailed(id_of(99), event.scope, 1, "why"),
            "claimed, unknown": t.ImpactClaimed(id_of(99), event.scope, 1, "a"),
            "accepted, unknown": t.ImpactAccepted(id_of(99), event.scope),
            "plan begun twice": t.MaintenanceStarted(maintain(state, "zonal", number=21)),
            "unknown plan changed": t.MaintenanceChanged(id_of(99), Status.PAUSED),
            "step of an unknown plan begun": t.StepBegun(id_of(99), 0, id_of(98)),
            "step of an unknown plan ended": t.StepEnded(id_of(99), 0, StepStatus.DONE, 0),
            "step begun twice": t.StepBegun(id_of(21), 0, id_of(98)),
            "step that is not there ended": t.StepEnded(id_of(21), 9, StepStatus.DONE, 0),
        }

    def test_each_kind_is_told_and_changes_nothing(self) -> None:
        state = listening()
        for name, change in self.changes(state).items():
            before = take(state), kept(state)
            with pytest.raises(InvariantBroken) as fault:
                apply(state, change)
            assert fault.value.hint, name
            assert (take(state), kept(state)) == before, name

    def test_an_event_that_moved_cannot_move_from_there_again(self) -> None:
        """What a fleet file once stopped the service with."""
        state = listening()
        event = schedule(state, "alone")
        moved = t.EventMoved(event.with_(scope="vm/zonal"), event.scope)
        apply(state, moved)
        with pytest.raises(InvariantBroken, match="no event"):
            apply(state, moved)
