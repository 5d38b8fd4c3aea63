"""A scheduled event: its type, cause and words, its life as one table, and what is remembered of one that is over.

1. An event begins Scheduled, or Started when it has already happened (D04).
2. Scheduled becomes Started when approved or when its notice has run out; or it is cancelled.
3. Started is completed, or fails when its driver gives up; nobody can take back what is happening.
4. Completed, Cancelled and Failed are ends; an ended event never comes back and its id is not used again.
"""

from collections import deque
from datetime import datetime
from enum import Enum

from msgspec import Struct, json, structs

from duenotice.clock import MICROS, Instant
from duenotice.domain.window import Opening
from duenotice.errors import Conflict


class EventType(Enum):
    """What happens to the VM (B04); the last one is advice, by which nothing happens."""

    FREEZE = "freeze"
    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    PREEMPT = "preempt"
    TERMINATE = "terminate"
    SPOT_REBALANCE_RECOMMENDATION = "spotrebalancerecommendation"


class Phase(Enum):
    """The phase of an event as we know it; documents show it as `EventStatus`."""

    SCHEDULED = "scheduled"
    STARTED = "started"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Cause(Enum):
    """Why an event was raised (section G)."""

    MAINTENANCE = "maintenance"
    LIVE_MIGRATION = "live-migration"
    USER = "user"
    REIMAGE = "reimage"
    """A user replaces the OS image of an instance (M15)."""
    EVICTION = "eviction"
    DELETION = "deletion"
    REBALANCE = "rebalance"
    DEGRADED_HOST = "degraded-host"
    HOST_FAILURE = "host-failure"


class By(Enum):
    """Which domains of a set a maintenance takes one at a time (G01)."""

    UPDATE_DOMAIN = "update-domain"
    FAULT_DOMAIN = "fault-domain"


class Consent(Enum):
    """Whose approval lets an event start before its notice is over (C05, C07)."""

    SCOPE = "scope"
    HOST = "host"
    """Of every scope that has VMs on the host of the event: the hardware is shared."""


class Source(Enum):
    """Who is behind an event (B09)."""

    PLATFORM = "platform"
    USER = "user"


BY_USER = frozenset({Cause.USER, Cause.REIMAGE, Cause.DELETION})
"""Causes that come from a person (G02, G05, M15); all others come from the platform."""

PLANNED = frozenset({Cause.MAINTENANCE, Cause.LIVE_MIGRATION, Cause.DEGRADED_HOST})
"""Causes that go one update domain at a time (G01, S11); a failure does not wait."""

REMOVALS = frozenset({EventType.PREEMPT, EventType.TERMINATE})
"""Types after which the VM is gone."""
MAINTENANCES = frozenset({EventType.FREEZE, EventType.REBOOT, EventType.REDEPLOY})
"""The types that a plan can have: the VM is there afterwards."""

UNKNOWN_DURATION = -1

LONGEST_DESCRIPTION = 1000
LONGEST_DURATION = 7 * 24 * 3600
"""Limits of what an operator may say about an event, in characters and in seconds."""
LONGEST_NOTE = 1000
"""Characters of what somebody says who acknowledges that it failed; it is kept for ever (S24)."""

LONGEST_PREDICTION_SECONDS = 7 * 24 * 3600
"""A host failure is predicted at most seven days ahead (D03)."""

MOST_RESOURCES = 1000
"""VMs of one event (S24). If a host has more in one update domain, each thousand of them get an event."""

IMPACT_SECONDS = {EventType.FREEZE: 9}
"""How long the impact on a VM is expected to last (D05, B09); unknown for every other type."""

_LIVE_MIGRATION = "Virtual machine is being paused because of a memory-preserving Live Migration operation."
_BY_CAUSE = {
    Cause.LIVE_MIGRATION: _LIVE_MIGRATION,
    Cause.HOST_FAILURE: "Virtual machine has encountered a failure.",
    Cause.EVICTION: "",
    Cause.REIMAGE: "Virtual machine is going to be reimaged as requested by authorized user.",
    Cause.DELETION: "Virtual machine is going to be deleted as requested by authorized user.",
    Cause.REBALANCE: "Virtual machine is at an elevated risk of eviction.",
}
_BY_USER_AND_TYPE = {
    EventType.REBOOT: "Virtual machine is going to be restarted as requested by authorized user.",
    EventType.REDEPLOY: "Virtual machine is going to be redeployed as requested by authorized user.",
}
_MAINTENANCE = "Host server is undergoing maintenance."


def description_of(event_type: EventType, cause: Cause) -> str:
    """The sentence the real service writes for such an event (B11)."""
    if cause is Cause.USER:
        return _BY_USER_AND_TYPE.get(event_type, _MAINTENANCE)
    return _BY_CAUSE.get(cause, _MAINTENANCE)


class Event(Struct, frozen=True, omit_defaults=True, gc=False):
    """One scheduled event. `notice_ends` and `impact_ends` are in steady microseconds, see `clock.Instant`.

    `impact_ends` None on a started event means that a driver carries out the impact: `failed_attempts` counts its
    failed tries, `accepted` says that somebody outside has taken it on and will report. `claimed_by` is the node whose
    driver makes the present try, if there are several nodes, and `claimed_in` the directory with its notes (N12).
    `opening` is the span of its plan's window. `to` is the host that its VMs move to; None: to another one than theirs,
    if they move at all. With the `consent` of its host it waits for the other events of its maintenance on that host
    (C07). `fault_domain` is there if its maintenance goes by those (G01).
    """

    id: str
    type: EventType
    cause: Cause
    scope: str
    resources: tuple[str, ...]
    not_before: datetime
    notice_ends: int
    description: str = ""
    duration: int = UNKNOWN_DURATION
    update_domain: int | None = None
    host: str | None = None
    phase: Phase = Phase.SCHEDULED
    approved_by: str = ""
    started_at: datetime | None = None
    impact_ends: int | None = None
    maintenance: str | None = None
    failed_attempts: int = 0
    accepted: bool = False
    claimed_by: str = ""
    claimed_in: str = ""
    opening: Opening | None = None
    to: str | None = None
    consent: Consent = Consent.SCOPE
    fault_domain: int | None = None

    @property
    def awaits_driver(self) -> bool:
        """Whether a driver still has to carry out its impact."""
        return self.phase is Phase.STARTED and self.impact_ends is None and not self.accepted

    @property
    def domain(self) -> int | None:
        """Of which one is hit at a time (S11): its update domain, or ~ of its fault domain where they go by those."""
        return self.update_domain if self.fault_domain is None else ~self.fault_domain

    @property
    def shares(self) -> str | None:
        """The key of those that wait for each other's approval; None if nobody else has to approve (C07)."""
        return f"host/{self.maintenance}/{self.host}" if self.consent is Consent.HOST else None

    @property
    def is_advice(self) -> bool:
        """Whether it is not a deadline: it is not approved and never starts, and stays until it is withdrawn."""
        return self.type is EventType.SPOT_REBALANCE_RECOMMENDATION

    @property
    def source(self) -> Source:
        """Who is behind it (B09)."""
        return Source.USER if self.cause in BY_USER else Source.PLATFORM

    def with_(self, **changes: object) -> "Event":
        """The same event with some fields changed."""
        return structs.replace(self, **changes)


FRAME_BYTES = 240
"""What the JSON of an event takes in any api-version, beside its id, its VMs and its description."""

_encode = json.Encoder().encode


def size_of(event: Event) -> int:
    """The most bytes that an event takes in a document of any api-version; the preview put a sign before each name."""
    texts = (event.id, event.description, event.resources)
    return FRAME_BYTES + sum(len(_encode(text)) for text in texts) + len(event.resources)


class Act(Enum):
    """What moves an event on."""

    SCHEDULE = "schedule"
    HAPPEN = "happen"
    START = "start"
    CANCEL = "cancel"
    COMPLETE = "complete"
    FAIL = "fail"


MOVES: dict[tuple[Phase | None, Act], Phase] = {
    (None, Act.SCHEDULE): Phase.SCHEDULED,
    (None, Act.HAPPEN): Phase.STARTED,
    (Phase.SCHEDULED, Act.START): Phase.STARTED,
    (Phase.SCHEDULED, Act.CANCEL): Phase.CANCELLED,
    (Phase.STARTED, Act.COMPLETE): Phase.COMPLETED,
    (Phase.STARTED, Act.FAIL): Phase.FAILED,
}


def move(phase: Phase | None, act: Act) -> Phase:
    """The phase that follows; an illegal move is refused and changes nothing."""
    try:
        return MOVES[phase, act]
    except KeyError:
        begun = "has not begun" if phase is None else f"is already {phase.value}"
        raise Conflict(f"Cannot {act.value} the event: it {begun}.", hint="Look at its state first.") from None


ENDED_KEPT = 24 * 3600 * MICROS
MOST_ENDED = 100_000
"""So that state stays bounded (S24); the first to go is the first to be forgotten."""


class EndedEvent(Struct, frozen=True, omit_defaults=True, gc=False):
    """An id, the scope that had it last, and until when it is remembered, by both faces of time (S34)."""

    id: str
    scope: str
    until: datetime
    until_steady: int

    def is_over(self, now: Instant) -> bool:
        """Whether it is too long ago to be remembered."""
        return Instant(self.until, self.until_steady).has_come(now)


def ended_now(event: Event, now: Instant) -> EndedEvent:
    """An event that goes now."""
    until = now.after(ENDED_KEPT)
    return EndedEvent(event.id, event.scope, until.at, until.steady)


def keep_ended(gone: dict[str, EndedEvent], order: deque[str], event: EndedEvent, now: Instant) -> None:
    """Remember one more that goes now, and forget what is too old or too much.

    The order is kept beside the mapping: to find the first key of a mapping that loses its first keys gets slow.
    """
    if event.id not in gone:
        order.append(event.id)
    gone[event.id] = event
    while len(order) > MOST_ENDED or gone[order[0]].is_over(now):
        del gone[order.popleft()]
