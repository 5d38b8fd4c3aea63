"""The nodes of a cluster in the operator's contract: who leads, how far each of them is, and who is away."""

from typing import Annotated

from msgspec import Meta

from duenotice.wire.operator.words import AnswerBody, Count, Moment, NodeState, ReaderKind, ReaderState, Seconds


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
