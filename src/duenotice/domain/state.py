"""The state of the service: what the journal's records add up to. Only `apply` changes it."""

from collections import OrderedDict, deque
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from duenotice.clock import Instant, Mark
from duenotice.domain.bulk import IdsByKey
from duenotice.domain.event import EndedEvent, Event
from duenotice.domain.failure import Failures
from duenotice.domain.fleet import Condition, Fleet, Group, GroupKind, HealthReport, Host, Vm, scope_of
from duenotice.domain.plan import Maintenance, PlanProgress, StepStatus
from duenotice.domain.subscription import Subscription
from duenotice.domain.timers import NOTHING, Blockers, ScopeBlockers, TimerHeap
from duenotice.domain.token import Session, Token
from duenotice.errors import Conflict, LookAt, NotFound
from duenotice.toml import missing


class Document(Struct, frozen=True):
    """All live events of one scope; the same incarnation always means the same content (S4)."""

    incarnation: int = 0
    events: tuple[Event, ...] = ()


EMPTY = Document()
"""The document of a scope that never had an event."""


ANSWERS_KEPT = timedelta(hours=24)
MOST_ANSWERS = 10_000
"""So that state stays bounded (S24); the oldest is forgotten first."""


class IdempotencyRecord(Struct, frozen=True, gc=False):
    """Where in the journal the answer to a request is; `request_digest` tells it from another with the same key.

    It is kept until both faces of time say so: somebody may set the clock between two tries (S34).
    """

    key: str
    request_digest: str
    position: int
    until: datetime
    until_steady: int

    def is_over(self, now: Instant) -> bool:
        """Whether it was too long ago."""
        return Instant(self.until, self.until_steady).has_come(now)


AnswersByKey = OrderedDict[str, IdempotencyRecord]
"""The oldest first."""


def keep_answer(answers: AnswersByKey, answer: IdempotencyRecord, now: Instant) -> None:
    """Remember one more that is given now, and forget what is too old or too much."""
    answers[answer.key] = answer
    answers.move_to_end(answer.key)  # its key may have been used before, and have run out
    while len(answers) > MOST_ANSWERS or next(iter(answers.values())).is_over(now):
        answers.popitem(last=False)


def answered_before(answers: AnswersByKey, key: str, now: Instant) -> IdempotencyRecord | None:
    """The answer to the request with this key, if it was answered and that is not too long ago."""
    known = answers.get(key)
    return known if known is not None and not known.is_over(now) else None


class Scope(Struct, frozen=True, gc=False):
    """What is known of a scope that was ever asked for or told."""

    incarnation: int = 0
    enabled: bool = False


class Tombstone(Struct, frozen=True, gc=False):
    """The last incarnation a VM that left the fleet may have seen, and in which scope (S3).

    A group leaves one for each of its scopes too, under the key of the scope: no VM has such a name.
    """

    vm: str
    scope: str
    incarnation: int


class State:
    """Everything `decide` may look at, and all that readers see.

    The values in here never change, only the containers do: so a copy costs a few milliseconds for a million VMs.

    Some of it is kept twice, so that nothing has to be searched for; `apply` keeps it in step with the rest: `timers`
    when which event is due, `blockers` what makes events of a scope wait, `events_by_scope` the ids of the events of
    each scope and `events_by_vm` those on each VM, `consenting` the scheduled ones that wait for each other (C07),
    `document_sizes` the bytes that the events of a scope take, `step_of_event` the plan and the step of an event,
    `plans_by_group` the plans that hold a group, `scope_sizes` how many VMs stand in each scope of a group.
    `tombstones` and `idempotency` are queues: the oldest goes first. `sessions` are by digest and `reports` of hosts by
    key, the oldest first. `failures` are those that nobody has dealt with. `had_readers` says that there ever was a
    token for a follower. `at` and `steady` are when the last record was decided.
    """

    __slots__ = (
        "__weakref__",
        "at",
        "blockers",
        "consenting",
        "document_sizes",
        "ended",
        "ended_order",
        "events",
        "events_by_scope",
        "events_by_vm",
        "failures",
        "fleet",
        "had_readers",
        "idempotency",
        "least_incarnation",
        "mark",
        "plans",
        "plans_by_group",
        "position",
        "push_claim",
        "raised_at",
        "reports",
        "scope_sizes",
        "scopes",
        "sessions",
        "steady",
        "step_of_event",
        "subscriptions",
        "timers",
        "tokens",
        "tombstone_high_water",
        "tombstones",
        "unprocessed_outcomes",
    )

    def __init__(self) -> None:
        self.position = self.steady = 0
        self.at = datetime.min.replace(tzinfo=UTC)
        self.fleet = Fleet()
        self.scopes: dict[str, Scope] = {}
        self.events: dict[str, Event] = {}
        self.events_by_scope, self.events_by_vm, self.consenting = IdsByKey(), IdsByKey(), IdsByKey()
        self.document_sizes: dict[str, int] = {}
        self.blockers: Blockers = {}
        self.timers: TimerHeap = []
        self.scope_sizes: dict[str, int] = {}
        self.tombstones: OrderedDict[str, Tombstone] = OrderedDict()
        self.failures = Failures()
        self.ended: dict[str, EndedEvent] = {}
        self.ended_order: deque[str] = deque()
        self.tombstone_high_water = self.least_incarnation = self.raised_at = 0
        self.mark: Mark | None = None
        self.plans: dict[str, PlanProgress] = {}
        self.step_of_event: dict[str, tuple[str, int]] = {}
        self.plans_by_group: dict[str, tuple[str, ...]] = {}
        self.unprocessed_outcomes: dict[str, tuple[StepStatus, str]] = {}
        self.tokens: dict[str, Token] = {}
        self.had_readers = False
        self.sessions: dict[str, Session] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.push_claim = ""
        self.reports: dict[str, HealthReport] = {}
        self.idempotency: AnswersByKey = OrderedDict()

    def copy(self) -> "State":
        """A copy of the state."""
        copy = self.copy_to_read()
        copy.fleet, copy.timers, copy.scope_sizes = self.fleet.copy(), self.timers.copy(), self.scope_sizes.copy()
        copy.tombstones, copy.idempotency = self.tombstones.copy(), self.idempotency.copy()
        copy.ended, copy.ended_order = self.ended.copy(), self.ended_order.copy()
        copy.sessions = self.sessions.copy()
        return copy

    def copy_to_read(self) -> "State":
        """A copy without what only a fold, a door or a VM needs.

        That is addresses, timers, who left, who is signed in, what was answered or is gone.
        """
        copy = State()
        copy.position, copy.at, copy.steady, copy.mark = self.position, self.at, self.steady, self.mark
        copy.fleet = self.fleet.copy_to_read()
        copy.scopes, copy.events, copy.failures = self.scopes.copy(), self.events.copy(), self.failures.copy()
        copy.tombstone_high_water, copy.least_incarnation, copy.raised_at = (
            self.tombstone_high_water,
            self.least_incarnation,
            self.raised_at,
        )
        copy.events_by_scope, copy.events_by_vm, copy.document_sizes = (
            self.events_by_scope.copy(),
            self.events_by_vm.copy(),
            self.document_sizes.copy(),
        )
        copy.consenting = self.consenting.copy()
        copy.blockers, copy.step_of_event = self.blockers.copy(), self.step_of_event.copy()
        copy.plans = {plan_id: progress.copy() for plan_id, progress in self.plans.items()}
        copy.plans_by_group, copy.scope_sizes = self.plans_by_group.copy(), self.scope_sizes.copy()
        copy.unprocessed_outcomes, copy.tokens, copy.had_readers = (
            self.unprocessed_outcomes.copy(),
            self.tokens.copy(),
            self.had_readers,
        )
        copy.subscriptions, copy.push_claim = self.subscriptions.copy(), self.push_claim
        copy.reports = self.reports.copy()
        return copy

    @property
    def maintenances(self) -> dict[str, Maintenance]:
        """All plans by id with all of their steps, those that are over in the order of their end."""
        return {plan_id: progress.whole() for plan_id, progress in self.plans.items()}

    def blockers_of(self, scope: str) -> ScopeBlockers:
        """What makes events of a scope wait."""
        return self.blockers.get(scope, NOTHING)

    def incarnation(self, scope: str) -> int:
        """How often what the scope is shown has changed (B01)."""
        known = self.scopes.get(scope)
        return self.least_incarnation if known is None else known.incarnation

    def enabled(self, scope: str) -> bool:
        """Whether anybody of the scope listens (F01-F03)."""
        known = self.scopes.get(scope)
        return known is not None and known.enabled

    def document(self, scope: str) -> Document:
        """What the scope is to be shown."""
        incarnation = self.incarnation(scope)
        if not incarnation:
            return EMPTY
        return Document(incarnation, tuple(self.events_in(scope)))

    def events_in(self, scope: str) -> list[Event]:
        """The live events of a scope, oldest first."""
        return [self.events[event_id] for event_id in self.events_by_scope.of(scope)]

    def events_of(self, vm: Vm) -> list[Event]:
        """The live events of its scope that hit a VM, oldest first."""
        scope = scope_of(vm)
        return [event for event in self.events_on(vm.name) if event.scope == scope]

    def events_on(self, *names: str) -> list[Event]:
        """The live events that hit any of these VMs, each once, even if the VMs are gone by now."""
        ids = dict.fromkeys(event_id for name in names for event_id in self.events_by_vm.of(name))
        return [self.events[event_id] for event_id in ids]


def find_vm(state: State, name: str) -> Vm:
    """A VM by name."""
    vm = state.fleet.vms.get(name)
    if vm is None:
        raise missing(f"There is no VM named {name!r}.", name, state.fleet.vms, LookAt.VMS)
    return vm


def group_of_vm(state: State, vm: Vm) -> Group | None:
    """None for a VM that stands alone."""
    return None if vm.group is None else state.fleet.groups.get(vm.group)


def find_host(state: State, name: str) -> Host:
    """A host by name."""
    host = state.fleet.hosts.get(name)
    if host is None:
        raise missing(f"There is no host named {name!r}.", name, state.fleet.hosts, LookAt.HOSTS)
    return host


def find_standing_host(state: State, name: str) -> Host:
    """A host that has not failed."""
    host = find_host(state, name)
    if host.condition is Condition.FAILED:
        raise Conflict(f"The host {name} has failed already.", hint="Repair it first.")
    return host


def find_group(state: State, key: str) -> Group:
    """A group by its key."""
    group = state.fleet.groups.get(key)
    if group is None:
        raise missing(f"There is no group {key!r}.", key, state.fleet.groups, LookAt.GROUPS)
    return group


def find_scale_set(state: State, name: str) -> Group:
    """A scale set by name."""
    group = state.fleet.groups.get(f"{GroupKind.SCALE_SET.value}/{name}")
    if group is None:
        sets = (each.name for each in state.fleet.groups.values() if each.kind is GroupKind.SCALE_SET)
        raise missing(f"There is no scale set named {name!r}.", name, sets, LookAt.GROUPS)
    return group


def find_instance(state: State, group: Group, name: str) -> Vm:
    """An instance of a scale set by name."""
    vm = state.fleet.vms.get(name)
    if vm is None or vm.group != group.key:
        raise NotFound(f"{group.name} has no instance {name!r}.", look_at=LookAt.VMS)
    return vm


def find_plan(state: State, maintenance_id: str) -> PlanProgress:
    """A plan by its id."""
    progress = state.plans.get(maintenance_id)
    if progress is None:
        raise NotFound(f"There is no maintenance {maintenance_id}.", look_at=LookAt.MAINTENANCES)
    return progress
