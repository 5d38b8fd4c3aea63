"""The service itself in the operator's contract: pages, problems, the clock, tokens, probes."""

from typing import Annotated, Generic, TypeVar

from msgspec import Meta

from duenotice.domain.token import TOKEN_NAME
from duenotice.wire.operator.words import (
    AnswerBody,
    ListName,
    Moment,
    RequestBody,
    RoleName,
    Seconds,
    SelectorOrNone,
    Span,
    described,
)

T = TypeVar("T")


class Page(AnswerBody, Generic[T], frozen=True):
    """Some of many things; `next` is the `cursor` of the page that follows, null on the last."""

    items: tuple[T, ...]
    next: str | None


class Problem(AnswerBody, frozen=True, omit_defaults=True):
    """Why a request was refused, as in RFC 9457."""

    type: str
    status: int
    title: Annotated[str, Meta(description="What happened")]
    hint: Annotated[str, Meta(description="What to do")]
    look_at: Annotated[ListName | None, Meta(description="The list that helps, if one does")] = None


class Clock(AnswerBody, frozen=True):
    """The service's clock; `speed` is 0 for a manual clock."""

    clock: str
    now: Moment
    speed: Seconds


class AzureDoor(AnswerBody, frozen=True):
    """Where `az` and the Azure SDKs find this service, and the CA that they must trust, if it is our own."""

    resource_manager: str
    authority: str
    tenant_id: str
    subscription_id: str
    resource_group: str
    ca_file: Annotated[str | None, Meta(description="The CA's file on the machine of the service")]
    ca: Annotated[str | None, Meta(description="The CA itself, in PEM")]


class Token(AnswerBody, frozen=True, omit_defaults=True):
    """A token without its secret; `only` chooses the VMs that a follower may answer, if not all."""

    id: str
    name: str
    role: RoleName
    created_at: Moment
    only: str = ""


class NewToken(Token, frozen=True, kw_only=True):
    """A token with its secret, which is shown only once."""

    token: str


class Health(AnswerBody, frozen=True):
    """The answer that all is well."""

    status: str


class Version(AnswerBody, frozen=True):
    """Which duenotice this is, and the api-versions that its VMs may ask in, newest first."""

    version: str
    api_versions: tuple[str, ...] = ()


class AdvanceRequest(RequestBody, frozen=True):
    """The body that lets time pass."""

    by: Span


class SpeedRequest(RequestBody, frozen=True):
    """The body that sets the speed."""

    speed: Annotated[str, described(pattern="^[1-9][0-9]{0,4}x$")]


class TokenRequest(RequestBody, frozen=True):
    """The body of a request for a token."""

    name: Annotated[str, described(pattern=TOKEN_NAME)]
    role: RoleName
    only: Annotated[SelectorOrNone, Meta(description="Only the VMs that this chooses; for followers")] = ""
