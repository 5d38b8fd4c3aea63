"""What records touch, and states that go their own way."""

from hypothesis import given

from duenotice.clock import Mark
from duenotice.domain import commands as c
from duenotice.domain.apply import Touched, apply, touched
from duenotice.domain.event import EventType
from duenotice.domain.fleet import Declaration, Fleet, Vm
from duenotice.domain.policy import Policy
from duenotice.domain.records import Record
from duenotice.domain.rules.decide import decide
from duenotice.domain.rules.timing import to_be_seen_by
from duenotice.domain.snapshot import take
from duenotice.domain.state import State
from tests.unit.domain.build import (
    MINUTE,
    NOW,
    POLICY,
    VMS,
    approve,
    declaration,
    do,
    id_of,
    listening,
    schedule,
    state_of,
)
from tests.unit.domain.stories import POLICIES, STEPS, Step, run


def touches(state: State, command: c.Command) -> Touched:
    """What a command touches; the state has it then."""
    before = state.copy()
    records = [Record(1, NOW.at, "test", change) for change in decide(state, command, NOW, POLICY)]
    for record in records:
        apply(state, record.transition)
    return touched(before, state, records)


def test_an_event_touches_its_scope_and_no_vm() -> None:
    assert touches(listening(), c.ScheduleEvent(id_of(1), EventType.REBOOT, ("web-0",))) == Touched(
        {"set/web"}, set(), set()
    )


def test_its_end_and_its_first_listener_touch_the_scope_as_well() -> None:
    state = state_of()
    assert touches(state, c.EnableScope("web-0")).scopes == {"set/web"}
    schedule(state, "web-0", number=1)
    assert touches(state, c.CancelEvent(id_of(1))).scopes == {"set/web"}


def test_an_event_that_moves_touches_where_it_was_and_where_it_is() -> None:
    state = listening()
    schedule(state, "alone", number=1)
    joined = Vm("alone", "10.0.0.1", "set/web", update_domain=0)
    assert touches(state, c.ApplyFleet(declaration(joined, digest="joined"))).scopes >= {"vm/alone", "set/web"}


def test_who_comes_goes_and_moves_is_touched_with_all_addresses_and_scopes() -> None:
    state = state_of(Vm("a", "10.0.0.1"), Vm("b", "10.0.0.2"))
    declared = declaration(Vm("a", "10.0.0.9"), Vm("c", "10.0.0.3"), digest="2")
    assert touches(state, c.ApplyFleet(declared)) == Touched(
        {"vm/a", "vm/b", "vm/c"}, {"a", "b", "c"}, {"10.0.0.1", "10.0.0.9", "10.0.0.2", "10.0.0.3"}
    )


def test_who_comes_and_goes_before_anybody_looks_has_touched_its_scope() -> None:
    """Its coming may have lifted the incarnation that the others there read (S3, S4)."""
    state = listening()
    before, records = state.copy(), list[Record]()
    guest = Vm("guest", "10.0.0.77", "set/web", update_domain=0)
    for declared in (declaration(*VMS, guest, digest="came"), declaration(*VMS, digest="went")):
        for change in decide(state, c.ApplyFleet(declared), NOW, POLICY):
            records.append(Record(1, NOW.at, "test", change))
            apply(state, change)
    assert "set/web" in touched(before, state, records).scopes


def test_a_group_that_goes_touches_its_scopes_although_nobody_is_left_there() -> None:
    state = listening()
    do(state, c.ApplyFleet(declaration(VMS[0], digest="nobody")))
    assert "set/web" in touches(state, c.ApplyFleet(Declaration("gone", vms=(VMS[0],)))).scopes


def test_who_stood_alone_before_it_joined_a_group_touches_that_scope_too() -> None:
    state = listening()
    joined = Vm("alone", "10.0.0.1", "set/web", update_domain=0)
    do(state, c.ApplyFleet(declaration(joined, digest="joined")))
    assert "vm/alone" in touches(state, c.ApplyFleet(declaration(VMS[1], digest="left"))).scopes


def test_incarnations_that_go_ahead_touch_everything_and_a_mark_nothing() -> None:
    assert touches(listening(), c.LiftIncarnations(1000)).everything
    assert touches(listening(), c.MarkClock(Mark(*NOW))) == Touched(set(), set(), set())


def test_an_address_that_passes_on_in_the_same_breath_is_the_new_owners() -> None:
    fleet = Fleet()
    for vm in (Vm("a", "10.0.0.1"), Vm("b", "10.0.0.2"), Vm("a", "10.0.0.2"), Vm("b", "10.0.0.1")):
        fleet.put(vm)
    assert {address: vm.name for address, vm in fleet.by_address.items()} == {"10.0.0.2": "a", "10.0.0.1": "b"}
    assert (fleet.remove("a"), fleet.remove("nobody")) == (Vm("a", "10.0.0.2"), None)
    assert list(fleet.by_address) == ["10.0.0.1"]


@given(STEPS, STEPS, POLICIES)
def test_a_copy_goes_its_own_way_and_leaves_the_other_as_it_was(
    before: list[Step], after: list[Step], policy: Policy
) -> None:
    state = state_of()
    now = run(state, before, policy)
    copy, then = state.copy(), take(state)
    assert take(copy) == then
    run(copy, after, policy, now)
    assert take(state) == then
    assert state.incarnation("nobody/there") == state.least_incarnation


def test_events_are_to_be_seen_before_their_notice_would_be_cut_short() -> None:
    """S2: an approved event waits for no notice any more."""
    state = listening()
    first = schedule(state, "alone", number=1)
    schedule(state, "zonal", number=2, now=NOW.after(MINUTE))
    assert to_be_seen_by(state, (id_of(1), id_of(2))) == NOW
    approve(state, first)
    assert to_be_seen_by(state, (id_of(1), id_of(2), id_of(9))) == NOW.after(MINUTE)
    assert to_be_seen_by(state, (id_of(1),)) is None
