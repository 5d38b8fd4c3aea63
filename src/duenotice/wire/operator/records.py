"""What has happened, for people: records of the audit trail and the feed, and the lives of events."""

from datetime import datetime

from msgspec import Struct

from duenotice.wire.operator.events import Event
from duenotice.wire.operator.fleet import EventsPolicy, HealthReport
from duenotice.wire.operator.maintenances import Maintenance
from duenotice.wire.operator.service import Token
from duenotice.wire.operator.subscriptions import DeadLetter, Subscription
from duenotice.wire.operator.words import Action, AnswerBody, ConditionName, Count, KindName, Moment, Seconds, TypeName


class Declared(AnswerBody, frozen=True, omit_defaults=True):
    """A part of the fleet as the journal has it: what is as usual is left out."""


class DeclaredSite(Declared, frozen=True):
    """What all VMs have in common."""

    location: str | None = None
    resource_group: str | None = None
    subscription_id: str | None = None


class DeclaredHost(Declared, frozen=True):
    """A host that was added or changed."""

    name: str
    condition: ConditionName | None = None


class DeclaredGroup(Declared, frozen=True):
    """A group that was added or changed."""

    kind: KindName
    name: str
    update_domains: int | None = None
    fault_domains: int | None = None
    terminate_notice: int | None = None
    addresses: str | None = None
    spot: bool | None = None
    zone: str | None = None
    events_policy: EventsPolicy | None = None
    os_image_notice: bool | None = None


class ClockMark(Struct, frozen=True, gc=False, array_like=True):
    """Where the clock stood, as a list; `steady` and `since_boot` in seconds."""

    at: datetime
    steady: float
    boot_id: str
    since_boot: float
    given: float
    speed: float


class Details(AnswerBody, frozen=True, omit_defaults=True):
    """What a record says about its action; which of these are there depends on the action."""

    event: Event | None = None
    from_scope: str | None = None
    digest: str | None = None
    site: DeclaredSite | None = None
    hosts: tuple[DeclaredHost, ...] | None = None
    groups: tuple[DeclaredGroup, ...] | None = None
    keys: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    scope: str | None = None
    by: str | int | None = None
    attempt: int | None = None
    node: str | None = None
    vm: str | None = None
    operation: str | None = None
    maintenance: Maintenance | None = None
    maintenance_id: str | None = None
    step: int | None = None
    steps: tuple[int, ...] | None = None
    span: int | None = None
    window: str | None = None
    status: str | int | None = None
    ended: float | None = None
    what: str | None = None
    took: float | None = None
    reason: str | None = None
    note: str | None = None
    location: str | None = None
    token: Token | None = None
    token_id: str | None = None
    name: str | None = None
    session: str | None = None
    mark: ClockMark | None = None
    of: str | None = None
    policy: EventsPolicy | None = None
    subscription: Subscription | None = None
    subscription_id: str | None = None
    position: int | None = None
    positions: tuple[int, ...] | None = None
    pending: tuple[int, ...] | None = None
    trouble: str | None = None
    dead_letters: tuple[DeadLetter, ...] | None = None
    claim: str | None = None
    report: HealthReport | None = None


class Record(AnswerBody, frozen=True):
    """One change in the journal: who did what when."""

    position: Count
    at: Moment
    actor: str
    action: Action
    event_id: str | None
    details: Details


class PastDay(AnswerBody, frozen=True):
    """One day in UTC, by when its events were told; spans are medians in seconds, null where there are none.

    `whole` events were given all of the notice that was promised, `cut` ones less, because somebody approved, and
    `silent` ones none, because nobody listened.
    """

    day: str
    types: dict[str, int]
    outcomes: dict[str, int]
    promised: Seconds | None
    given: Seconds | None
    to_approval: Seconds | None
    impact: Seconds | None
    impact_in_all: Seconds
    whole: Count
    cut: Count
    silent: Count


class PastLife(AnswerBody, frozen=True):
    """One event; `promised` and `given` are seconds of notice, `impact` is how long it lasted."""

    id: str
    type: TypeName
    scope: str
    resources: tuple[str, ...]
    raised_at: Moment | None
    approved_at: Moment | None
    approved_by: str
    started_at: Moment | None
    ended_at: Moment | None
    outcome: str
    promised: Seconds | None
    given: Seconds | None
    to_approval: Seconds | None
    impact: Seconds | None


class History(AnswerBody, frozen=True):
    """Days from the first that was asked for on, and their events, oldest first.

    `complete_since` is null when the whole past is known; `left_out` are older events that are only in the numbers.
    """

    days: tuple[PastDay, ...]
    events: tuple[PastLife, ...]
    left_out: Count
    complete_since: Moment | None
