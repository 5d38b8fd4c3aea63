"""Every change of the fleet, and every two of them, while an event is in every phase: what comes of it always applies.

And no promise breaks on the way: an event ends once (S7), its VMs are in one update domain (S10), who is hit is told
and nobody else (S16), no incarnation goes back or stands for two contents (S3, S4), and everything comes to its end.
"""

from collections.abc import Callable
from copy import copy as copy_of
from itertools import product
from typing import NamedTuple

import pytest
from msgspec import structs

from duenotice.clock import micros
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.apply import fold
from duenotice.domain.event import Event, EventType, Phase
from duenotice.domain.fleet import Declaration, Group, GroupKind, Vm, domain_of, scope_of
from duenotice.domain.plan import OPEN
from duenotice.domain.policy import Policy
from duenotice.domain.rules.decide import decide
from duenotice.domain.rules.due import due_actions
from duenotice.domain.snapshot import Snapshot, restore, take
from duenotice.domain.state import State
from tests.promises.test_machine import EXAMPLES
from tests.unit.domain.build import NOW, id_of
from tests.unit.domain.test_indexes import kept

WEB, OTHER = Group(GroupKind.AVAILABILITY_SET, "web"), Group(GroupKind.AVAILABILITY_SET, "other")
SHOP, MANY = Group(GroupKind.CLOUD_SERVICE, "shop"), Group(GroupKind.SCALE_SET, "many", terminate_notice=300)
GROUPS = (WEB, OTHER, SHOP, MANY)
HOME = (
    Vm("solo", "10.0.0.1"),
    *(Vm(f"web-{n}", f"10.0.1.{n}", WEB.key, update_domain=n // 2) for n in range(4)),
    Vm("other-0", "10.0.2.0", OTHER.key, update_domain=0),
    *(Vm(f"Shop_IN_{n}", f"10.0.3.{n}", SHOP.key, update_domain=n // 2) for n in range(3)),
    *(MANY.instance(n, f"10.0.4.{n}") for n in range(7)),
)
SIMULATED, DRIVEN = Policy(), Policy(simulated_impact=False)


class Declared(NamedTuple):
    """A fleet file."""

    vms: dict[str, Vm]
    groups: tuple[Group, ...]

    def to(self, **places: Vm | None) -> "Declared":
        """These VMs are elsewhere, or gone."""
        vms = {**self.vms, **places}
        return Declared({name: vm for name, vm in vms.items() if vm is not None}, self.groups)


Targets = tuple[str, ...]
Move = Callable[[Declared, Targets], Declared]


def places(names: Targets, to: Callable[[Vm], Vm | None]) -> Move:
    """Change the place of these, wherever they are; who is away comes back for it."""

    def move(declared: Declared, targets: Targets) -> Declared:
        homes = {vm.name: vm for vm in HOME}
        chosen = dict.fromkeys({"first": targets[0], "last": targets[-1]}.get(name, name) for name in names)
        every = targets if "all" in names else tuple(chosen)
        return declared.to(**{name: to(declared.vms.get(name, homes[name])) for name in every})

    return move


def gone(vm: Vm) -> None:
    return None


def alone(vm: Vm) -> Vm:
    return Vm(vm.name, vm.address)


def in_other(vm: Vm) -> Vm:
    return Vm(vm.name, vm.address, OTHER.key, update_domain=1)


def next_domain(vm: Vm) -> Vm:
    return structs.replace(vm, update_domain=((vm.update_domain or 0) + 1) % 2)


def after(*moves: Move) -> Move:
    def move(declared: Declared, targets: Targets) -> Declared:
        for each in moves:
            declared = each(declared, targets)
        return declared

    return move


def home(declared: Declared, targets: Targets) -> Declared:
    return Declared({vm.name: vm for vm in HOME}, GROUPS)


def swapped(declared: Declared, targets: Targets) -> Declared:
    """The first of them has the address of one that is never hit, and the other way round."""
    one, other = declared.vms.get(targets[0]), declared.vms["other-0"]
    if one is None:
        return declared
    exchanged = structs.replace(other, address=one.address)
    return declared.to(**{one.name: structs.replace(one, address=other.address), other.name: exchanged})


def renamed(declared: Declared, targets: Targets) -> Declared:
    """Each group has another name; its VMs are the same."""
    names = {group.key: structs.replace(group, name=f"new-{group.name}") for group in declared.groups}
    vms = {
        vm.name: structs.replace(vm, group=names[vm.group].key if vm.group else None) for vm in declared.vms.values()
    }
    return Declared(vms, tuple(names.values()))


def without_their_group(declared: Declared, targets: Targets) -> Declared:
    """The group of the first of them is gone with all of its VMs; a single VM goes alone."""
    vm = declared.vms.get(targets[0])
    if vm is None:
        return declared
    left = {name: each for name, each in declared.vms.items() if each.name != vm.name and each.group != vm.group}
    left |= {name: each for name, each in declared.vms.items() if each.group is None and each.name != vm.name}
    return Declared(left, tuple(group for group in declared.groups if group.key != vm.group))


def capacity(number: int) -> Move:
    def move(declared: Declared, targets: Targets) -> Declared:
        group = next((group for group in declared.groups if group.kind is GroupKind.SCALE_SET), None)
        if group is None:
            return declared
        others = {name: vm for name, vm in declared.vms.items() if vm.group != group.key}
        instances = [group.instance(n, f"10.0.4.{n}") for n in range(number)]
        return Declared({vm.name: vm for vm in instances} | others, declared.groups)

    return move


CHANGES: dict[str, Move] = {
    "first gone": places(("first",), gone),
    "last gone": places(("last",), gone),
    "all gone": places(("all",), gone),
    "first to another set": places(("first",), in_other),
    "all to another set": places(("all",), in_other),
    "first to another domain": places(("first",), next_domain),
    "all to another domain": places(("all",), next_domain),
    "first alone": places(("first",), alone),
    "last alone": places(("last",), alone),
    "all alone": places(("all",), alone),
    "first gone, last alone": after(places(("last",), alone), places(("first",), gone)),
    "first alone, last to another set": after(places(("last",), in_other), places(("first",), alone)),
    "a neighbour comes and goes": after(places(("web-2",), gone), places(("other-0",), alone)),
    "groups renamed": renamed,
    "group gone": without_their_group,
    "home": home,
    "addresses swapped": swapped,
    "scale set smaller": capacity(1),
    "scale set larger": capacity(9),
}

TARGETS: list[Targets] = [
    ("solo",),
    ("web-0",),
    ("web-0", "web-1"),
    ("Shop_IN_0", "Shop_IN_1"),
    ("many_0", "many_5"),
]


class World:
    """A fleet with an event, in which each change is folded one by one and looked at."""

    def __init__(self, targets: Targets, policy: Policy) -> None:
        self.state, self.policy, self.now, self.targets = State(), policy, NOW, targets
        self.declared = home(Declared({}, ()), targets)
        self.left: dict[str, set[str]] = {}
        self.ended: set[str] = set()
        self.seen: dict[str, int] = {}
        self.contents: dict[tuple[str, int], object] = {}
        self.apply("home")

    def do(self, command: c.Command) -> None:
        self.take(decide(self.state, command, self.now, self.policy))
        self.look()

    def apply(self, change: str) -> None:
        declared = CHANGES[change](self.declared, self.targets)
        if declared.vms:  # an empty fleet is refused
            self.declared = declared
            self.do(c.ApplyFleet(Declaration(repr(declared), groups=declared.groups, vms=tuple(declared.vms.values()))))

    def pass_time(self, seconds: int = 0) -> None:
        self.now = self.now.after(micros(seconds))
        for _, changes in due_actions(self.state, self.now, self.policy):
            self.take(changes)
        self.look()

    def take(self, changes: list[t.Transition]) -> None:
        """One after another: a change that does not apply raises."""
        for change in changes:
            self.check_life(change)
            fold(self.state, t.Record(self.state.position + 1, self.now.at, "test", change, self.now.steady))

    def check_life(self, change: t.Transition) -> None:
        """S7: what is over is over; what has started is not cancelled; who has left an event is not hit again."""
        event = getattr(change, "event", None) or self.state.events.get(getattr(change, "event_id", ""))
        if not isinstance(event, Event):
            return
        assert event.id not in self.ended, f"{change} after its end"
        match change:
            case t.EventCancelled():
                assert event.phase is Phase.SCHEDULED, change
            case t.EventCompleted():
                assert event.phase is Phase.STARTED, change
            case t.EventMoved(now) | t.EventNarrowed(now):
                assert now.phase is self.state.events[now.id].phase, change
        if isinstance(change, t.EventCompleted | t.EventCancelled | t.EventFailed):
            self.ended.add(event.id)
        before = self.state.events.get(event.id, event)
        left = self.left.setdefault(event.id, set())
        left |= set(before.resources) - set(event.resources)
        assert left.isdisjoint(event.resources), f"{left} had left, and is hit again by {change}"

    def look(self) -> None:
        state = self.state
        for event in state.events.values():
            domains = {domain_of(state.fleet.vms[name]) for name in event.resources if name in state.fleet.vms}
            assert domains <= {(event.scope, event.update_domain)}, f"{event.resources} of {event} are in {domains}"
            assert event.resources, f"{event.id} hits nobody"
        for vm in state.fleet.vms.values():
            document = state.document(scope_of(vm))
            assert {event.scope for event in document.events} <= {scope_of(vm)}, f"{vm.name} reads {document}"
            assert document.incarnation >= self.seen.get(vm.name, 0), f"{vm.name} has seen {self.seen[vm.name]}"
            self.seen[vm.name] = document.incarnation
            shown = [(event.id, event.phase, event.resources) for event in document.events]
            known = self.contents.setdefault((scope_of(vm), document.incarnation), shown)
            assert known == shown, f"{scope_of(vm)} at {document.incarnation} was {known} and is {shown}"

    def come_to_an_end(self) -> None:
        """Time passes, and a driver reports on all that it can reach."""
        for _ in range(4):
            self.pass_time(86_400)
            for event in list(self.state.events.values()):
                reached = not self.state.fleet.vms.keys().isdisjoint(event.resources)
                if event.phase is Phase.STARTED and reached and event.id in self.state.events:
                    self.do(c.ReportImpact(event.id))
        assert not self.state.events, f"for ever: {self.state.events}"
        assert not [plan.id for plan in self.state.maintenances.values() if plan.status in OPEN]


def scheduled(world: World) -> None:
    world.do(c.ScheduleEvent(id_of(1), EventType.REBOOT, world.targets))


def approved(world: World) -> None:
    """Before anybody has looked at what is due."""
    scheduled(world)
    world.do(c.ApproveEvents((id_of(1),)))


def started(world: World) -> None:
    approved(world)
    world.pass_time()


def accepted(world: World) -> None:
    started(world)
    world.do(c.AcceptImpact(id_of(1)))


def tried_in_vain(world: World) -> None:
    started(world)
    world.do(c.ReportAttempt(id_of(1), 1, "Not yet."))


def being_deleted(world: World) -> None:
    world.do(c.ScheduleEvent(id_of(1), EventType.TERMINATE, world.targets))
    world.do(c.ApproveEvents((id_of(1),)))
    world.pass_time()


def planned(world: World) -> None:
    world.do(c.StartMaintenance(id_of(2), EventType.REBOOT, world.targets))
    world.pass_time()


def planned_and_started(world: World) -> None:
    planned(world)
    world.do(c.ApproveEvents(tuple(world.state.events)))
    world.pass_time()


def with_company(world: World) -> None:
    """Another event of the same VMs has started beside one that only waits."""
    started(world)
    world.do(c.ScheduleEvent(id_of(3), EventType.FREEZE, world.targets))
    world.do(c.ScheduleEvent(id_of(4), EventType.REDEPLOY, world.targets[-1:]))


PHASES: dict[str, tuple[Callable[[World], None], Policy]] = {
    "scheduled": (scheduled, SIMULATED),
    "approved": (approved, SIMULATED),
    "started": (started, SIMULATED),
    "started with a driver": (started, DRIVEN),
    "accepted": (accepted, DRIVEN),
    "tried in vain": (tried_in_vain, structs.replace(DRIVEN, impact_attempts=3)),
    "being deleted": (being_deleted, SIMULATED),
    "being deleted with a driver": (being_deleted, DRIVEN),
    "step of a plan": (planned, SIMULATED),
    "step of a plan, started": (planned_and_started, SIMULATED),
    "step of a plan with a driver": (planned_and_started, DRIVEN),
    "with company": (with_company, DRIVEN),
}


def world_in(phase: str, targets: Targets) -> World:
    bring, policy = PHASES[phase]
    world = World(targets, policy)
    for name in world.state.fleet.vms:
        world.do(c.EnableScope(name))
    bring(world)
    assert world.state.events
    return world


def again(world: World, snapshot: Snapshot) -> World:
    """The same world once more, as it was when the snapshot was taken."""
    copy = copy_of(world)
    copy.state, copy.left, copy.ended = restore(snapshot), {}, set()
    copy.seen, copy.contents = dict(world.seen), dict(world.contents)
    return copy


@pytest.mark.parametrize("targets", TARGETS, ids=" ".join)
@pytest.mark.parametrize("phase", PHASES)
def test_whatever_becomes_of_the_fleet_while_an_event_is(phase: str, targets: Targets) -> None:
    """Two files after each other, nothing and everything due between them."""
    begun = world_in(phase, targets)
    snapshot = take(begun.state)
    every = list(product(CHANGES, CHANGES, (0, 1000)))
    for first, second, pause in every if EXAMPLES else every[::7]:  # seven divides no row: every change has its turns
        world = again(begun, snapshot)
        try:
            world.apply(first)
            if pause:
                world.pass_time(pause)
            world.apply(second)
            world.pass_time()
            assert kept(world.state) == kept(restore(take(world.state)))
            world.come_to_an_end()
        except Exception as broken:
            raise AssertionError(f"{phase} on {targets}: {first}, then {second} ({pause}): {broken!r}") from broken
