"""What readers may see: pages, addresses, watchers, silence (F02, S16, S24)."""

from collections.abc import Callable, Iterable
from functools import partial

from duenotice.clock import Instant
from duenotice.domain.apply import fold, touched
from duenotice.domain.commands import (
    ApplyFleet,
    ApproveEvents,
    CancelEvent,
    Command,
    DisableScopes,
    EnableScope,
    LiftIncarnations,
    OperateVm,
    Tick,
)
from duenotice.domain.event import EventType, Phase
from duenotice.domain.fleet import Declaration, Site, Vm, scope_of
from duenotice.domain.policy import Policy
from duenotice.domain.records import Record
from duenotice.domain.rules.decide import decide
from duenotice.domain.state import EMPTY, State
from duenotice.engine.publisher import Publisher, ScopePage
from tests.unit.domain.build import DAY, NOW, POLICY, SECOND, VMS, WEB, approve, declaration, id_of, schedule, state_of
from tests.unit.engine.rig import reboot


class World:
    """A state and its publisher, side by side; `turns` are what it wants to do in later turns of the loop."""

    def __init__(self, *vms: Vm) -> None:
        self.state = state_of(*vms)
        self.turns: list[Callable[[], None]] = []
        self.publisher = Publisher(self.turns.append)
        self.publisher.open(self.state.copy(), NOW.steady)

    def do(self, command: Command, now: int = NOW.steady) -> None:
        """Decide, fold and publish, as after a commit."""
        self.publish(self.decide(command), now)

    def decide(self, command: Command, now: Instant = NOW, policy: Policy = POLICY) -> list[Record]:
        records: list[Record] = []
        for transition in decide(self.state, command, now, policy):
            records.append(Record(self.state.position + 1, now.at, "test", transition))
            fold(self.state, records[-1])
        return records

    def publish(self, records: list[Record], now: int = NOW.steady) -> None:
        state = self.state.copy()
        self.publisher.publish(state, touched(self.publisher.state, state, records), now)

    def page(self, vm: str) -> ScopePage:
        return self.publisher.open_page_of(self.vms[vm])

    @property
    def vms(self) -> dict[str, Vm]:
        return self.publisher.state.fleet.vms

    def watch(self, vm: str, callback: Callable[[], None], key: object = "me") -> None:
        self.publisher.watch(scope_of(self.vms[vm]), key, callback)

    def silent(self, now: int) -> list[str]:
        return self.publisher.silent_among(self.publisher.state.scopes, now, DAY)

    def refleet(self, *vms: Vm) -> None:
        self.do(ApplyFleet(declaration(*vms, digest=str(self.state.position))))

    def addresses(self) -> dict[str, str]:
        return {address: vm.name for address, vm in self.publisher.state.fleet.by_address.items()}


class TestPages:
    """One page for each scope."""

    def test_all_vms_of_a_scope_read_the_same_page(self) -> None:
        world = World()
        assert world.page("web-0") is world.page("web-3")
        assert world.page("web-0") is not world.page("alone")

    def test_before_any_event_a_page_shows_the_empty_document_rendered_once_for_all(self) -> None:
        """100,000 quiet VMs need their answer rendered once."""
        world = World()
        assert world.page("alone").document is EMPTY
        assert world.page("alone").rendered is world.page("zonal").rendered

    def test_nothing_is_shown_before_it_is_published(self) -> None:
        world = World()
        records = world.decide(reboot("alone"))
        assert world.page("alone").document is EMPTY
        assert world.publisher.state.events == {}
        world.publish(records)
        assert [event.id for event in world.page("alone").document.events] == [id_of(1)]
        assert list(world.publisher.state.events) == [id_of(1)]

    def test_a_change_drops_what_was_rendered_and_only_in_its_scope(self) -> None:
        world = World()
        world.do(reboot("alone", 1))
        world.do(reboot("zonal", 2))
        world.page("alone").rendered[0] = world.page("zonal").rendered[0] = b"bytes"
        world.do(CancelEvent(id_of(1)))
        assert world.page("alone").rendered[0] is None
        assert world.page("zonal").rendered[0] == b"bytes"

    def test_an_approval_alone_changes_no_page(self) -> None:
        world = World()
        world.do(EnableScope("alone"))
        world.do(reboot("alone"))
        before = world.page("alone").document
        approve(world.state, world.state.events[id_of(1)])
        world.publish([])
        assert world.page("alone").document is before

    def test_a_page_first_asked_for_after_a_change_shows_it(self) -> None:
        world = World()
        world.do(reboot("alone"))
        assert world.page("alone").document.incarnation == 1

    def test_a_publisher_begins_with_what_is_durable(self) -> None:
        state = state_of()
        schedule(state, "alone")
        publisher = Publisher(lambda turn: None)
        publisher.open(state, NOW.steady)
        assert publisher.open_page_of(state.fleet.vms["alone"]).document == state.document("vm/alone")

    def test_a_page_knows_whether_its_scope_listens(self) -> None:
        world = World()
        seen = [world.page("web-0").enabled]
        for command in (EnableScope("web-1"), DisableScopes(("set/web",))):
            world.do(command)
            seen.append(world.page("web-0").enabled)
        assert seen == [False, True, False]


class TestFleet:
    """Who is behind an address."""

    def test_vms_are_found_by_name_and_address(self) -> None:
        fleet = World().publisher.state.fleet
        assert fleet.by_address["10.0.0.1"] is fleet.vms["alone"]
        assert len(fleet.by_address) == len(fleet.vms) == len(VMS)

    def test_swapped_addresses_are_swapped(self) -> None:
        world = World(Vm("a", "10.0.0.1"), Vm("b", "10.0.0.2"))
        world.refleet(Vm("a", "10.0.0.2"), Vm("b", "10.0.0.1"))
        assert world.addresses() == {"10.0.0.2": "a", "10.0.0.1": "b"}

    def test_addresses_may_pass_on_in_a_ring(self) -> None:
        names, numbers = "abc", (1, 2, 3)
        world = World(*(Vm(name, f"10.0.0.{n}") for name, n in zip(names, numbers, strict=True)))
        world.refleet(*(Vm(name, f"10.0.0.{n % 3 + 1}") for name, n in zip(names, numbers, strict=True)))
        assert world.addresses() == {"10.0.0.2": "a", "10.0.0.3": "b", "10.0.0.1": "c"}

    def test_an_address_passes_from_a_vm_that_goes_to_one_that_comes(self) -> None:
        world = World(Vm("old", "10.0.0.1"))
        world.refleet(Vm("new", "10.0.0.1"))
        assert world.addresses() == {"10.0.0.1": "new"}
        assert list(world.vms) == ["new"]

    def test_an_address_that_was_given_up_is_nobodys(self) -> None:
        world = World(Vm("a", "10.0.0.1"))
        world.refleet(Vm("a", "10.0.0.9"))
        assert world.addresses() == {"10.0.0.9": "a"}

    def test_who_watches_the_fleet_is_told_each_address_that_changed_hands(self) -> None:
        world = World(Vm("a", "10.0.0.1"), Vm("b", "10.0.0.2"), Vm("c", "10.0.0.3"))
        told: list[Iterable[str]] = []
        world.publisher.watch_fleet(told.append)
        world.refleet(Vm("a", "10.0.0.9"), Vm("c", "10.0.0.3"))
        assert told == [{"10.0.0.1", "10.0.0.9", "10.0.0.2"}]

    def test_and_of_nothing_else(self) -> None:
        world = World()
        told: list[Iterable[str]] = []
        world.publisher.watch_fleet(told.append)
        world.do(reboot("alone"))
        assert told == []

    def test_groups_and_site_follow(self) -> None:
        world = World()
        assert world.publisher.state.fleet.groups["set/web"] == WEB
        declared = declaration(digest="2")
        world.do(ApplyFleet(type(declared)("2", Site("westeurope"), declared.hosts, declared.groups, declared.vms)))
        assert world.publisher.state.fleet.site.location == "westeurope"

    def test_a_vm_that_moves_to_another_scope_reads_the_page_of_that_one(self) -> None:
        world = World()
        world.do(reboot("alone"))
        seen = world.page("alone").document.incarnation
        moved = [Vm("alone", "10.0.0.1", WEB.key, update_domain=0) if vm.name == "alone" else vm for vm in VMS]
        world.page("web-0")
        world.refleet(*moved)
        assert world.page("alone") is world.page("web-0")
        assert world.page("alone").document.incarnation > seen  # S3

    def test_of_a_group_that_is_gone_nothing_stays_behind(self) -> None:
        """S24: neither its pages nor that it listened; who waits for its document is told."""
        world, woken = World(), []
        world.do(EnableScope("web-0"))
        world.do(reboot("web-0"))
        world.do(CancelEvent(id_of(1)))
        world.watch("web-0", lambda: woken.append("me"))
        world.do(ApplyFleet(Declaration("without", vms=VMS[:1])))
        assert woken == ["me"]
        assert world.publisher.pages == {}

    def test_of_a_standalone_vm_that_is_gone_nothing_stays_behind(self) -> None:
        """S24, and when it returns it has to ask again before it counts as listening (F01)."""
        world = World()
        world.do(EnableScope("alone"))
        world.do(reboot("alone"))
        world.do(CancelEvent(id_of(1)))
        old = world.page("alone")
        world.do(OperateVm(id_of(2), "alone", EventType.TERMINATE))
        assert world.silent(NOW.steady + 9 * DAY) == []
        world.refleet(*VMS)
        assert world.page("alone") is not old
        assert not world.page("alone").enabled
        assert world.page("alone").document.incarnation > 2

    def test_nor_of_one_that_only_listened(self) -> None:
        world = World()
        world.do(EnableScope("alone"))
        world.page("alone")
        world.do(OperateVm(id_of(2), "alone", EventType.TERMINATE))
        world.refleet(*VMS)
        assert not world.page("alone").enabled


class TestWatchers:
    """Who waits for a document is called once, when it changes."""

    def test_a_watcher_is_called_once_at_the_next_change(self) -> None:
        world, calls = World(), []
        world.watch("alone", lambda: calls.append(world.page("alone").document.incarnation))
        world.do(reboot("alone"))
        assert calls == [1]  # and by then the page shows the change
        world.do(CancelEvent(id_of(1)))
        assert calls == [1]

    def test_a_change_elsewhere_wakes_nobody(self) -> None:
        world, calls = World(), []
        world.watch("alone", lambda: calls.append(1))
        world.do(reboot("zonal"))
        assert calls == []

    def test_several_changes_of_one_commit_wake_once(self) -> None:
        world, calls = World(), []
        world.watch("alone", lambda: calls.append(1))
        world.publish([*world.decide(reboot("alone", 1)), *world.decide(reboot("alone", 2))])
        assert calls == [1]

    def test_one_who_no_longer_watches_is_not_called(self) -> None:
        world, calls = World(), []
        page = world.publisher.watch("vm/alone", "me", lambda: calls.append(1))
        del page.watchers["me"]
        world.do(reboot("alone"))
        assert calls == []

    def test_a_watcher_may_watch_again_while_it_is_called(self) -> None:
        world, calls = World(), []

        def again() -> None:
            calls.append(1)
            world.watch("alone", again)

        world.watch("alone", again)
        world.do(reboot("alone"))
        world.do(CancelEvent(id_of(1)))
        assert calls == [1, 1]

    def test_many_are_woken_in_turns_so_that_the_loop_can_send_in_between(self) -> None:
        """More than 256: the rest in later turns of the loop, each once."""
        world = World()
        calls: list[int] = []
        for number in range(600):
            world.watch("alone", partial(calls.append, number), number)
        world.do(reboot("alone"))
        lengths = [len(calls)]
        while world.turns:
            world.turns.pop(0)()
            lengths.append(len(calls))
        assert lengths == [256, 512, 600]
        assert calls == list(range(600))

    def test_a_vm_that_is_gone_wakes_who_waits_for_it(self) -> None:
        world, calls = World(), []
        world.watch("alone", lambda: calls.append(1))
        world.do(OperateVm(id_of(1), "alone", EventType.TERMINATE))
        assert calls == [1]


class TestSilence:
    """Scopes that ask for nothing for 24 hours (F02)."""

    def test_a_scope_is_silent_when_its_last_poll_is_long_ago(self) -> None:
        world = World()
        world.do(EnableScope("alone"))
        world.do(EnableScope("web-0"))
        world.page("alone").last_poll = NOW.steady + 100 * SECOND
        world.page("web-0").last_poll = NOW.steady + 200 * SECOND
        assert world.silent(NOW.steady + 99 * SECOND + DAY) == []
        assert world.silent(NOW.steady + 100 * SECOND + DAY) == ["vm/alone"]

    def test_a_scope_that_is_off_is_not_silent(self) -> None:
        world = World()
        world.page("alone")
        assert world.silent(NOW.steady + 9 * DAY) == []

    def test_a_restart_counts_as_a_request(self) -> None:
        """Nobody could ask while we were away."""
        world = World()
        world.do(EnableScope("alone"))
        again = Publisher(lambda turn: None)
        again.open(world.state, NOW.steady + 5 * DAY)
        assert again.silent_among(["vm/alone"], NOW.steady + 5 * DAY + DAY // 2, DAY) == []
        assert again.silent_among(["vm/alone"], NOW.steady + 6 * DAY, DAY) == ["vm/alone"]

    def test_turning_a_scope_on_counts_as_a_request(self) -> None:
        world = World()
        world.page("alone")
        world.do(EnableScope("alone"), now=NOW.steady + DAY)
        assert world.silent(NOW.steady + DAY + DAY // 2) == []


class TestEverything:
    """A change that touches every scope, such as incarnations that go ahead after a restore (S3)."""

    def test_every_page_is_brought_up_to_date_and_every_watcher_woken(self) -> None:
        world = World()
        calls: list[str] = []
        for name in ("alone", "zonal"):
            world.do(EnableScope(name))
            world.watch(name, partial(calls.append, name))
        world.do(LiftIncarnations(1000))
        assert sorted(calls) == ["alone", "zonal"]
        assert world.page("alone").document.incarnation == world.page("zonal").document.incarnation == 1000
        assert world.page("alone").enabled


class TestFrozen:
    """Long looks are at a copy."""

    def test_a_frozen_state_stays_as_it_was_and_is_shared_while_nothing_changes(self) -> None:
        world = World()
        frozen = world.publisher.freeze()
        assert world.publisher.freeze() is frozen
        world.do(reboot("alone"))
        assert frozen.events == {}
        assert list(world.publisher.freeze().events) == [id_of(1)]


def test_an_empty_state_shows_nothing() -> None:
    publisher = Publisher(lambda turn: None)
    publisher.open(State(), 0)
    assert publisher.open_page_of(Vm("a", "10.0.0.1")).document is EMPTY
    assert publisher.silent_among(["vm/a"], 10**15, DAY) == []


def test_an_approval_that_starts_its_event_in_the_same_breath_is_shown_and_wakes() -> None:
    """What only the operator sees must not hide what VMs do see."""
    world = World()
    world.do(EnableScope("alone"))
    world.do(reboot("alone"))
    woken: list[str] = []
    world.watch("alone", lambda: woken.append("me"))
    world.publish([*world.decide(ApproveEvents((id_of(1),))), *world.decide(Tick())])
    assert woken == ["me"]
    assert world.page("alone").document.events[0].phase is Phase.STARTED
