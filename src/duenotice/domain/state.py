"""The state of the service: what the journal's transitions add up to. Only `apply` changes it."""

from datetime import UTC, datetime

from msgspec import Struct

from duenotice.clock import Mark
from duenotice.domain.agenda import Agenda
from duenotice.domain.document import EMPTY, Document
from duenotice.domain.event import Event
from duenotice.domain.fleet import Fleet, Vm
from duenotice.domain.maintenance import Maintenance, StepStatus
from duenotice.domain.requests import Answered
from duenotice.domain.scope import scope_of
from duenotice.domain.token import Token


class Scope:
    """What is known of a scope that was ever asked for or told; `events` are ids, oldest first."""

    __slots__ = ("enabled", "events", "incarnation")

    def __init__(self, incarnation: int = 0, enabled: bool = False) -> None:
        self.incarnation = incarnation
        self.enabled = enabled
        self.events: list[str] = []


class Departure(Struct, frozen=True, gc=False):
    """The last incarnation a VM that left the fleet may have seen, and in which scope (S3)."""

    vm: str
    scope: str
    incarnation: int


class State:
    """Everything `decide` may look at."""

    __slots__ = (
        "agenda",
        "at",
        "departures",
        "events",
        "fleet",
        "floor",
        "forgotten",
        "maintenances",
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
        self.forgotten = 0
        self.floor = 0
        self.mark: Mark | None = None
        self.maintenances: dict[str, Maintenance] = {}
        self.outcomes: dict[str, tuple[StepStatus, str]] = {}
        self.tokens: dict[str, Token] = {}
        self.requests: dict[str, Answered] = {}

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
