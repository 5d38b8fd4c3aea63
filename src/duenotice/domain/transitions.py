"""What has happened: the recorded changes that the state is a fold of.

They are stored for ever: a field may be added with a default (and a new format in `journal/codec.py`, so that an
older duenotice does not drop it), never renamed or given another meaning.
"""

from datetime import datetime

from msgspec import Struct

from duenotice.clock import Instant, Mark
from duenotice.domain.change import Change as Change
from duenotice.domain.event import Event
from duenotice.domain.fleet import EventsPolicy, Group, Host, LastApplied, Site, Vm
from duenotice.domain.health_report import HealthReport
from duenotice.domain.maintenance import Maintenance, Status, StepStatus
from duenotice.domain.scope import scope_of
from duenotice.domain.session import Session
from duenotice.domain.subscription_changes import PushesClaimed as PushesClaimed
from duenotice.domain.subscription_changes import PushNoted as PushNoted
from duenotice.domain.subscription_changes import PushSetAside as PushSetAside
from duenotice.domain.subscription_changes import SubscriptionCreated as SubscriptionCreated
from duenotice.domain.subscription_changes import SubscriptionDeleted as SubscriptionDeleted
from duenotice.domain.subscription_changes import SubscriptionReplayed as SubscriptionReplayed
from duenotice.domain.subscription_changes import SubscriptionTurned as SubscriptionTurned
from duenotice.domain.token import Token
from duenotice.domain.window import Window


class _OfEvent(Change, frozen=True):
    """A change that carries the event as it is now."""

    event: Event

    @property
    def touched_scopes(self) -> tuple[str, ...]:
        return (self.event.scope,)


class _AboutEvent(Change, frozen=True):
    """A change that names its event."""

    event_id: str
    scope: str

    @property
    def touched_scopes(self) -> tuple[str, ...]:
        return (self.scope,)


class _OfScope(Change, frozen=True):
    """A change of one scope."""

    scope: str

    @property
    def touched_scopes(self) -> tuple[str, ...]:
        return (self.scope,)


class FleetDeclared(Change, frozen=True, tag="fleet-declared"):
    """The declaration with this digest was applied; `file` is what the fleet file of a node says from now on (N21)."""

    digest: str
    site: Site
    file: LastApplied | None = None


class HostsPut(Change, frozen=True, tag="hosts-put"):
    """Hosts were added or changed."""

    hosts: tuple[Host, ...]


class HostsRemoved(Change, frozen=True, tag="hosts-removed"):
    """Hosts left the fleet."""

    names: tuple[str, ...]


class HealthReported(Change, frozen=True, tag="health-reported"):
    """A VM has said how its host is (M17)."""

    report: HealthReport


class GroupsPut(Change, frozen=True, tag="groups-put"):
    """Groups were added or changed."""

    groups: tuple[Group, ...]


class GroupsRemoved(Change, frozen=True, tag="groups-removed"):
    """Groups left the fleet, by key."""

    keys: tuple[str, ...]

    @property
    def touched_groups(self) -> tuple[str, ...]:
        return self.keys


class VmsPut(Change, frozen=True, tag="vms-put"):
    """VMs were added, changed or moved to another host."""

    vms: tuple[Vm, ...]

    @property
    def touched_scopes(self) -> tuple[str, ...]:
        """Also of who is gone again when somebody looks: its coming may have lifted what others read (S3, S4)."""
        return tuple(map(scope_of, self.vms))

    @property
    def touched_vms(self) -> tuple[str, ...]:
        return tuple(vm.name for vm in self.vms)


class VmsRemoved(Change, frozen=True, tag="vms-removed"):
    """VMs left the fleet; `by_file`: because a fleet says so as a whole, or a fleet file says so from now on."""

    names: tuple[str, ...]
    by_file: bool = False

    @property
    def touched_vms(self) -> tuple[str, ...]:
        return self.names


class EventsPolicySet(Change, frozen=True, tag="events-policy-set"):
    """What an owner says about events beforehand; `of` is the key of a VM (`vm/db-0`) or of a group."""

    of: str
    policy: EventsPolicy

    @property
    def touched_vms(self) -> tuple[str, ...]:
        kind, _, name = self.of.partition("/")
        return (name,) if kind == "vm" else ()


class EventRaised(_OfEvent, frozen=True, tag="event-raised"):
    """A new event: Scheduled, or at once Started when it has already happened (D04) or its owner wants it so (M09)."""


class EventMoved(_OfEvent, frozen=True, tag="event-moved"):
    """The VMs hit have come to another scope, and the event with them; `event` is the event as it is now."""

    from_scope: str

    @property
    def touched_scopes(self) -> tuple[str, ...]:
        return (self.event.scope, self.from_scope)


class EventNarrowed(_OfEvent, frozen=True, tag="event-narrowed"):
    """Some of the VMs that a started event hits have left its update domain, and with it the event, for good (S10).

    `event` is the event as it is now.
    """


class EventApproved(_AboutEvent, frozen=True, tag="event-approved"):
    """The event was approved."""

    by: str


class EventPostponed(_OfEvent, frozen=True, tag="event-postponed"):
    """`NotBefore` has moved later; `event` is the event as it is now."""


class EventStarted(_OfEvent, frozen=True, tag="event-started"):
    """The impact begins; `event` is the event as it is now."""


class EventCompleted(_AboutEvent, frozen=True, tag="event-completed"):
    """The impact is over; the event is gone. A driver may say what it did, and how long that took, in microseconds."""

    what: str = ""
    took: int | None = None


class EventCancelled(_AboutEvent, frozen=True, tag="event-cancelled"):
    """The event was cancelled; it is gone."""

    reason: str = ""


class OperationPerformed(Change, frozen=True, tag="operation-performed"):
    """A user's operation that was done at once and raised no event: nobody listens (F03)."""

    vm: str
    operation: str


class EventFailed(_AboutEvent, frozen=True, tag="event-failed"):
    """The driver gave up; the event is gone, and its impact may not have happened. `took` is in microseconds."""

    reason: str
    took: int | None = None


class FailureAcknowledged(_AboutEvent, frozen=True, tag="failure-acknowledged"):
    """Somebody has seen that an event failed, and it needs nobody any more; `note` is what they say about it."""

    note: str = ""


class ImpactFailed(_AboutEvent, frozen=True, tag="impact-failed"):
    """An attempt at the impact failed, and there will be another; part of the impact may have happened."""

    attempt: int
    reason: str


class ImpactClaimed(_AboutEvent, frozen=True, tag="impact-claimed"):
    """The driver of this node makes this attempt, and nobody else does (N12)."""

    attempt: int
    node: str


class ImpactAccepted(_AboutEvent, frozen=True, tag="impact-accepted"):
    """Somebody outside has taken the impact on and will report."""


class MaintenanceStarted(Change, frozen=True, tag="maintenance-started"):
    """A plan was made and begun."""

    maintenance: Maintenance


class MaintenanceChanged(Change, frozen=True, tag="maintenance-changed"):
    """A plan was paused, resumed, cancelled, or has come to its end; `window` replaces the one it had."""

    maintenance_id: str
    status: Status
    reason: str = ""
    window: Window | None = None


class MaintenanceRetried(Change, frozen=True, tag="maintenance-retried"):
    """These steps wait again, and the plan goes on; `window` replaces the one it had."""

    maintenance_id: str
    steps: tuple[int, ...]
    window: Window | None = None


class WindowClosed(Change, frozen=True, tag="window-closed"):
    """The span of a plan's window that is on or comes next is `span`; `steps` had not started, and wait for it."""

    maintenance_id: str
    span: int
    steps: tuple[int, ...] = ()


class StepBegun(Change, frozen=True, tag="step-begun"):
    """A step has its event; `reason` tells when it had to leave VMs out."""

    maintenance_id: str
    step: int
    event_id: str
    reason: str = ""


class StepEnded(Change, frozen=True, tag="step-ended"):
    """A step is over; `ended` in steady microseconds."""

    maintenance_id: str
    step: int
    status: StepStatus
    ended: int
    reason: str = ""


class ScopeEnabled(_OfScope, frozen=True, tag="scope-enabled"):
    """The scope listens."""


class ScopeDisabled(_OfScope, frozen=True, tag="scope-disabled"):
    """The scope has been silent for too long."""


class TokenCreated(Change, frozen=True, tag="token-created"):
    """A token was created."""

    token: Token


class TokenRevoked(Change, frozen=True, tag="token-revoked"):
    """A token was revoked."""

    token_id: str
    name: str


class SessionBegun(Change, frozen=True, tag="session-begun"):
    """Somebody has signed in at the console with a token; `name` is that of the token."""

    session: Session
    name: str


class SessionEnded(Change, frozen=True, tag="session-ended"):
    """A session of a token is over; `name` is that of the token. Without a reason its user has signed out.

    With its token it ends without a record of its own.
    """

    digest: str
    name: str
    reason: str = ""


class RequestAnswered(Change, frozen=True, tag="request-answered"):
    """What a request with a key was answered, in one commit with what it changed: both are durable, or neither (S6).

    `answer` is only for the door that wrote it. It is kept until `until_steady`; of older journals, which do not have
    that, until the time of day `until`.
    """

    key: str
    fingerprint: str
    until: datetime
    answer: bytes
    until_steady: int = 0


class IncarnationsLifted(Change, frozen=True, tag="incarnations-lifted"):
    """Every incarnation, also of scopes that never had an event, went ahead by this much (S3)."""

    by: int

    @property
    def touches_everything(self) -> bool:
        return True


class ClockMarked(Change, frozen=True, tag="clock-marked"):
    """Where the clock was, so that the next process can go on from there."""

    mark: Mark


Transition = (
    FleetDeclared
    | HostsPut
    | HostsRemoved
    | HealthReported
    | GroupsPut
    | GroupsRemoved
    | VmsPut
    | VmsRemoved
    | EventsPolicySet
    | EventRaised
    | EventMoved
    | EventNarrowed
    | EventApproved
    | EventPostponed
    | EventStarted
    | EventCompleted
    | EventCancelled
    | EventFailed
    | FailureAcknowledged
    | ImpactFailed
    | ImpactClaimed
    | ImpactAccepted
    | MaintenanceStarted
    | MaintenanceChanged
    | MaintenanceRetried
    | WindowClosed
    | StepBegun
    | StepEnded
    | OperationPerformed
    | ScopeEnabled
    | ScopeDisabled
    | TokenCreated
    | TokenRevoked
    | SessionBegun
    | SessionEnded
    | SubscriptionCreated
    | SubscriptionTurned
    | SubscriptionDeleted
    | SubscriptionReplayed
    | PushesClaimed
    | PushNoted
    | PushSetAside
    | RequestAnswered
    | IncarnationsLifted
    | ClockMarked
)


class Record(Struct, frozen=True, gc=False):
    """A transition at its position in the journal: when it was decided, by both faces of time, and who asked.

    Old records do not say the steady time; then it is 0, and only the time of day counts.
    """

    position: int
    at: datetime
    actor: str
    transition: Transition
    steady: int = 0

    @property
    def when(self) -> Instant:
        return Instant(self.at, self.steady)
