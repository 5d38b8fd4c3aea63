"""What a node and its followers say to each other. Positions are those of the journal, times are microseconds.

A follower reads a snapshot, then a stream of lines. It applies records as they come, and says so with a beat, while VMs
still see what was before. When the node says so it hides what differs, and says so, and then shows it (N06, N19). Each
beat gives it the right to answer VMs for a while (N05).
"""

from msgspec import Raw, Struct


class FollowSnapshot(Struct, frozen=True):
    """A state to begin with, as the journal's codec writes it; `node` is the life of the node whose journal it is."""

    node: str
    position: int
    format: int
    crc: int
    snapshot: Raw


class Joined(Struct, frozen=True, tag="hello", tag_field="line"):
    """The first line: VMs see all up to `shown`; who is silent for a `lease` is put out.

    What is up to `hold` has to be hidden, if it is not shown yet.
    """

    shown: int
    lease: int
    hold: int


class LogRecord(Struct, frozen=True, tag="record", tag_field="line"):
    """A record as the journal's codec writes it."""

    position: int
    format: int
    crc: int
    record: Raw


class PartialSnapshot(Struct, frozen=True, tag="part", tag_field="line"):
    """For a follower of some VMs: all that these are answered from, after the record at `position`."""

    position: int
    format: int
    crc: int
    snapshot: Raw


class Skipped(Struct, frozen=True, tag="passed", tag_field="line"):
    """Nothing up to here touches the VMs of this follower."""

    position: int


class Hold(Struct, frozen=True, tag="hold", tag_field="line"):
    """All have applied what is up to here: hide what differs from what VMs see, until it may be shown (N19)."""

    position: int


class Visible(Struct, frozen=True, tag="show", tag_field="line"):
    """All up to here may be shown; it comes again and again, as a sign of life."""

    position: int


class Goodbye(Struct, frozen=True, tag="bye", tag_field="line"):
    """The node leaves the others: follow another one, and say so with a beat that is `leaving`."""


Line = Joined | LogRecord | PartialSnapshot | Skipped | Hold | Visible | Goodbye


class FollowerBeat(Struct, frozen=True, omit_defaults=True):
    """A follower lives; it has applied all up to `applied`, and VMs see nothing older than `hidden` any more.

    `polls` tells how long ago scopes last asked (N11). Who is `leaving` answers nobody any more.
    """

    life: str
    node: str = ""
    applied: int = 0
    hidden: int = 0
    polls: dict[str, int] = {}
    leaving: bool = False


class Right(Struct, frozen=True, omit_defaults=True):
    """For how long VMs may be answered, from before the beat was sent (N05), and when to tell `polls` again.

    `is_owed`: a follower that has just joined has to apply what it was told first; then the right is given (N17).
    """

    right: int
    polls_every: int
    is_owed: bool = False


class VmCommand(Struct, frozen=True, omit_defaults=True):
    """What a VM asks for: that its scope listens (F01), or that events start, if it names some (C01)."""

    vm: str
    approve: tuple[str, ...] = ()


class Done(Struct, frozen=True):
    """It is durable and shown; a follower that has folded up to here has it too."""

    position: int
