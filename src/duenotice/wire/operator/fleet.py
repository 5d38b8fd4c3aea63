"""The fleet in the operator's contract: VMs, groups, hosts, how many are in which state, and faults."""

from typing import Annotated

from msgspec import Meta, field

from duenotice.domain.fleet import LARGEST_SCALE_SET
from duenotice.wire.operator.events import Event, Raised
from duenotice.wire.operator.words import (
    AnswerBody,
    ApiVersionName,
    ConditionName,
    Count,
    CountToGive,
    KindName,
    Moment,
    RequestBody,
    Risk,
    Span,
    StateName,
    TypeName,
    described,
)


class EventsPolicy(AnswerBody, frozen=True, omit_defaults=True):
    """What an owner says about events; the first three approve some beforehand. What is not said is left out."""

    user_initiated_reboot: bool | None = None
    user_initiated_redeploy: bool | None = None
    all_instances_down: bool | None = None
    event_grid_and_resource_graph: bool | None = None
    scheduled_events_api_version: str | None = None


class VmFailure(AnswerBody, frozen=True):
    """What has failed on a VM, so that it needs a person: an event, maybe of a maintenance, when and why."""

    event_id: str
    type: TypeName
    failed_at: Moment
    reason: str
    maintenance: str | None


class Vm(AnswerBody, frozen=True):
    """A VM; `listens` says whether any VM of its scope asks for the document, `state` is its state.

    `policy` is what it says itself about events; in an availability set or a scale set the group's counts. `failure` is
    null unless its state is `failed`.
    """

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
    policy: EventsPolicy | None
    failure: VmFailure | None


class VmWithEvents(Vm, frozen=True):
    """A VM, when it last asked since this start, and the events that hit it."""

    last_seen: Moment | None
    events: tuple[Event, ...]


class Group(AnswerBody, frozen=True):
    """A set, scale set or cloud service; `terminate_notice` in seconds, null when off; `vms` is how many it has.

    `os_image_notice` says whether instances are told before their OS image is replaced.
    """

    key: str
    kind: KindName
    name: str
    update_domains: Count
    fault_domains: Count
    terminate_notice: int | None
    vms: Count
    policy: EventsPolicy | None
    os_image_notice: bool = False


class Scaled(Raised, frozen=True, kw_only=True):
    """Also the instances that were added, and those that were removed without an event."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


class HealthReport(AnswerBody, frozen=True):
    """What a VM says of a host, since when, and when it said so; `category` is one of Azure's, `more` what it added."""

    name: str
    vm: str
    host: str
    category: str
    description: str
    began_at: Moment
    reported_at: Moment
    more: dict[str, str]


class Host(AnswerBody, frozen=True):
    """A physical machine; `vms` is how many run there, and `listening` how many of them would be told.

    `away` is how many were moved away from it while it was drained, and are not back yet. `reported` are the categories
    of the open reports of VMs about it; `reports` are the newest of these, where one host is asked for.
    """

    name: str
    condition: ConditionName
    vms: Count
    listening: Count = 0
    away: Count = 0
    reported: tuple[str, ...] = ()
    reports: tuple[HealthReport, ...] = ()


class Site(AnswerBody, frozen=True):
    """What all VMs have in common."""

    location: str
    resource_group: str
    subscription_id: str


class Fleet(AnswerBody, frozen=True):
    """How much there is of everything, and which fleet file was applied last."""

    vms: Count
    groups: Count
    hosts: Count
    events: Count
    digest: str
    position: Annotated[Count, Meta(description="How far the journal has come")]
    site: Site
    problem: Annotated[str | None, Meta(description="Why the fleet file was not applied, if it was not")]


class FleetChange(AnswerBody, frozen=True):
    """The VMs that were added, removed and changed, and the number of changes in all."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    changes: Count
    dry_run: bool


class Counted(AnswerBody, frozen=True):
    """How many VMs there are, how many of them in which state, and how many would be told before an impact."""

    vms: Count
    counts: dict[str, int]
    listening: Count


class Column(Counted, frozen=True):
    """The VMs of a group in one update domain, or in one zone for VMs without a group."""

    update_domain: int | None
    zone: str | None


class GroupStates(AnswerBody, frozen=True):
    """The VMs of a group, its key is null for VMs without a group."""

    key: str | None
    vms: Count
    counts: dict[str, int]
    listening: Count
    columns: tuple[Column, ...]


class States(Counted, frozen=True):
    """The whole fleet in numbers, its most urgent groups first; `left_out` is how many more groups there are."""

    groups: tuple[GroupStates, ...]
    left_out: Count


class Fault(AnswerBody, frozen=True):
    """How a VM is answered, and until when."""

    vm: str
    answer: str
    until: Moment


class Jumped(AnswerBody, frozen=True):
    """A VM, and the incarnation that its document has jumped to."""

    vm: str
    incarnation: int


class ScaleRequest(RequestBody, frozen=True):
    """The body that gives a scale set another capacity: how many instances, or how many more or less."""

    capacity: Annotated[int, described(minimum=0, maximum=LARGEST_SCALE_SET)] | None = None
    by: int | None = None


class PolicyRequest(RequestBody, frozen=True):
    """The body that says what an owner wants; what is left out or null is as usual."""

    user_initiated_reboot: bool | None = None
    user_initiated_redeploy: bool | None = None
    all_instances_down: bool | None = None
    event_grid_and_resource_graph: bool | None = None
    scheduled_events_api_version: ApiVersionName | None = None


class DeleteRequest(RequestBody, frozen=True):
    """The body that names instances to delete."""

    instances: Annotated[tuple[str, ...], described(minItems=1, uniqueItems=True)]


class DegradeRequest(RequestBody, frozen=True):
    """The body of a prediction: a risk, or the notice itself."""

    risk: Risk | None = None
    notice: Span | None = None


class DrainRequest(RequestBody, frozen=True):
    """The body of a request to empty a host; with `stop` its VMs are shut down until it returns, and not moved."""

    settle: Span = "0s"
    at_once: CountToGive = 0
    stop: bool = False


class ReturnRequest(RequestBody, frozen=True):
    """The body of a request to bring VMs back to a host; with `redeploy` not by live migration."""

    settle: Span = "0s"
    at_once: CountToGive = 0
    redeploy: bool = False


class FaultRequest(RequestBody, frozen=True):
    """The body of a request for a fault."""

    answer: str
    lasts: str = field(name="for")
