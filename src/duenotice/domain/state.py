"""The state of the service: what the journal's transitions add up to. Only `apply` changes it."""

from collections import OrderedDict, deque
from datetime import UTC, datetime

from msgspec import Struct

from duenotice.clock import Mark
from duenotice.domain.agenda import Agenda
from duenotice.domain.document import EMPTY, Document
from duenotice.domain.event import Event
from duenotice.domain.failure import Failures
from duenotice.domain.fleet import Fleet, Vm
from duenotice.domain.gone import GoneEvent
from duenotice.domain.health_report import HealthReport
from duenotice.domain.holds import NOTHING, Holds, ScopeHolds
from duenotice.domain.ids_by_key import IdsByKey
from duenotice.domain.kept_answers import AnswersByKey
from duenotice.domain.maintenance import Maintenance, StepStatus
from duenotice.domain.progress import Progress
from duenotice.domain.scope import scope_of
from duenotice.domain.session import Session
from duenotice.domain.subscription import Subscription
from duenotice.domain.token import Token


class Scope(Struct, frozen=True, gc=False):
    """What is known of a scope that was ever asked for or told."""

    incarnation: int = 0
    enabled: bool = False


class Departure(Struct, frozen=True, gc=False):
    """The last incarnation a VM that left the fleet may have seen, and in which scope (S3).

    A group leaves one for each of its scopes too, under the key of the scope: no VM has such a name.
    """

    vm: str
    scope: str
    incarnation: int


class State:
    """Everything `decide` may look at, and all that readers see.

    The values in here never change, only the containers do: so a copy costs a few milliseconds for a million VMs.

    Some of it is kept twice, so that nothing has to be searched for; `apply` keeps it in step with the rest:
    `agenda` when which event is due, `holds` what makes events of a scope wait, `told` the ids of the events of each
    scope and `on` those on each VM, `consenting` the scheduled ones that wait for each other (C07), `sizes` the bytes
    that the events of a scope take, `under_way` the plan and the step of an event, `lanes` the plans that hold a lane,
    `residents` how many VMs stand in each scope of a group. `departures` and `answers` are queues: the oldest goes
    first. `sessions` are by digest and `reports` of hosts by key, the oldest first. `failures` are those that nobody
    has dealt with. `followed` says that there ever was a token for a follower. `at` and `steady` are when the last
    record was decided.
    """

    __slots__ = (
        "__weakref__",
        "agenda",
        "answers",
        "at",
        "consenting",
        "departures",
        "events",
        "failures",
        "fleet",
        "floor",
        "followed",
        "forgotten",
        "gone",
        "gone_order",
        "holds",
        "lanes",
        "lifted_at",
        "mark",
        "on",
        "outcomes",
        "plans",
        "position",
        "push_claim",
        "reports",
        "residents",
        "scopes",
        "sessions",
        "sizes",
        "steady",
        "subscriptions",
        "tokens",
        "told",
        "under_way",
    )

    def __init__(self) -> None:
        self.position = self.steady = 0
        self.at = datetime.min.replace(tzinfo=UTC)
        self.fleet = Fleet()
        self.scopes: dict[str, Scope] = {}
        self.events: dict[str, Event] = {}
        self.told, self.on, self.consenting = IdsByKey(), IdsByKey(), IdsByKey()
        self.sizes: dict[str, int] = {}
        self.holds: Holds = {}
        self.agenda: Agenda = []
        self.residents: dict[str, int] = {}
        self.departures: OrderedDict[str, Departure] = OrderedDict()
        self.failures = Failures()
        self.gone: dict[str, GoneEvent] = {}
        self.gone_order: deque[str] = deque()
        self.forgotten = self.floor = self.lifted_at = 0
        self.mark: Mark | None = None
        self.plans: dict[str, Progress] = {}
        self.under_way: dict[str, tuple[str, int]] = {}
        self.lanes: dict[str, tuple[str, ...]] = {}
        self.outcomes: dict[str, tuple[StepStatus, str]] = {}
        self.tokens: dict[str, Token] = {}
        self.followed = False
        self.sessions: dict[str, Session] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.push_claim = ""
        self.reports: dict[str, HealthReport] = {}
        self.answers: AnswersByKey = OrderedDict()

    def copy(self) -> "State":
        """A copy of the state."""
        copy = self.copy_to_read()
        copy.fleet, copy.agenda, copy.residents = self.fleet.copy(), self.agenda.copy(), self.residents.copy()
        copy.departures, copy.answers = self.departures.copy(), self.answers.copy()
        copy.gone, copy.gone_order = self.gone.copy(), self.gone_order.copy()
        copy.sessions = self.sessions.copy()
        return copy

    def copy_to_read(self) -> "State":
        """A copy without what only a fold, a door or a VM needs.

        That is addresses, the agenda, who left, who is signed in, what was answered or is gone.
        """
        copy = State()
        copy.position, copy.at, copy.steady, copy.mark = self.position, self.at, self.steady, self.mark
        copy.fleet = self.fleet.copy_to_read()
        copy.scopes, copy.events, copy.failures = self.scopes.copy(), self.events.copy(), self.failures.copy()
        copy.forgotten, copy.floor, copy.lifted_at = self.forgotten, self.floor, self.lifted_at
        copy.told, copy.on, copy.sizes = self.told.copy(), self.on.copy(), self.sizes.copy()
        copy.consenting = self.consenting.copy()
        copy.holds, copy.under_way = self.holds.copy(), self.under_way.copy()
        copy.plans = {plan_id: progress.copy() for plan_id, progress in self.plans.items()}
        copy.lanes, copy.residents = self.lanes.copy(), self.residents.copy()
        copy.outcomes, copy.tokens, copy.followed = self.outcomes.copy(), self.tokens.copy(), self.followed
        copy.subscriptions, copy.push_claim = self.subscriptions.copy(), self.push_claim
        copy.reports = self.reports.copy()
        return copy

    @property
    def maintenances(self) -> dict[str, Maintenance]:
        """All plans by id with all of their steps, those that are over in the order of their end."""
        return {plan_id: progress.whole() for plan_id, progress in self.plans.items()}

    def hold(self, scope: str) -> ScopeHolds:
        """What makes events of a scope wait."""
        return self.holds.get(scope, NOTHING)

    def incarnation(self, scope: str) -> int:
        """How often what the scope is shown has changed (B01)."""
        known = self.scopes.get(scope)
        return self.floor if known is None else known.incarnation

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
        return [self.events[event_id] for event_id in self.told.of(scope)]

    def events_of(self, vm: Vm) -> list[Event]:
        """The live events of its scope that hit a VM, oldest first."""
        scope = scope_of(vm)
        return [event for event in self.events_on(vm.name) if event.scope == scope]

    def events_on(self, *names: str) -> list[Event]:
        """The live events that hit any of these VMs, each once, even if the VMs are gone by now."""
        ids = dict.fromkeys(event_id for name in names for event_id in self.on.of(name))
        return [self.events[event_id] for event_id in ids]
