"""Tables for people: VMs and events as rows, and what needs a person."""

from typing import Annotated

from msgspec import Meta

from duenotice.wire.operator.events import Event, Life
from duenotice.wire.operator.fleet import Vm
from duenotice.wire.operator.words import (
    AnswerBody,
    CauseName,
    Count,
    HitKind,
    MaintenanceStatus,
    Moment,
    RequestBody,
    TypeName,
)


class EventQuery(RequestBody, frozen=True):
    """Which events a table has: `OPEN_STATES`, unless `state` says otherwise; `by` is one of `EVENT_PILES`."""

    state: str = ""
    type: str = ""
    cause: str = ""
    group: str = ""
    host: str = ""
    maintenance: str = ""
    vm: str = ""
    q: str = ""
    by: str = ""


class EventRow(Life, frozen=True):
    """An event with what it belongs to; `host` is the one that is the reason, else that of its first VM."""

    group: str | None
    host: str | None


class EventTable(AnswerBody, frozen=True):
    """Some rows of all that match; `counts` has every state, whatever states were asked for."""

    now: Moment
    total: Count
    counts: dict[str, int]
    items: tuple[EventRow, ...]


class VmQuery(RequestBody, frozen=True):
    """Which VMs a table has; `sort` is one of `VM_SORTS`, with a `-` before it the other way round."""

    group: str = ""
    host: str = ""
    state: str = ""
    listens: str = ""
    q: str = ""
    sort: str = ""


class VmRow(Vm, frozen=True):
    """A VM, when it last asked since this start, and the most urgent event that hits it."""

    last_seen: Moment | None
    next_event: Event | None


class VmTable(AnswerBody, frozen=True):
    """Some rows of all VMs that match."""

    total: Count
    items: tuple[VmRow, ...]


class Hit(AnswerBody, frozen=True):
    """Something that a search has found: its kind, what names it, and a few words about it.

    `exact` says that the text is its whole name, key, address or id.
    """

    kind: HitKind
    name: str
    about: str
    exact: bool


class Hits(AnswerBody, frozen=True):
    """The best hits, the best first; `more` says that there are others."""

    items: tuple[Hit, ...]
    more: bool


class StepGlance(AnswerBody, frozen=True):
    """A step in short; `at` is when it hits or hit its VMs, or for one that is to come when they are told."""

    group: str
    domain: int
    vms: Count
    at: Moment | None


class PlanGlance(AnswerBody, frozen=True):
    """A plan that is not over, or has failed and nobody has dealt with that: how far it is, what is next, when it ends.

    `groups` are the first of its sets. `next` and `ends_at` are as if nobody approved anything; null when not known.
    """

    id: str
    type: TypeName
    cause: CauseName
    status: MaintenanceStatus
    reason: str
    description: str | None
    groups: tuple[str, ...]
    progress: dict[str, int]
    steps: Count
    under_way: tuple[StepGlance, ...]
    next: StepGlance | None
    ends_at: Moment | None
    title: str = ""


class FailedEvent(AnswerBody, frozen=True):
    """An event that failed, with which nobody has dealt; `resources` are the first of its VMs that it matters for."""

    id: str
    type: TypeName
    resources: tuple[str, ...]
    vms: Count
    ended_at: Moment
    reason: str
    maintenance: str | None


class Attention(AnswerBody, frozen=True):
    """What needs a person: `needed` is how many things, and each list has only the first of its kind."""

    needed: Annotated[Count, Meta(description="Failed and paused plans, failed events, hosts; 1 if any VM is silent")]
    plans: tuple[PlanGlance, ...]
    plans_in_all: Count
    failed_events: Count
    failures: tuple[FailedEvent, ...]
    hosts: Annotated[dict[str, int], Meta(description="Hosts by condition")]
    ill_hosts: Annotated[tuple[str, ...], Meta(description="The first that are not healthy")]
    vms: Count
    silent: Annotated[Count, Meta(description="VMs that would be hit without notice: nobody of their scope listens")]
