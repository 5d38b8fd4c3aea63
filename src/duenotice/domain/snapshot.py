"""The state as one value at one position of the journal, so that a start need not fold from the beginning."""

from collections import deque
from datetime import datetime

from msgspec import Struct

from duenotice.clock import Mark
from duenotice.domain import indexes, last_applied
from duenotice.domain.event import Event
from duenotice.domain.failure import Failure, Failures
from duenotice.domain.fleet import Group, Host, LastApplied, Site, Vm
from duenotice.domain.gone import GoneEvent
from duenotice.domain.health_report import HealthReport
from duenotice.domain.kept_answers import KeptAnswer
from duenotice.domain.maintenance import Maintenance, StepStatus
from duenotice.domain.session import Session
from duenotice.domain.state import Departure, Scope, State
from duenotice.domain.subscription import Subscription
from duenotice.domain.token import Role, Token


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
    departures: tuple[Departure, ...] = ()
    forgotten: int = 0
    floor: int = 0
    lifted_at: int = 0
    mark: Mark | None = None
    maintenances: tuple[Maintenance, ...] = ()
    outcomes: tuple[tuple[str, StepStatus, str], ...] = ()
    tokens: tuple[Token, ...] = ()
    followed: bool = False
    requests: tuple[KeptAnswer, ...] = ()
    gone: tuple[GoneEvent, ...] = ()
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
        departures=tuple(state.departures.values()),
        forgotten=state.forgotten,
        floor=state.floor,
        lifted_at=state.lifted_at,
        mark=state.mark,
        maintenances=tuple(state.maintenances.values()),
        outcomes=tuple((event_id, *outcome) for event_id, outcome in state.outcomes.items()),
        tokens=tuple(state.tokens.values()),
        followed=state.followed,
        requests=tuple(state.answers.values()),
        gone=tuple(state.gone[event_id] for event_id in state.gone_order),
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
    state.departures.update((departure.vm, departure) for departure in snapshot.departures)
    state.forgotten, state.floor, state.lifted_at = snapshot.forgotten, snapshot.floor, snapshot.lifted_at
    state.outcomes = {event_id: (status, reason) for event_id, status, reason in snapshot.outcomes}
    state.gone = {event.id: event for event in snapshot.gone}
    state.gone_order = deque(state.gone)
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
    state.followed = snapshot.followed or any(token.role is Role.FOLLOWER for token in snapshot.tokens)
    state.sessions = {session.digest: session for session in snapshot.sessions}
    state.answers.update((answer.key, answer) for answer in snapshot.requests)
    state.subscriptions = {each.id: each for each in snapshot.subscriptions}
    state.push_claim = snapshot.push_claim
    state.reports = {report.key: report for report in snapshot.reports}
