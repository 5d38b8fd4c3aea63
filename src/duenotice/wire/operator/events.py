"""Events in the operator's contract: what is answered about them, and the bodies of requests."""

from datetime import datetime
from typing import Annotated

from msgspec import UNSET, UnsetType

from duenotice.domain.event import LONGEST_DESCRIPTION, LONGEST_DURATION, LONGEST_NOTE, Cause
from duenotice.wire.operator.words import (
    AnswerBody,
    CauseName,
    CauseToGive,
    ConsentName,
    Count,
    EventState,
    Moment,
    Outcome,
    PhaseName,
    RequestBody,
    ShownStatus,
    SourceName,
    TypeName,
    described,
)

_MOMENT = r"^20[0-9]{2}-(0[1-9]|1[0-2])-([01][1-9]|2[0-8])T([01][0-9]|2[0-3])(:[0-5][0-9]){2}(Z|[+-]0[0-9]:00)$"
"""The usual form of an RFC 3339 time; other forms are read as well."""

MomentToGive = Annotated[datetime, described(pattern=_MOMENT, examples=["2030-01-15T10:00:00Z"])]
"""A moment in a request."""

Description = Annotated[str, described(maxLength=LONGEST_DESCRIPTION)]
"""The words about an event that an operator may give."""


class Event(AnswerBody, frozen=True):
    """A live event; `duration` in seconds, -1 when unknown.

    With the `consent` of its host it waits until all scopes there have approved, or run out of notice: an answer about
    one event names the first that are `awaited`, of `awaited_in_all`.
    """

    id: str
    type: TypeName
    phase: PhaseName
    scope: str
    resources: tuple[str, ...]
    update_domain: int | None
    cause: CauseName
    source: SourceName
    description: str
    duration: int
    not_before: Moment
    approved_by: str | None
    started_at: Moment | None
    ends_at: Moment | None
    consent: ConsentName
    awaited: tuple[str, ...]
    awaited_in_all: Count


class Raised(AnswerBody, frozen=True, omit_defaults=True):
    """The events that were raised; none when nobody listens. `left_out` is how many more there are."""

    events: tuple[Event, ...]
    left_out: Count = 0


class Life(Event, frozen=True):
    """An event with its moments, also when it is over; `outcome` is null while it lives.

    The `state` of one that has failed is `failed` until somebody has dealt with it, and then `resolved`.
    """

    raised_at: Moment | None
    approved_at: Moment | None
    ended_at: Moment | None
    outcome: Outcome | None
    reason: str
    state: EventState
    maintenance: str | None


class Lives(AnswerBody, frozen=True):
    """Events of a span of time; `left_out` is how many more there were."""

    now: Moment
    items: tuple[Life, ...]
    left_out: Count


class ScheduledEvent(AnswerBody, frozen=True, rename="pascal"):
    """An event as a VM reads it; which keys there are depends on the api-version."""

    event_id: str
    event_status: ShownStatus
    event_type: TypeName
    resource_type: str
    resources: tuple[str, ...]
    not_before: str
    description: str | UnsetType = UNSET
    event_source: str | UnsetType = UNSET
    duration_in_seconds: int | UnsetType = UNSET


class Document(AnswerBody, frozen=True, rename="pascal"):
    """The document as a VM reads it."""

    document_incarnation: Count
    events: tuple[ScheduledEvent, ...]


class ScheduleRequest(RequestBody, frozen=True):
    """The body of a request to schedule an event."""

    type: TypeName
    resources: Annotated[tuple[str, ...], described(minItems=1, uniqueItems=True)]
    not_before: MomentToGive | None = None
    description: Description | None = None
    duration: Annotated[int, described(minimum=-1, maximum=LONGEST_DURATION)] | None = None
    cause: CauseToGive = Cause.MAINTENANCE.value


class CancelRequest(RequestBody, frozen=True):
    """The body of a request to cancel something."""

    reason: str = ""


class AcknowledgeRequest(RequestBody, frozen=True):
    """The body of a request that says that somebody takes care of what has failed."""

    note: Annotated[str, described(maxLength=LONGEST_NOTE)] = ""


class ReportRequest(RequestBody, frozen=True):
    """The body of a report on an impact; no failure means that it is over."""

    failure: str = ""
