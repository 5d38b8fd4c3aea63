"""Values that domain tests begin with: a moment, a demo fleet folded from transitions, and events on it."""

from datetime import UTC, datetime
from typing import Any

from duenotice.clock import MICROS, Instant
from duenotice.domain.apply import fold
from duenotice.domain.commands import (
    ApplyFleet,
    ApproveEvents,
    Command,
    DegradeHost,
    EnableScope,
    EvictVm,
    FailHost,
    OperateVm,
    ReportImpact,
    ScheduleEvent,
    StartMaintenance,
)
from duenotice.domain.event import Cause, Event, EventType
from duenotice.domain.fleet import Declaration, Group, GroupKind, Host, Vm
from duenotice.domain.plan import Maintenance
from duenotice.domain.policy import Policy
from duenotice.domain.records import Record, Transition
from duenotice.domain.rules.decide import decide
from duenotice.domain.rules.due import due_actions
from duenotice.domain.state import State

NOW = Instant(datetime(2026, 3, 1, 12, 0, tzinfo=UTC), 1000 * MICROS)
POLICY = Policy()
SECOND = MICROS
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86400 * SECOND
SEED = "11111111-2222-4333-8444-555555555555"

HOSTS = (Host("host-1"), Host("host-2"), Host("host-3"))
WEB = Group(GroupKind.AVAILABILITY_SET, "web", update_domains=2)
SHOP = Group(GroupKind.CLOUD_SERVICE, "shop", update_domains=2)
BATCH = Group(GroupKind.SCALE_SET, "batch", terminate_notice=420, addresses="10.0.5.0/29")
PLAIN = Group(GroupKind.SCALE_SET, "plain")

VMS = (
    Vm("alone", "10.0.0.1", host="host-1"),
    Vm("zonal", "10.0.0.2", zone="1", host="host-1"),
    Vm("spot", "10.0.0.3", host="host-3", spot=True),
    Vm("adrift", "10.0.0.4"),
    Vm("web-0", "10.0.1.0", WEB.key, update_domain=0, host="host-1"),
    Vm("web-1", "10.0.1.1", WEB.key, update_domain=1, host="host-2"),
    Vm("web-2", "10.0.1.2", WEB.key, update_domain=0, host="host-1"),
    Vm("web-3", "10.0.1.3", WEB.key, update_domain=1, host="host-1"),
    Vm("Front_IN_0", "10.0.2.0", SHOP.key, update_domain=0),
    Vm("Front_IN_1", "10.0.2.1", SHOP.key, update_domain=1),
    Vm("batch_0", "10.0.3.0", BATCH.key, 0, update_domain=0),
    Vm("batch_1", "10.0.3.1", BATCH.key, 0, update_domain=0),
    Vm("batch_100", "10.0.3.100", BATCH.key, 1, update_domain=0),
    Vm("batch_101", "10.0.3.101", BATCH.key, 1, update_domain=1, spot=True),
    Vm("plain_0", "10.0.4.0", PLAIN.key, 0, update_domain=0),
)
"""One of everything. host-1 has alone, zonal, web-0, web-2 (update domain 0) and web-3 (update domain 1)."""

EVERYBODY = tuple(vm.name for vm in VMS)


def declaration(*vms: Vm, digest: str = "declared", hosts: tuple[Host, ...] = HOSTS) -> Declaration:
    """A fleet of these VMs, or of the demo VMs."""
    return Declaration(digest, hosts=hosts, groups=(WEB, SHOP, BATCH, PLAIN), vms=vms or VMS)


def state_of(*vms: Vm) -> State:
    """A state with these VMs, or with the demo fleet; nobody listens yet."""
    state = State()
    do(state, ApplyFleet(declaration(*vms)))
    return state


def listening(*names: str) -> State:
    """The demo fleet, with the scopes of these VMs on, or all of them."""
    state = state_of()
    for name in names or EVERYBODY:
        do(state, EnableScope(name))
    return state


def do(state: State, command: Command, now: Instant = NOW, policy: Policy = POLICY) -> list[Transition]:
    """Decide a command and fold what comes of it."""
    return take_in(state, decide(state, command, now, policy), now)


def tick(state: State, now: Instant = NOW, policy: Policy = POLICY) -> list[Transition]:
    """Do what is due until nothing is, as the engine does."""
    return [change for _, changes in due_actions(state, now, policy) for change in take_in(state, changes, now)]


def take_in(state: State, changes: list[Transition], now: Instant = NOW) -> list[Transition]:
    """Fold what was decided."""
    for change in changes:
        fold(state, Record(state.position + 1, now.at, "test", change, now.steady))
    return changes


def id_of(number: int) -> str:
    """An EventId."""
    return f"{number:08X}-0000-4000-8000-000000000000"


def schedule(
    state: State,
    *vms: str,
    type: EventType = EventType.REBOOT,
    cause: Cause = Cause.MAINTENANCE,
    now: Instant = NOW,
    number: int = 1,
    not_before: datetime | None = None,
) -> Event:
    """An operator's event on VMs."""
    do(state, ScheduleEvent(id_of(number), type, vms, not_before, cause=cause), now)
    return state.events[id_of(number)]


def operate(state: State, vm: str, type: EventType, now: Instant = NOW, number: int = 1) -> Event:
    """A user's operation that raises an event."""
    do(state, OperateVm(id_of(number), vm, type), now)
    return state.events[id_of(number)]


def evict(state: State, vm: str, now: Instant = NOW, number: int = 1) -> Event:
    """An eviction."""
    do(state, EvictVm(id_of(number), vm), now)
    return state.events[id_of(number)]


def degrade(state: State, host: str, notice: int = 7 * DAY, now: Instant = NOW) -> list[Event]:
    """A predicted failure and its events."""
    before = set(state.events)
    do(state, DegradeHost(host, notice, SEED), now)
    return [event for event_id, event in state.events.items() if event_id not in before]


def fail(state: State, host: str, now: Instant = NOW) -> list[Event]:
    """A failure and its events."""
    before = set(state.events)
    do(state, FailHost(host, SEED), now)
    return [event for event_id, event in state.events.items() if event_id not in before]


def maintain(
    state: State,
    *vms: str,
    number: int = 1,
    type: EventType = EventType.REBOOT,
    now: Instant = NOW,
    policy: Policy = POLICY,
    **fields: Any,
) -> Maintenance:
    """A maintenance that has begun, with its first events."""
    do(state, StartMaintenance(id_of(number), type, vms, **fields), now, policy)
    tick(state, now, policy)
    return state.maintenances[id_of(number)]


def failed(state: State, vm: str, number: int, now: Instant = NOW) -> Maintenance:
    """A maintenance whose only step has failed: its driver gave up."""
    (step,) = maintain(state, vm, number=number, now=now).steps
    driven = Policy(simulated_impact=False)
    do(state, ApproveEvents((step.event_id or "",)), now, driven)
    tick(state, now, driven)
    do(state, ReportImpact(step.event_id or "", "Broken."), now, driven)
    tick(state, now, driven)
    return state.maintenances[id_of(number)]


def approve(state: State, *events: Event, vm: str | None = None, now: Instant = NOW) -> list[Transition]:
    """An approval."""
    return do(state, ApproveEvents(tuple(event.id for event in events), vm), now)


def started(state: State, event: Event, now: Instant = NOW) -> Event:
    """The event, approved by the operator and started."""
    approve(state, event, now=now)
    tick(state, now)
    return state.events[event.id]
