"""Maintenances in the operator's contract: plans, their steps, and when the steps would begin."""

from typing import Annotated

from duenotice.domain.event import By, Cause, Consent
from duenotice.wire.operator.events import Description, MomentToGive
from duenotice.wire.operator.words import (
    AnswerBody,
    CauseName,
    CauseToGive,
    ConsentName,
    Count,
    CountToGive,
    MaintenanceStatus,
    Moment,
    OrderName,
    RequestBody,
    Seconds,
    Selector,
    Span,
    StepStatusName,
    TypeName,
    WindowText,
    described,
)


class Step(AnswerBody, frozen=True):
    """VMs of one update domain that are hit together; of one group only one domain goes at a time.

    A domain is an update domain, or a fault domain where the maintenance goes by those.
    """

    group: str
    domain: int
    scope: str
    host: str | None
    resources: tuple[str, ...]
    status: StepStatusName
    event_id: str | None
    reason: str


class PlannedStep(Step, frozen=True):
    """A step with the times it would have if nobody approved anything; `silent` when nobody listens there."""

    scheduled_at: Moment
    not_before: Moment
    starts_at: Moment
    ends_at: Moment
    silent: bool = False


class Timeline(AnswerBody, frozen=True):
    """What a maintenance would do; `left_out` counts the steps that find no place in its window.

    The timeline has a page of the steps: `next` is the `cursor` of the page that follows, null on the last. The numbers
    are of all pages: `silent` is how many of the VMs nobody would warn, and `ends_at` when all would be over.
    """

    timeline: tuple[PlannedStep, ...]
    left_out: Count
    steps: Count
    vms: Count
    silent: Count
    ends_at: Moment | None
    next: str | None


class Maintenance(AnswerBody, frozen=True):
    """A plan; `progress` counts its steps by status, and `vms` their VMs. A call of their own has the steps.

    `groups` names the first of `groups_in_all`. The steps of a large plan that is over are not kept for ever: then
    `steps_kept` is false. `window` is as it was asked for, with the span of it that is on or comes next. With
    `waits_until` no step hits before that moment. Old plans do not know who has asked for them, and when. With the
    `consent` of hosts, `awaited` names the first scopes, of `awaited_in_all`, that others of their host wait for.
    """

    id: str
    type: TypeName
    cause: CauseName
    status: MaintenanceStatus
    reason: str
    description: str | None
    settle: Seconds
    at_once: Count
    failures_allowed: Count
    progress: dict[str, int]
    vms: dict[str, int]
    groups: tuple[str, ...]
    groups_in_all: Count
    steps_kept: bool = True
    title: str = ""
    author: str = ""
    asked_at: Moment | None = None
    over_at: Moment | None = None
    window: str = ""
    window_begins: Moment | None = None
    window_ends: Moment | None = None
    waits_until: Moment | None = None
    consent: ConsentName = Consent.SCOPE.value
    awaited: tuple[str, ...] = ()
    awaited_in_all: Count = 0
    by: OrderName = By.UPDATE_DOMAIN.value


class MaintenanceRequest(RequestBody, frozen=True):
    """The body of a request for a maintenance; `on` names what: `set=web`, `vm=db-0`, `zone=1`, `tag=role=db`.

    Steps hit only after the planned `start` and inside the `window`; VMs are told before it. With the `consent` of a
    `host` no VM of a host is hit before all scopes on it have approved, or run out of notice.
    """

    on: Annotated[tuple[Selector, ...], described(minItems=1)]
    type: TypeName
    settle: Span = "0s"
    at_once: CountToGive = 0
    failures_allowed: CountToGive = 0
    description: Description | None = None
    cause: CauseToGive = Cause.MAINTENANCE.value
    title: Description = ""
    start: MomentToGive | None = None
    window: WindowText = ""
    consent: ConsentName = Consent.SCOPE.value
    by: OrderName = By.UPDATE_DOMAIN.value


class TurnRequest(RequestBody, frozen=True):
    """The body of a request to go on with a maintenance; a new start or window replaces what it had."""

    start: MomentToGive | None = None
    window: WindowText = ""
