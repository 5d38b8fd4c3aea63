"""The state of the service: what the journal's transitions add up to. Only `apply` changes it."""

from collections import deque
from datetime import UTC, datetime

from msgspec import Struct, structs

from duenotice.clock import Mark
from duenotice.domain.agenda import Agenda
from duenotice.domain.document import EMPTY, Document
from duenotice.domain.event import Event
from duenotice.domain.fleet import Fleet, Vm
from duenotice.domain.gone import GoneEvent
from duenotice.domain.maintenance import Maintenance, Step, StepStatus
from duenotice.domain.requests import Answered
from duenotice.domain.scope import scope_of
from duenotice.domain.token import Token


class Scope(Struct, frozen=True, gc=False):
    """What is known of a scope that was ever asked for or told; `events` are ids, oldest first."""

    incarnation: int = 0
    enabled: bool = False
    events: tuple[str, ...] = ()


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
    """

    __slots__ = (
        "__weakref__",
        "_drafts",
        "_plans",
        "agenda",
        "at",
        "departures",
        "events",
        "fleet",
        "floor",
        "forgotten",
        "gone",
        "gone_order",
        "mark",
        "outcomes",
        "position",
        "requests",
        "scopes",
        "tokens",
    )

    def __init__(self) -> None:
        self.position = 0
        self.at = datetime.min.replace(tzinfo=UTC)
        self.fleet = Fleet()
        self.scopes: dict[str, Scope] = {}
        self.events: dict[str, Event] = {}
        self.agenda: Agenda = []
        self.departures: dict[str, Departure] = {}
        self.gone: dict[str, GoneEvent] = {}
        self.gone_order: deque[str] = deque()
        self.forgotten = 0
        self.floor = 0
        self.mark: Mark | None = None
        self._plans: dict[str, Maintenance] = {}
        self._drafts: dict[str, list[Step]] = {}
        self.outcomes: dict[str, tuple[StepStatus, str]] = {}
        self.tokens: dict[str, Token] = {}
        self.requests: dict[str, Answered] = {}

    def copy(self) -> "State":
        """The same state, which goes its own way from here."""
        copy = State()
        copy.position, copy.at, copy.mark = self.position, self.at, self.mark
        copy.fleet = self.fleet.copy()
        copy.scopes, copy.events, copy.agenda = self.scopes.copy(), self.events.copy(), self.agenda.copy()
        copy.departures, copy.forgotten, copy.floor = self.departures.copy(), self.forgotten, self.floor
        copy._plans = self._plans.copy()
        copy._drafts = {plan_id: steps.copy() for plan_id, steps in self._drafts.items()}
        copy.gone, copy.gone_order = self.gone.copy(), self.gone_order.copy()
        copy.outcomes, copy.tokens, copy.requests = self.outcomes.copy(), self.tokens.copy(), self.requests.copy()
        return copy

    @property
    def maintenances(self) -> dict[str, Maintenance]:
        """All plans by id, those that are over in the order of their end."""
        for plan_id, steps in self._drafts.items():
            self._plans[plan_id] = structs.replace(self._plans[plan_id], steps=tuple(steps))
        self._drafts.clear()
        return self._plans

    def steps(self, plan_id: str) -> list[Step]:
        """The steps of a plan, to be changed in place: thousands begin at once, and each would copy all of them."""
        if plan_id not in self._drafts:
            self._drafts[plan_id] = list(self._plans[plan_id].steps)
        return self._drafts[plan_id]

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
        known = self.scopes.get(scope)
        if known is None:
            return self.quiet_document
        if not known.incarnation:
            return EMPTY
        return Document(known.incarnation, tuple(self.events[event_id] for event_id in known.events))

    @property
    def quiet_document(self) -> Document:
        """What a scope is shown that never had an event."""
        return Document(self.floor) if self.floor else EMPTY

    def events_of(self, vm: Vm) -> list[Event]:
        """The live events of its scope that hit a VM."""
        known = self.scopes.get(scope_of(vm))
        events = [self.events[event_id] for event_id in known.events] if known is not None else []
        return [event for event in events if vm.name in event.resources]
