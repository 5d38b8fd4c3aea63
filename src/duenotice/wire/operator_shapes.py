"""The answers of the operator's API as types: mypy checks the answers, and the description is made from the types."""

from typing import Annotated, Any, Generic, NotRequired, TypedDict, TypeVar

from msgspec import Meta

from duenotice.domain.event import Cause, Phase
from duenotice.domain.fleet import Condition, GroupKind
from duenotice.domain.maintenance import Status, StepStatus
from duenotice.domain.token import Role
from duenotice.errors import Listing
from duenotice.wire.document_json import SOURCE_NAMES, TYPE_NAMES

T = TypeVar("T")

STATES = ("started", "approved", "scheduled", "degraded", "fine")
"""The states of a VM, most urgent first: from its events, else from its host."""


def _one_of(values: Any) -> Meta:
    """A text that is one of these: described, not enforced, because errors of the parsers can give a hint."""
    return Meta(extra_json_schema={"enum": list(values)})


def _values(kind: Any) -> Meta:
    return _one_of(member.value for member in kind)


Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"}, description="RFC 3339, in UTC")]
Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
TypeName = Annotated[str, _one_of(TYPE_NAMES.values())]
CauseName = Annotated[str, _values(Cause)]


class Problem(TypedDict):
    """Why a request was refused, as in RFC 9457."""

    type: str
    status: int
    title: Annotated[str, Meta(description="What happened")]
    hint: Annotated[str, Meta(description="What to do")]
    look_at: NotRequired[Annotated[str, _values(Listing), Meta(description="The list that helps")]]


class Page(TypedDict, Generic[T]):
    """Some of many things; `next` is the `cursor` of the page that follows, null on the last."""

    items: list[T]
    next: str | None


class Event(TypedDict):
    """A live event; `duration` in seconds, -1 when unknown."""

    id: str
    type: TypeName
    phase: Annotated[str, _values(Phase)]
    scope: str
    resources: list[str]
    update_domain: int | None
    cause: CauseName
    source: Annotated[str, _one_of(SOURCE_NAMES.values())]
    description: str
    duration: int
    not_before: Moment
    approved_by: str | None
    started_at: Moment | None
    ends_at: Moment | None


class Raised(TypedDict):
    """The events that were raised; none when nobody listens."""

    events: list[Event]


class Scaled(Raised):
    """Also the instances that were added, and those that were removed without an event."""

    added: list[str]
    removed: list[str]


StateName = Annotated[str, _one_of(STATES)]


class Vm(TypedDict):
    """A VM; `listens` says whether any VM of its scope asks for the document, `state` is its state."""

    name: str
    state: StateName
    address: str
    scope: str
    listens: bool
    group: str | None
    placement_group: int | None
    update_domain: int | None
    fault_domain: int | None
    zone: str | None
    host: str | None
    spot: bool
    size: str
    os: str
    tags: dict[str, str]


class VmWithEvents(Vm):
    """A VM, when it last asked since this start, and the events that hit it."""

    last_seen: Moment | None
    events: list[Event]


class Group(TypedDict):
    """A set, scale set or cloud service; `terminate_notice` in seconds, null when off; `vms` is how many it has."""

    key: str
    kind: Annotated[str, _values(GroupKind)]
    name: str
    update_domains: Count
    fault_domains: Count
    terminate_notice: int | None
    vms: Count


class Host(TypedDict):
    """A physical machine; `vms` is how many run there."""

    name: str
    condition: Annotated[str, _values(Condition)]
    vms: Count


class Site(TypedDict):
    """What all VMs have in common."""

    location: str
    resource_group: str
    subscription_id: str


class Fleet(TypedDict):
    """How much there is of everything, and which fleet file was applied last."""

    vms: Count
    groups: Count
    hosts: Count
    events: Count
    digest: str
    position: Annotated[Count, Meta(description="How far the journal has come")]
    site: Site
    problem: Annotated[str | None, Meta(description="Why the fleet file was not applied, if it was not")]


class FleetChange(TypedDict):
    """The VMs that were added, removed and changed, and the number of changes in all."""

    added: list[str]
    removed: list[str]
    changed: list[str]
    changes: Count
    dry_run: bool


class Step(TypedDict):
    """VMs of one update domain that are hit together; of one lane only one turn goes at a time."""

    lane: str
    turn: int
    scope: str
    host: str | None
    resources: list[str]
    status: Annotated[str, _values(StepStatus)]
    event_id: str | None
    reason: str


class PlannedStep(Step):
    """A step with the times it would have if nobody approved anything."""

    scheduled_at: Moment
    not_before: Moment
    starts_at: Moment
    ends_at: Moment


class Timeline(TypedDict):
    """What a maintenance would do."""

    timeline: list[PlannedStep]


class Maintenance(TypedDict):
    """A plan with its steps; `progress` counts them by status."""

    id: str
    type: TypeName
    cause: CauseName
    status: Annotated[str, _values(Status)]
    reason: str
    description: str | None
    settle: Seconds
    at_once: Count
    failures_allowed: Count
    progress: dict[str, int]
    steps: list[Step]


class Life(Event):
    """An event with its moments, also when it is over; `outcome` is null while it lives."""

    raised_at: Moment | None
    approved_at: Moment | None
    ended_at: Moment | None
    outcome: Annotated[str, _one_of(("completed", "cancelled", "failed"))] | None
    reason: str


class Lives(TypedDict):
    """Events of a span of time; `left_out` is how many more there were."""

    now: Moment
    items: list[Life]
    left_out: Count


class Fault(TypedDict):
    """How a VM is answered, and until when."""

    vm: str
    answer: str
    until: Moment


class Jumped(TypedDict):
    """A VM, and the incarnation that its document has jumped to."""

    vm: str
    incarnation: int


class Counted(TypedDict):
    """How many VMs there are, and how many of them in which state."""

    vms: Count
    counts: dict[str, int]


class Column(Counted):
    """The VMs of a group in one update domain, or in one zone for VMs without a group."""

    update_domain: int | None
    zone: str | None


class GroupStates(Counted):
    """The VMs of a group, its key is null for VMs without a group."""

    key: str | None
    columns: list[Column]


class States(Counted):
    """The whole fleet in numbers, its most urgent groups first; `left_out` is how many more groups there are."""

    groups: list[GroupStates]
    left_out: Count


class Clock(TypedDict):
    """The service's clock; `speed` is 0 for a manual clock."""

    clock: str
    now: Moment
    speed: Seconds


class Token(TypedDict):
    """A token without its secret."""

    id: str
    name: str
    role: Annotated[str, _values(Role)]
    created_at: Moment


class NewToken(Token):
    """A token with its secret, which is shown only once."""

    token: str


class Record(TypedDict):
    """One change in the journal: who did what when."""

    position: Count
    at: Moment
    actor: str
    action: str
    event_id: str | None
    details: dict[str, Any]


class Health(TypedDict):
    """The answer that all is well."""

    status: str


class Version(TypedDict):
    """Which duenotice this is."""

    version: str


class ScheduledEvent(TypedDict):
    """An event as a VM reads it; which keys there are depends on the api-version."""

    EventId: str
    EventStatus: Annotated[str, _one_of(("Scheduled", "Started"))]
    EventType: TypeName
    ResourceType: str
    Resources: list[str]
    NotBefore: str
    Description: NotRequired[str]
    EventSource: NotRequired[str]
    DurationInSeconds: NotRequired[int]


class Document(TypedDict):
    """The document as a VM reads it."""

    DocumentIncarnation: Count
    Events: list[ScheduledEvent]
