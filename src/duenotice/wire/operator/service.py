"""The service itself: problems, clock, tokens, nodes; and an answer as it is kept for its key."""

from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

from duenotice.domain.token import TOKEN_NAME
from duenotice.wire.operator.words import (
    AnswerBody,
    Count,
    ListName,
    Moment,
    NodeState,
    ReaderKind,
    ReaderState,
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


class NodeSeen(AnswerBody, frozen=True):
    """One node, as the asked node sees it."""

    name: str
    state: NodeState
    leads: bool
    lag: Annotated[Count, Meta(description="Records that it has not taken in yet")]
    silent_for: Annotated[
        Seconds | None, Meta(description="Seconds since its last beat; null when it is not there or not known")
    ]
    lease_left: Annotated[Seconds | None, Meta(description="Seconds that it may answer VMs without a new beat")]
    version: str
    alive_since: Annotated[Moment | None, Meta(description="When its process began, in the time of this service")]
    url: Annotated[str, Meta(description="Where other nodes reach it")]


class ReaderSeen(AnswerBody, frozen=True):
    """A follower or a worker of the asked node; `name` is that of its token."""

    name: str
    kind: ReaderKind
    host: Annotated[str, Meta(description="The address that it asks from")]
    only: Annotated[str, Meta(description="Which VMs it answers; empty: all")]
    state: ReaderState
    silent_for: Annotated[Seconds, Meta(description="Seconds since its last sign of life")]


class NodeTrouble(AnswerBody, frozen=True):
    """Something that is wrong, as the asked node sees it."""

    about: Annotated[str, Meta(description="database, leader, nodes or changes")]
    what: str
    hint: Annotated[str, Meta(description="What to do")]
    lasts: Annotated[Seconds | None, Meta(description="Seconds that it has been so; null when that is not known")]


class NodesSeen(AnswerBody, frozen=True):
    """All nodes. A service on its own has one node and no lease: its `epoch` is 0, and `lease` is null."""

    node: Annotated[str, Meta(description="The node that answers this")]
    leader: Annotated[str, Meta(description="The node that leads; empty when none does")]
    epoch: Annotated[Count, Meta(description="Grows by one with each change of the leader")]
    position: Annotated[Count, Meta(description="The newest record of the journal")]
    shown: Annotated[Count, Meta(description="The newest record that VMs see at this node")]
    lease: Seconds | None
    right_for: Annotated[Seconds | None, Meta(description="Seconds that this node may answer VMs without a new beat")]
    items: tuple[NodeSeen, ...]
    readers: Annotated[tuple[ReaderSeen, ...], Meta(description="The followers and workers of the asked node")] = ()
    troubles: Annotated[tuple[NodeTrouble, ...], Meta(description="What is wrong, the worst first")] = ()


class StoredAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request was answered; `body` is JSON."""

    status: int
    body: str
    location: str = ""

    def packed(self) -> bytes:
        """The bytes to keep."""
        return msgspec.json.encode(self)


_decode = msgspec.json.Decoder(StoredAnswer).decode


def unpacked(answer: bytes) -> StoredAnswer:
    """The answer that was kept."""
    return _decode(answer)
