"""What has happened: the recorded changes that the state is a fold of, and what each of them touches.

They are stored for ever: a field may be added with a default (and a new format in `store/codec.py`, so that an
older duenotice does not drop it), never renamed or given another meaning.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct

from duenotice.clock import Instant, Mark
from duenotice.domain.event import Event
from duenotice.domain.fleet import (
    ALONE,
    EventsPolicy,
    Group,
    HealthReport,
    Host,
    LastApplied,
    Site,
    Vm,
    scope_of,
)
from duenotice.domain.plan import Maintenance, Status, StepStatus
from duenotice.domain.subscription import DeadLetter, Subscription, SubscriptionStatus
from duenotice.domain.token import Session, Token
from duenotice.domain.window import Window


class Change(Struct, frozen=True, omit_defaults=True, tag_field="change", gc=False):
    """One recorded change. `TOUCHES` says what has to be derived again from the state after it."""


class SubscriptionCreated(Change, frozen=True, tag="subscription-created"):
    """A receiver is to be told of events."""

    subscription: Subscription


class SubscriptionTurned(Change, frozen=True, tag="subscription-turned"):
    """Messages are delivered from now on, or not any more."""

    subscription_id: str
    status: SubscriptionStatus
    reason: str = ""


class SubscriptionDeleted(Change, frozen=True, tag="subscription-deleted"):
    """A receiver is told nothing any more."""

    subscription_id: str


class SubscriptionReplayed(Change, frozen=True, tag="subscription-replayed"):
    """The dead letters at these positions are delivered again."""

    subscription_id: str
    positions: tuple[int, ...]


class PushesClaimed(Change, frozen=True, tag="pushes-claimed"):
    """Another process delivers from now on (N12)."""

    claim: str


class PushNoted(Change, frozen=True, tag="push-noted"):
    """How far the deliveries of a subscription are."""

    subscription_id: str
    position: int
    pending: tuple[int, ...] = ()
    trouble: str = ""


class PushDeadLettered(Change, frozen=True, tag="push-dead-lettered"):
    """Messages were given up."""

    subscription_id: str
    dead_letters: tuple[DeadLetter, ...]


class _OfEvent(Change, frozen=True):
    """A change that carries the event as it is now."""

    event: Event


class _AboutEvent(Change, frozen=True):
    """A change that names its event."""

    event_id: str
    scope: str


class _OfScope(Change, frozen=True):
    """A change of one scope."""

    scope: str


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


class VmsPut(Change, frozen=True, tag="vms-put"):
    """VMs were added, changed or moved to another host."""

    vms: tuple[Vm, ...]


class VmsRemoved(Change, frozen=True, tag="vms-removed"):
    """VMs left the fleet; `by_file`: because a fleet says so as a whole, or a fleet file says so from now on."""

    names: tuple[str, ...]
    by_file: bool = False


class EventsPolicySet(Change, frozen=True, tag="events-policy-set"):
    """What an owner says about events beforehand; `of` is the key of a VM (`vm/db-0`) or of a group."""

    of: str
    policy: EventsPolicy


class EventRaised(_OfEvent, frozen=True, tag="event-raised"):
    """A new event: Scheduled, or at once Started when it has already happened (D04) or its owner wants it so (M09)."""


class EventMoved(_OfEvent, frozen=True, tag="event-moved"):
    """The VMs hit have come to another scope, and the event with them; `event` is the event as it is now."""

    from_scope: str


class EventNarrowed(_OfEvent, frozen=True, tag="event-narrowed"):
    """Some of the VMs that a started event hits have left its update domain, and with it the event, for good (S10).

    `event` is the event as it is now.
    """


class EventApproved(_AboutEvent, frozen=True, tag="event-approved"):
    """A VM of its scope or an operator has approved the event; it may start before its notice is over (C05)."""

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
    """The driver of this node makes this attempt, and nobody else does (N12).

    Nor does a process of the same name with another `directory`: it does not have the notes of what was begun.
    """

    attempt: int
    node: str
    directory: str = ""


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

    `answer` is only for the door that wrote it. It is kept until both faces of time say so.
    """

    key: str
    request_digest: str
    until: datetime
    answer: bytes
    until_steady: int


class IncarnationsLifted(Change, frozen=True, tag="incarnations-lifted"):
    """Every incarnation, also of scopes that never had an event, went ahead by this much (S3)."""

    by: int


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
    | PushDeadLettered
    | RequestAnswered
    | IncarnationsLifted
    | ClockMarked
)


QUIET = (ClockMarked, RequestAnswered, PushNoted, PushesClaimed)
"""About the service itself: neither logged nor in the feed; the audit trail shows them when they are asked for."""


class Record(Struct, frozen=True, gc=False):
    """A transition at its position in the journal: when it was decided, by both faces of time, and who asked."""

    position: int
    at: datetime
    actor: str
    transition: Transition
    steady: int = 0

    @property
    def when(self) -> Instant:
        return Instant(self.at, self.steady)


class Touch(NamedTuple):
    """What a record touches that VMs read: only that has to be derived again. None stands for nothing."""

    scopes: Callable[[Any], Iterable[str]] | None = None
    """Scopes in which it changes the events, or whether they listen."""
    vms: Callable[[Any], Iterable[str]] | None = None
    """Names of VMs that it adds, changes or removes."""
    groups: Callable[[Any], Iterable[str]] | None = None
    """Keys of groups whose scopes may have gone with it."""
    everything: bool = False


_OWN_SCOPE = Touch(lambda change: (change.scope,))
_SCOPE_OF_EVENT = Touch(lambda change: (change.event.scope,))


def _vm_of_policy(change: EventsPolicySet) -> tuple[str, ...]:
    return (change.of.removeprefix(ALONE),) if change.of.startswith(ALONE) else ()


TOUCHES: dict[type[Change], Touch] = {
    # record            what it touches; a record that is not here touches nothing that VMs read
    EventRaised: _SCOPE_OF_EVENT,
    EventNarrowed: _SCOPE_OF_EVENT,
    EventPostponed: _SCOPE_OF_EVENT,
    EventStarted: _SCOPE_OF_EVENT,
    EventMoved: Touch(lambda change: (change.event.scope, change.from_scope)),
    EventApproved: _OWN_SCOPE,
    EventCompleted: _OWN_SCOPE,
    EventCancelled: _OWN_SCOPE,
    EventFailed: _OWN_SCOPE,
    FailureAcknowledged: _OWN_SCOPE,
    ImpactFailed: _OWN_SCOPE,
    ImpactClaimed: _OWN_SCOPE,
    ImpactAccepted: _OWN_SCOPE,
    ScopeEnabled: _OWN_SCOPE,
    ScopeDisabled: _OWN_SCOPE,
    # Its scopes too: a VM may be gone when somebody looks, and its coming may have raised what others read (S3, S4).
    VmsPut: Touch(lambda change: map(scope_of, change.vms), lambda change: [vm.name for vm in change.vms]),
    VmsRemoved: Touch(vms=lambda change: change.names),
    EventsPolicySet: Touch(vms=_vm_of_policy),
    GroupsRemoved: Touch(groups=lambda change: change.keys),
    IncarnationsLifted: Touch(everything=True),
}


def vms_touched_by(change: Change) -> Iterable[str]:
    """Names of the VMs that a record adds, changes or removes."""
    touch = TOUCHES.get(type(change))
    return () if touch is None or touch.vms is None else touch.vms(change)
