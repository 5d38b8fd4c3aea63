"""The state as one value at one position of the journal, so that a start need not fold from the beginning.

And the part of it that some VMs are answered from: themselves, their groups, and the scopes that they read.
"""

from collections import deque
from collections.abc import Collection
from datetime import datetime

from msgspec import Struct

from duenotice.clock import Mark
from duenotice.domain import indexes, last_applied
from duenotice.domain.apply import Touched
from duenotice.domain.event import EndedEvent, Event
from duenotice.domain.failure import Failure, Failures
from duenotice.domain.fleet import Group, HealthReport, Host, LastApplied, Site, Vm, scope_of
from duenotice.domain.plan import Maintenance, StepStatus
from duenotice.domain.state import IdempotencyRecord, Scope, State, Tombstone
from duenotice.domain.subscription import Subscription
from duenotice.domain.token import Role, Session, Token


class ScopeSnapshot(Struct, frozen=True, omit_defaults=True, gc=False):
    """A scope without its events: those name their scope themselves."""

    key: str
    incarnation: int = 0
    enabled: bool = False


class Snapshot(Struct, frozen=True):
    """The whole state after the record at `position`."""

    position: int
    at: datetime
    digest: str = ""
    site: Site = Site()
    hosts: tuple[Host, ...] = ()
    groups: tuple[Group, ...] = ()
    vms: tuple[Vm, ...] = ()
    scopes: tuple[ScopeSnapshot, ...] = ()
    events: tuple[Event, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    tombstone_high_water: int = 0
    least_incarnation: int = 0
    raised_at: int = 0
    mark: Mark | None = None
    maintenances: tuple[Maintenance, ...] = ()
    unprocessed_outcomes: tuple[tuple[str, StepStatus, str], ...] = ()
    tokens: tuple[Token, ...] = ()
    had_readers: bool = False
    idempotency: tuple[IdempotencyRecord, ...] = ()
    ended: tuple[EndedEvent, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    push_claim: str = ""
    sessions: tuple[Session, ...] = ()
    steady: int = 0
    last_applied: tuple[LastApplied, ...] = ()
    removed: tuple[tuple[str, bool], ...] = ()
    reports: tuple[HealthReport, ...] = ()
    failures: tuple[Failure, ...] = ()


def take(state: State) -> Snapshot:
    """The state as a value."""
    fleet = state.fleet
    return Snapshot(
        position=state.position,
        at=state.at,
        digest=fleet.digest,
        site=fleet.site,
        hosts=tuple(fleet.hosts.values()),
        groups=tuple(fleet.groups.values()),
        vms=tuple(fleet.vms.values()),
        scopes=tuple(ScopeSnapshot(key, s.incarnation, s.enabled) for key, s in state.scopes.items()),
        events=tuple(state.events.values()),
        tombstones=tuple(state.tombstones.values()),
        tombstone_high_water=state.tombstone_high_water,
        least_incarnation=state.least_incarnation,
        raised_at=state.raised_at,
        mark=state.mark,
        maintenances=tuple(state.maintenances.values()),
        unprocessed_outcomes=tuple((event_id, *outcome) for event_id, outcome in state.unprocessed_outcomes.items()),
        tokens=tuple(state.tokens.values()),
        had_readers=state.had_readers,
        idempotency=tuple(state.idempotency.values()),
        ended=tuple(state.ended[event_id] for event_id in state.ended_order),
        subscriptions=tuple(state.subscriptions.values()),
        push_claim=state.push_claim,
        sessions=tuple(state.sessions.values()),
        steady=state.steady,
        last_applied=last_applied.each_once(fleet),
        removed=tuple(fleet.removed.items()),
        reports=tuple(state.reports.values()),
        failures=tuple(state.failures),
    )


def restore(snapshot: Snapshot) -> State:
    """The state that was taken."""
    state = State()
    state.position, state.mark = snapshot.position, snapshot.mark
    state.at, state.steady = snapshot.at, snapshot.steady
    state.fleet.digest, state.fleet.site = snapshot.digest, snapshot.site
    state.fleet.hosts = {host.name: host for host in snapshot.hosts}
    state.fleet.groups = {group.key: group for group in snapshot.groups}
    state.fleet.vms = {vm.name: vm for vm in snapshot.vms}
    state.fleet.by_address = {vm.address: vm for vm in snapshot.vms}
    for file in snapshot.last_applied:
        last_applied.note(state.fleet, file)
    state.fleet.removed = dict(snapshot.removed)
    state.scopes = {s.key: Scope(s.incarnation, s.enabled) for s in snapshot.scopes}
    state.tombstones.update((tombstone.vm, tombstone) for tombstone in snapshot.tombstones)
    state.tombstone_high_water, state.least_incarnation, state.raised_at = (
        snapshot.tombstone_high_water,
        snapshot.least_incarnation,
        snapshot.raised_at,
    )
    state.unprocessed_outcomes = {
        event_id: (status, reason) for event_id, status, reason in snapshot.unprocessed_outcomes
    }
    state.ended = {event.id: event for event in snapshot.ended}
    state.ended_order = deque(state.ended)
    state.failures = Failures(snapshot.failures)
    for event in snapshot.events:
        state.events[event.id] = event
    indexes.make_anew(state)
    for plan in snapshot.maintenances:
        indexes.plan_came(state, plan)
    _restore_doors(state, snapshot)
    return state


def _restore_doors(state: State, snapshot: Snapshot) -> None:
    """Who may ask, who is signed in, what was answered, and who is told."""
    state.tokens = {token.id: token for token in snapshot.tokens}
    state.had_readers = snapshot.had_readers or any(token.role is Role.FOLLOWER for token in snapshot.tokens)
    state.sessions = {session.digest: session for session in snapshot.sessions}
    state.idempotency.update((answer.key, answer) for answer in snapshot.idempotency)
    state.subscriptions = {each.id: each for each in snapshot.subscriptions}
    state.push_claim = snapshot.push_claim
    state.reports = {report.key: report for report in snapshot.reports}


def partial_snapshot(state: State, names: Collection[str]) -> Snapshot:
    """What these VMs are answered from, as a snapshot; names that no VM has are left out."""
    fleet = state.fleet
    vms = tuple(vm for name in names if (vm := fleet.vms.get(name)) is not None)
    scopes = {key: known for key in map(scope_of, vms) if (known := state.scopes.get(key)) is not None}
    groups = {vm.group for vm in vms}
    return Snapshot(
        position=state.position,
        at=state.at,
        digest=fleet.digest,
        site=fleet.site,
        groups=tuple(group for key in groups if (group := fleet.groups.get(key or "")) is not None),
        vms=vms,
        scopes=tuple(ScopeSnapshot(key, known.incarnation, known.enabled) for key, known in scopes.items()),
        events=tuple(event for key in scopes for event in state.events_in(key)),
        least_incarnation=state.least_incarnation,
    )


def difference(before: State, after: State) -> Touched:
    """What a door has to look at again when one part takes the place of another."""
    vms = {name for name in before.fleet.vms.keys() | after.fleet.vms.keys() if _differs(before, after, name)}
    both = [vm for name in vms for state in (before, after) if (vm := state.fleet.vms.get(name)) is not None]
    keys = before.scopes.keys() | after.scopes.keys()
    scopes = {key for key in keys if before.scopes.get(key) != after.scopes.get(key)} | set(map(scope_of, both))
    return Touched(scopes, vms, {vm.address for vm in both}, before.least_incarnation != after.least_incarnation)


def _differs(before: State, after: State, name: str) -> bool:
    return before.fleet.vms.get(name) != after.fleet.vms.get(name)
