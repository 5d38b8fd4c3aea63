"""From the fleet as it stands to the fleet as declared; events and incarnations are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from duenotice.domain import bulk
from duenotice.domain.apply import apply
from duenotice.domain.commands import ApplyFleet, OperateVm, ScheduleEvent
from duenotice.domain.event import EventType, Phase
from duenotice.domain.fleet import Condition, Declaration, Group, GroupKind, Host, Site, Vm
from duenotice.domain.plan import StepStatus
from duenotice.domain.policy import Policy
from duenotice.domain.records import (
    EventCompleted,
    EventMoved,
    EventNarrowed,
    FleetDeclared,
    GroupsPut,
    GroupsRemoved,
    HostsPut,
    HostsRemoved,
    VmsPut,
    VmsRemoved,
)
from duenotice.domain.rules.decide import decide
from duenotice.domain.state import State
from duenotice.errors import Refused
from tests.unit.domain.build import (
    HOSTS,
    NOW,
    POLICY,
    SECOND,
    VMS,
    WEB,
    approve,
    declaration,
    degrade,
    do,
    fail,
    id_of,
    listening,
    maintain,
    schedule,
    started,
    state_of,
    tick,
)

WITHOUT_ALONE = tuple(vm for vm in VMS if vm.name != "alone")


def test_a_first_fleet_is_put_in_whole() -> None:
    state = state_of()
    assert set(state.fleet.vms) == {vm.name for vm in VMS}
    assert set(state.fleet.hosts) == {"host-1", "host-2", "host-3"}
    assert set(state.fleet.groups) == {"set/web", "service/shop", "scale-set/batch", "scale-set/plain"}
    assert state.fleet.digest == "declared"


def test_a_vm_runs_at_first_where_it_was_declared() -> None:
    vm = state_of().fleet.vms["alone"]
    assert (vm.host, vm.declared_host) == ("host-1", "host-1")


def test_the_same_fleet_again_is_no_change() -> None:
    assert do(state_of(), ApplyFleet(declaration())) == []


def test_another_file_with_the_same_content_is_only_noted() -> None:
    assert do(state_of(), ApplyFleet(declaration(digest="comments moved"))) == [FleetDeclared("comments moved", Site())]


def test_another_site_is_only_noted() -> None:
    declared = structs.replace(declaration(), site=Site("westeurope"))
    assert do(state_of(), ApplyFleet(declared)) == [FleetDeclared("declared", Site("westeurope"))]


def test_only_what_differs_is_changed() -> None:
    vms = (*WITHOUT_ALONE, Vm("new", "10.0.0.9"))
    assert do(state_of(), ApplyFleet(declaration(*vms, digest="2"))) == [
        VmsRemoved(("alone",), by_file=True),
        VmsPut((Vm("new", "10.0.0.9"),)),
        FleetDeclared("2", Site()),
    ]


def test_hosts_and_groups_come_before_the_vms_in_them_and_go_after() -> None:
    state = state_of()
    group = Group(GroupKind.AVAILABILITY_SET, "new")
    vm = Vm("new-0", "10.0.0.9", group.key, host="host-9")
    declared = Declaration("2", hosts=(Host("host-9"),), groups=(group,), vms=(vm,))
    done = do(state, ApplyFleet(declared))
    kinds = [HostsPut, GroupsPut, VmsRemoved, VmsPut, GroupsRemoved, HostsRemoved, FleetDeclared]
    assert [type(change) for change in done] == kinds
    assert list(state.fleet.hosts) == ["host-9"]
    assert list(state.fleet.groups) == ["set/new"]
    assert list(state.fleet.vms) == ["new-0"]


def test_a_changed_group_is_put_again() -> None:
    state = state_of()
    plain = Group(GroupKind.SCALE_SET, "plain", terminate_notice=600)
    groups = (*declaration().groups[:-1], plain)
    assert do(state, ApplyFleet(structs.replace(declaration(), groups=groups)))[0] == GroupsPut((plain,))
    assert state.fleet.groups["scale-set/plain"].terminate_notice == 600


def test_a_known_host_keeps_its_condition() -> None:
    state = listening()
    degrade(state, "host-3")
    do(state, ApplyFleet(declaration(digest="2")))
    assert state.fleet.hosts["host-3"].condition is Condition.DEGRADED


class TestWhereVmsRun:
    """A VM that was moved stays where it is, unless the file now says otherwise."""

    def moved(self) -> State:
        state = state_of()
        do(state, OperateVm(id_of(1), "alone", EventType.REDEPLOY))
        assert state.fleet.vms["alone"].host == "host-2"
        return state

    def test_a_moved_vm_stays_when_the_file_says_the_same_as_before(self) -> None:
        state = self.moved()
        do(state, ApplyFleet(declaration(digest="2")))
        assert state.fleet.vms["alone"].host == "host-2"

    def test_a_moved_vm_goes_where_the_file_newly_puts_it(self) -> None:
        state = self.moved()
        do(state, ApplyFleet(declaration(Vm("alone", "10.0.0.1", host="host-3"), *WITHOUT_ALONE, digest="2")))
        assert state.fleet.vms["alone"].host == "host-3"

    def test_a_moved_vm_goes_back_when_its_host_has_left_the_fleet(self) -> None:
        state = self.moved()
        vms = (Vm("alone", "10.0.0.1", host="host-1"),)
        do(state, ApplyFleet(declaration(*vms, digest="2", hosts=(HOSTS[0],))))
        assert state.fleet.vms["alone"].host == "host-1"

    def test_a_vm_that_went_elsewhere_is_not_put_back_on_the_host_that_failed(self) -> None:
        only = (Vm("alone", "10.0.0.1", host="host-1"),)
        state = State()
        do(state, ApplyFleet(declaration(*only, hosts=(HOSTS[0],))))
        fail(state, "host-1")
        tick(state, NOW.after(600 * SECOND))
        assert state.fleet.vms["alone"].host is None
        do(state, ApplyFleet(declaration(*only, digest="2", hosts=(HOSTS[0],))))
        assert state.fleet.vms["alone"].host is None


def test_events_of_vms_that_leave_and_stay_are_kept() -> None:
    state = listening()
    leaving, staying = schedule(state, "alone", number=1), started(state, schedule(state, "web-0", number=2))
    before = state.document("set/web")
    do(state, ApplyFleet(declaration(*WITHOUT_ALONE, digest="2")))
    assert list(state.events.values()) == [leaving, staying]
    assert state.document("set/web") == before


class TestEventsFollow:
    """A VM that comes to another scope takes its events along: who is going to be hit must go on being told."""

    ALONE_IN_WEB = Vm("alone", "10.0.0.1", WEB.key, update_domain=1)

    def test_to_its_new_scope_and_update_domain(self) -> None:
        state = listening()
        event = schedule(state, "alone")
        do(state, ApplyFleet(declaration(self.ALONE_IN_WEB, *WITHOUT_ALONE, digest="2")))
        (moved,) = state.document("set/web").events
        assert moved == event.with_(scope="set/web", update_domain=1)
        assert state.document("vm/alone").events == ()

    def test_and_its_new_neighbours_may_approve_it(self) -> None:
        state = listening()
        event = schedule(state, "alone")
        do(state, ApplyFleet(declaration(self.ALONE_IN_WEB, *WITHOUT_ALONE, digest="2")))
        assert approve(state, event, vm="web-0")
        tick(state)
        assert state.events[event.id].phase is Phase.STARTED

    def test_a_started_event_goes_along_too_and_ends_there(self) -> None:
        state = listening()
        event = started(state, schedule(state, "alone"))
        do(state, ApplyFleet(declaration(self.ALONE_IN_WEB, *WITHOUT_ALONE, digest="2")))
        assert tick(state, NOW.after(600 * SECOND)) == [EventCompleted(event.id, "set/web")]

    def test_all_vms_of_an_event_together(self) -> None:
        state = listening()
        schedule(state, "web-0", "web-2")
        apart = [structs.replace(vm, update_domain=1) if vm.name in ("web-0", "web-2") else vm for vm in VMS]
        do(state, ApplyFleet(declaration(*apart, digest="2")))
        assert [event.update_domain for event in state.document("set/web").events] == [1]

    def test_one_that_would_be_torn_apart_is_cancelled(self) -> None:
        """Resources of an event lie in one update domain (S10)."""
        state = listening()
        schedule(state, "web-0", "web-2")
        torn = [structs.replace(vm, update_domain=1) if vm.name == "web-0" else vm for vm in VMS]
        do(state, ApplyFleet(declaration(*torn, digest="2")))
        assert not state.events

    def test_to_whoever_is_left_of_its_vms(self) -> None:
        """web-0 is away, and web-2 comes to another update domain meanwhile."""
        state = listening()
        event = started(state, schedule(state, "web-0", "web-2"))
        left = [vm for vm in VMS if vm.name != "web-0"]
        moved = [structs.replace(vm, update_domain=1) if vm.name == "web-2" else vm for vm in left]
        do(state, ApplyFleet(declaration(*moved, digest="2")))
        assert state.events[event.id] == event.with_(update_domain=1)

    def test_with_a_driver_and_one_vm_after_the_other_it_has_one_fate(self) -> None:
        """First one leaves, then the other in one breath with the first coming back elsewhere: it moves, no more."""
        state, driven = listening(), Policy(simulated_impact=False)
        event = schedule(state, "web-0", "web-2")
        approve(state, event)
        tick(state, NOW, driven)
        rest = [vm for vm in VMS if vm.name not in ("web-0", "web-2")]
        do(state, ApplyFleet(declaration(*rest, VMS[4], digest="2")))
        done = do(state, ApplyFleet(declaration(*rest, Vm("web-2", "10.0.1.2"), digest="3")))
        assert [type(change) for change in done if "Event" in type(change).__name__] == [EventMoved]
        assert [each.id for each in state.document("vm/web-2").events] == [event.id]

    def test_a_vm_that_was_away_finds_its_event_where_it_returns_to(self) -> None:
        state = listening()
        schedule(state, "alone")
        do(state, ApplyFleet(declaration(*WITHOUT_ALONE, digest="2")))
        do(state, ApplyFleet(declaration(self.ALONE_IN_WEB, *WITHOUT_ALONE, digest="3")))
        assert [event.resources for event in state.document("set/web").events] == [("alone",)]

    def test_a_change_that_is_no_move_leaves_events_alone(self) -> None:
        state = listening()
        event = schedule(state, "alone")
        bigger = Vm("alone", "10.0.0.1", host="host-1", size="Big")
        do(state, ApplyFleet(declaration(bigger, *WITHOUT_ALONE, digest="2")))
        assert state.document("vm/alone").events == (event,)
        assert state.document("vm/alone").incarnation == 1


class TestComingApart:
    """VMs that are hit and come apart do not stay in one event (S10): those that have left it have left for good."""

    SET = (*(Vm(f"x{n}", f"10.0.7.{n}", WEB.key, update_domain=0) for n in range(4)), Vm("y", "10.0.7.9"))

    def fleet(self, **domains: int | None) -> ApplyFleet:
        """These VMs are in other update domains of the set; None: stand alone; the others are where they were."""
        vms = [self.place(vm, domains[vm.name]) if vm.name in domains else vm for vm in self.SET]
        return ApplyFleet(declaration(*vms, digest=repr(domains)))

    def place(self, vm: Vm, domain: int | None) -> Vm:
        return Vm(vm.name, vm.address) if domain is None else structs.replace(vm, update_domain=domain)

    def hit(self, *names: str) -> State:
        state = state_of(*self.SET)
        started(state, schedule(state, *names))
        return state

    def test_who_is_where_it_was_stays_in_it_however_few(self) -> None:
        state = self.hit("x0", "x1", "x2")
        before = state.events[id_of(1)]
        done = do(state, self.fleet(x0=1, x2=None))
        assert EventNarrowed(before.with_(resources=("x1",))) in done
        assert state.document(WEB.key).events == (before.with_(resources=("x1",)),)
        assert state.document("vm/x2").events == ()

    def test_where_nobody_is_it_goes_with_most_of_them(self) -> None:
        state = self.hit("x0", "x1", "x2")
        before = state.events[id_of(1)]
        do(state, self.fleet(x0=None, x1=1, x2=1))
        assert state.events[id_of(1)] == before.with_(resources=("x1", "x2"), update_domain=1)
        assert state.document("vm/x0").events == ()

    def test_of_as_many_with_the_first_of_them(self) -> None:
        state = self.hit("x0", "x1")
        do(state, self.fleet(x0=None, x1=1))
        assert [event.resources for event in state.document("vm/x0").events] == [("x0",)]
        assert state.document(WEB.key).events == ()

    def test_who_comes_back_is_not_hit_again(self) -> None:
        state = self.hit("x0", "x1")
        do(state, self.fleet(x0=None))
        do(state, self.fleet())
        assert [event.resources for event in state.document(WEB.key).events] == [("x1",)]
        tick(state, NOW.after(600 * SECOND))
        assert not state.events

    def test_who_is_away_is_still_in_it(self) -> None:
        state = self.hit("x0", "x1", "x2")
        away = [vm for vm in self.SET if vm.name != "x2"]
        do(state, ApplyFleet(declaration(*away, digest="away")))
        moved = [self.place(vm, 1) if vm.name == "x0" else vm for vm in away]
        do(state, ApplyFleet(declaration(*moved, digest="apart")))
        assert state.events[id_of(1)].resources == ("x1", "x2")

    def test_the_document_has_changed_and_says_so(self) -> None:
        state = self.hit("x0", "x1")
        before = state.document(WEB.key).incarnation
        do(state, self.fleet(x0=1))
        assert state.document(WEB.key).incarnation == before + 1

    def test_whoever_left_is_not_deleted_with_the_rest(self) -> None:
        state = state_of(*self.SET)
        started(state, schedule(state, "x0", "x1", type=EventType.TERMINATE))
        do(state, self.fleet(x0=1))
        tick(state, NOW.after(30 * SECOND))
        assert [name for name in ("x0", "x1") if name in state.fleet.vms] == ["x0"]

    def test_the_step_of_a_plan_tells_who_has_left(self) -> None:
        state = state_of(*self.SET)
        maintain(state, "x0", "x1")
        do(state, self.fleet(x0=1))
        tick(state, NOW.after(600 * SECOND))
        (step,) = state.maintenances[id_of(1)].steps
        assert (step.status, step.reason) == (StepStatus.DONE, "No longer in its update domain: x0.")


def test_an_address_may_pass_from_a_vm_that_goes_to_one_that_comes() -> None:
    """Removals come first, so that at no moment two VMs have one address."""
    state = state_of()
    done = do(state, ApplyFleet(declaration(Vm("heir", "10.0.0.1"), *WITHOUT_ALONE, digest="2")))
    kinds = [type(change) for change in done]
    assert kinds.index(VmsRemoved) < kinds.index(VmsPut)
    assert [vm.name for vm in state.fleet.vms.values() if vm.address == "10.0.0.1"] == ["heir"]


def test_two_vms_may_swap_their_addresses() -> None:
    state = state_of(Vm("a", "10.0.0.1"), Vm("b", "10.0.0.2"))
    do(state, ApplyFleet(declaration(Vm("a", "10.0.0.2"), Vm("b", "10.0.0.1"), digest="2")))
    assert [vm.address for vm in state.fleet.vms.values()] == ["10.0.0.2", "10.0.0.1"]


def test_a_large_fleet_comes_and_goes_in_rows_of_a_readable_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "CHUNK", 3)
    vms = tuple(Vm(f"vm-{n}", f"10.0.0.{n}") for n in range(7))
    state = State()
    done = decide(state, ApplyFleet(declaration(*vms)), NOW, POLICY)
    assert [len(change.vms) for change in done if isinstance(change, VmsPut)] == [3, 3, 1]
    for change in done:
        apply(state, change)
    done = decide(state, ApplyFleet(declaration(Vm("one", "10.0.1.1"), digest="2")), NOW, POLICY)
    assert [len(change.names) for change in done if isinstance(change, VmsRemoved)] == [3, 3, 1]


NAMES = st.sampled_from(["a", "b", "c", "d"])
FLEETS = st.dictionaries(NAMES, st.sampled_from(["host-1", "host-2", None]), min_size=1)


@given(st.lists(FLEETS, max_size=4))
def test_after_any_sequence_of_fleets_the_fleet_is_the_last_one(fleets: list[dict[str, str | None]]) -> None:
    state = State()
    for number, hosts in enumerate(fleets):
        vms = [Vm(name, f"10.0.0.{n}", host=host) for n, (name, host) in enumerate(hosts.items())]
        do(state, ApplyFleet(declaration(*vms, digest=str(number))))
        assert {vm.name: vm.host for vm in state.fleet.vms.values()} == hosts
        assert do(state, ApplyFleet(declaration(*vms, digest=str(number)))) == []


def test_an_empty_declaration_does_not_take_every_vm_away() -> None:
    """More likely a file that was cut short than a wish; one that was empty before may stay so."""
    state = state_of()
    vms = dict(state.fleet.vms)
    with pytest.raises(Refused, match="would remove all") as refusal:
        do(state, ApplyFleet(Declaration("empty")))
    assert (state.fleet.vms, bool(refusal.value.hint)) == (vms, True)
    do(State(), ApplyFleet(Declaration("empty")))


def test_who_knows_that_nobody_is_left_may_say_so() -> None:
    """A hypervisor has counted its domains: the last one is gone."""
    state = state_of()
    do(state, ApplyFleet(Declaration("empty"), may_be_empty=True))
    assert state.fleet.vms == {}


@pytest.mark.parametrize(("spot", "left"), [(True, 1), (False, 0)])
def test_advice_ends_when_its_vm_is_no_longer_a_spot_vm(spot: bool, left: int) -> None:
    """Such a VM is not evicted."""
    state, policy = listening(), Policy(spot_rebalance=True)
    do(state, ScheduleEvent(id_of(1), EventType.SPOT_REBALANCE_RECOMMENDATION, ("spot",)), policy=policy)
    changed = (structs.replace(vm, spot=spot, size="larger") if vm.name == "spot" else vm for vm in VMS)
    do(state, ApplyFleet(declaration(*changed, digest="new")))
    assert len(state.events) == left
