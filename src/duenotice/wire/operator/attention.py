"""What needs a person, in the operator's contract: what failed or stands still, and how far each plan is."""

from typing import Annotated

from msgspec import Meta

from duenotice.wire.operator.words import (
    AnswerBody,
    CauseName,
    Count,
    MaintenanceStatus,
    Moment,
    TypeName,
)


class StepGlance(AnswerBody, frozen=True):
    """A step in short; `at` is when it hits or hit its VMs, or for one that is to come when they are told."""

    lane: str
    turn: int
    vms: Count
    at: Moment | None


class PlanGlance(AnswerBody, frozen=True):
    """A plan that is not over, or has failed and nobody has dealt with that: how far it is, what is next, when it ends.

    `lanes` are the first of its sets. `next` and `ends_at` are as if nobody approved anything; null when not known.
    """

    id: str
    type: TypeName
    cause: CauseName
    status: MaintenanceStatus
    reason: str
    description: str | None
    lanes: tuple[str, ...]
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
