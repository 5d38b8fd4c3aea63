"""What several nodes need from the store that they share: who is there, who leads, and what may be shown (N01-N11).

The store decides nothing by time and compares no clocks. Each method is one transaction. All that change something lock
the row `head` first, so any two of them happen one after the other. All times are the callers' own.

A node process has one *life* (a uuid): registered, then a member, then perhaps put out and a member again, in the end
gone. Three things are kept apart:

- **who writes** is fenced by the epoch alone: an `append` of an older epoch changes nothing, however late it comes;
- **what may be shown** is `head.shown`: it grows only when every member has hidden what is older (the curtain), and
  members are asked to hide (`head.hold`) only when every one of them has read the change, or was put out: so one that
  is dead delays a change, and no poll (N19);
- **who may answer** is each node's own affair: it counts from before its last good `beat` (see `engine/standing.py`).

A method that cannot reach the store raises `Unavailable`; then nobody knows whether it was done, and it may still be
done later. It is safe to call each of them again, or never.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from duenotice.domain.records import Record
from duenotice.errors import Unavailable


class Deposed(Unavailable):
    """Another node leads by now, or nobody does. Nothing was changed, and never will be under this epoch."""


class NotMember(Unavailable):
    """This life was put out after a silence. It may read to the head and join again."""


class Replaced(Unavailable):
    """The store does not know this life, or a newer one of the same node has registered: it has to end (N03)."""


class Member(NamedTuple):
    """A node that has joined and was not put out: nothing is shown before it has hidden what is older.

    `url` is where other nodes pass commands on to (N09). `beat` counts its beats. It has read all up to `applied`.
    What it may still show is at `hidden` or newer. It is `replaced` when a newer life of its node has registered: it
    cannot beat any more, so it will be put out, but until then it may still be answering.
    """

    life: str
    node: str
    url: str
    version: str
    beat: int = 0
    hidden: int = 0
    replaced: bool = False
    applied: int = 0

    @property
    def has_applied(self) -> int:
        """Up to where it has read: what it has hidden it has read too."""
        return max(self.applied, self.hidden)


class Head(NamedTuple):
    """The one row that says where all is.

    `position` is the last record, `shown` the last that VMs may see, `hold` the last up to which members are asked to
    hide what is older. `leader` is a life, or "" when nobody leads.
    `steady` is the steady time of a leader's last beat or append: at least this much of it has passed (N10).
    `is_copy`: this is not the server where all records were stored. What it may have lost is known when a leader has
    stored something here (N14). A beat tells it, others need not.
    """

    position: int = 0
    shown: int = 0
    epoch: int = 0
    leader: str = ""
    steady: int = 0
    hold: int = 0
    is_copy: bool = False


class Sight(NamedTuple):
    """Head and members, as they are in one moment; members in the order in which they first registered."""

    head: Head
    members: tuple[Member, ...]

    def member(self, life: str) -> Member | None:
        """The member with this life, if it is one."""
        return next((member for member in self.members if member.life == life), None)


class Appended(NamedTuple):
    """Records up to here are stored: members read and apply them."""

    position: int


class Applied(NamedTuple):
    """A member has read all up to here, and still shows what was shown."""

    life: str
    position: int


class Hold(NamedTuple):
    """Every member has applied all up to here: they hide what is older."""

    position: int


class Hid(NamedTuple):
    """A member has hidden all up to here."""

    life: str
    position: int


class Shown(NamedTuple):
    """Records up to here may be shown."""

    position: int


class MemberBeat(NamedTuple):
    """A member has beaten, and this is its counter now: others know it earlier than with their own next beats.

    Else its silence would begin for them up to a beat later, and a change would wait for longer than a lease.
    """

    life: str
    beat: int


class Changed(NamedTuple):
    """Who leads or who is a member has changed: look."""


News = Appended | Applied | Hold | Hid | Shown | MemberBeat | Changed


class Members(Protocol):
    """The shared store; every implementation passes one contract suite (`tests/contract/test_members.py`).

    It comes with a `Journal` of the same records. `blocking` tells whether methods may wait for a network; then they
    are called off the loop. Any thread may call them.
    """

    blocking: bool

    def register(self, life: str, node: str, url: str, version: str) -> Sight:
        """A process of a node begins. It is not a member yet, so nobody waits for it (N07).

        Every other life of this node is replaced: it cannot beat, join or take over any more, and if it led, nobody
        leads now (N03). If it was a member it still is one, because it may be answering; if not, it is forgotten. A
        life registers when its process begins. To register again changes nothing; a replaced member that tries it gets
        `Replaced`. `Changed` is told.
        """

    def join(self, life: str, position: int) -> Head:
        """Become a member that has folded all up to `position` and answers with nothing older (N07).

        The answer is the head from the same transaction: whatever is appended later waits for this member. The caller
        hides up to `head.position` at once, and answers nobody before that is shown. To join again only raises
        `hidden`. `Changed` is told. Raises `Replaced`.
        """

    def beat(self, life: str, steady: int, polls: Mapping[str, int]) -> Sight:
        """Say that a member is there: its `beat` grows by one; return what is there now (N04, N05).

        `steady` is stored as `head.steady` if this life leads, and only if it is larger (N10). `polls` has scopes with
        the steady time of their last poll at this node since it told of them last; of two times the store keeps the
        later (N11). A scope may be missing or be told twice. Raises `NotMember` or `Replaced`; then nothing is kept.
        `MemberBeat` is told.
        """

    def look(self) -> Sight:
        """What is there now; changes nothing."""

    def absent(self) -> tuple[Member, ...]:
        """Who has registered and is not a member: was put out, or has not joined yet (its `beat` is 0)."""

    def polls(self, after: int) -> Mapping[str, int]:
        """The last poll of each scope that any node told of, if later than `after`; older ones are forgotten (N11)."""

    def take_over(self, life: str, epoch: int, beat: int) -> Head | None:
        """Lead from now on, under `epoch + 1` (N04). None: it is not as the caller has seen it, nothing is changed.

        It is done if the epoch is still `epoch` and either nobody leads or the leader's beat is still `beat`. The old
        leader stays a member: it may be answering. `Changed` is told. Raises `NotMember` or `Replaced`.
        """

    def append(self, life: str, epoch: int, records: Sequence[Record], *, steady: int = 0) -> None:
        """Store all records or none, if this life leads under this epoch (N01); else raises `Deposed`.

        `steady` is when they were decided; as with a beat, `head.steady` is at least that (N10).
        Positions follow `head.position` without a gap, or it raises as `Journal.append` does; when this returns, they
        survive kill -9 and power loss (S5). With each record its epoch is kept. If the answer of the database is lost,
        find out before raising `Unavailable`: are these positions there with this epoch and these checksums (N02)?
        `Appended` is told in the same transaction.
        """

    def applied(self, life: str, position: int) -> None:
        """A member has read all up to `position`, and still shows what was shown (N19); this never goes back.

        `Applied` is told. It is refused as `hidden` is.
        """

    def hold(self, life: str, epoch: int, position: int) -> tuple[str, ...]:
        """Ask all members to hide what is older than `position`, if every other one has applied all up to there (N19).

        The answer is the lives that have not. If there are none, it is done: `head.hold` is at least `position`, and
        `Hold` is told. A member that joins later answers nobody before that is shown. Raises as `show` does.
        """

    def hidden(self, life: str, position: int) -> None:
        """A member answers with nothing older than `position` from now on (N06); `hidden` never goes back.

        `Hid` is told. Raises `NotMember`; a replaced life may still say it. Raises `Rewound` if `position` is not
        stored any more: what is stored there next is something else (N14).
        """

    def show(self, life: str, epoch: int, position: int) -> tuple[str, ...]:
        """Let all records up to `position`, which is stored, be shown, if every other member has hidden them (N06).

        The answer is the lives that have not. If there are none, it is done: `head.shown` and the caller's own
        `hidden` are at least `position`, and `Shown` is told. So the caller hides before it asks. It does not matter if
        it is shown already. Raises `Deposed` unless this life leads under this epoch, and `Rewound` if `position` is
        not stored any more: no node can be a member of a store that shows more than it has (N14).
        """

    def put_out(self, life: str, epoch: int, member: str, beat: int) -> bool:
        """Stop waiting for a member, if its beat is still `beat` (N06). Returns whether it is not a member now.

        The caller, who leads, has seen this beat unchanged for a whole lease by its own clock; so that member has no
        right to answer. If it is not replaced it stays registered and may join again, else it is forgotten.
        `Changed` is told. Raises `Deposed` unless this life leads under this epoch.
        """

    def resign(self, life: str) -> None:
        """If this life leads, nobody leads from now on, and the first node that tries takes over (N07).

        It stays a member. `Changed` is told.
        """

    def leave(self, life: str) -> None:
        """This life answers nobody and leads nobody any more: it is forgotten. `Changed` is told. Never refused."""

    def listen(self, hear: Callable[[News], None]) -> Callable[[], None]:
        """Call `hear` with all news from now on, also our own; call what is returned to stop that.

        It is called from any thread, and never inside a transaction. News only make things faster: any of it may be
        lost, late, doubled or out of order. A beat tells the same (N08).
        """

    def close(self) -> None:
        """Stop listening, close everything. It is not `leave`."""
