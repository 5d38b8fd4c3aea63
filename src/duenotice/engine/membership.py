"""The values of a node's membership: where it stands, what it is told, what it then does. The rules are in `standing`.

All times here are microseconds of the node's own clock since boot. They are never compared with another node's (N04).
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from duenotice.clock import MICROS
from duenotice.engine.members import Head, News, Sight


class Terms(NamedTuple):
    """How long things may take, the same on all nodes.

    A node that is silent for a `lease` may be put out, or loses the lead. A node may answer for `right` after a
    beat; that is shorter, so that it is over at the member before it is over at the leader, although one of the two
    clocks runs faster by up to a twentieth (N05).
    """

    lease: int = 9 * MICROS // 2

    @property
    def right(self) -> int:
        """For how long a node may answer after a good beat."""
        return self.lease * 9 // 10

    @property
    def for_followers(self) -> int:
        """For how long a node beats while it waits for a follower: one that is dead, or stuck, is put out by then."""
        return self.lease * 2

    @property
    def fresh(self) -> int:
        """A node that lives was heard of within this time: it beats, and the leader looks, three times meanwhile."""
        return self.lease // 4

    @property
    def every(self) -> int:
        """The time between two beats: some of them may get lost."""
        return self.lease // 12


PROMPT = MICROS // 4
"""News that something may be shown are not too old, if it was hidden so shortly before: its notice is whole (S2)."""


class NodePhase(Enum):
    """Where a node is on its way through the cluster."""

    REGISTERING = "registering"
    """The store does not know this life yet."""
    READING = "reading"
    """It reads the journal. Nobody waits for it, and it answers nobody."""
    JOINING = "joining"
    """It has read all there was, and asks to be a member."""
    FOLLOWING = "following"
    """A member that another node leads, or that looks for a leader."""
    LEADING = "leading"
    """The member that decides and writes."""
    LEAVING = "leaving"
    """A member that is about to go: it does not lead any more, and answers until its doors are closed."""
    ENDED = "ended"
    """It does nothing more."""


MEMBERS = frozenset({NodePhase.FOLLOWING, NodePhase.LEADING, NodePhase.LEAVING})
"""The phases in which the store has us as a member, as far as we know."""


class Seen(NamedTuple):
    """A member as it was last seen: its beat, since when that has not changed, what it has hidden and what applied.

    `heard` is when it gave a sign of life of any kind.
    """

    beat: int
    since: int
    hidden: int
    applied: int = 0
    heard: int = 0


class Standing(NamedTuple):
    """All that a node knows about itself and the others.

    The positions, each at most the one before: `known` is stored in the journal, `folded` is read and applied, `held`
    is up to where nothing older is shown to VMs any more, `said` is what the others know of that, `revealed` is what
    VMs are to see, `seen` what they do see. `may_hold` and `may_show` are the last positions that all may hold and
    show, `wanted` the one that we, as the leader, want to show next.
    """

    life: str
    terms: Terms = Terms()
    phase: NodePhase = NodePhase.REGISTERING
    right_until: int = 0
    known: int = 0
    folded: int = 0
    said_applied: int = 0
    """What the others know of `folded`."""
    held: int = 0
    said: int = 0
    revealed: int = 0
    seen: int = 0
    may_hold: int = 0
    may_show: int = 0
    wanted: int = 0
    answers_from: int = 0
    """It answers only when it shows this position or a later one: what was stored when it joined (N07)."""
    epoch: int = 0
    leader: str = ""
    others: Mapping[str, Seen] = {}
    next_call: int = 0
    """When to beat next, or to try again what has failed."""
    calling: bool = False
    """Whether a beat, a registration or a request to join is under way."""
    reading: int = 0
    """Up to where the journal is being read; 0 when it is not."""
    asking: int = 0
    """What the store is being asked to have all hold; 0 when it is not."""
    showing: int = 0
    """What the store is being asked to show; 0 when it is not."""
    holding: int = 0
    """The last position that this node was told to hold, and has done or is about to."""
    said_at: int = 0
    """When it had the others told what it has hidden: that is not shown earlier."""
    doubt: tuple[int, str, int] = (0, "", 0)
    """What may be shown, as it was seen too late to be sure; who led then, and its beat."""
    must_fold: int = 0
    """A node that has not hidden what it knew at its last beat does not beat: it is put out, and delays nobody."""
    below: tuple[int, int] = (0, 0)
    """What the followers of this node are asked to hide, and until when it beats although they have not."""
    at_beat: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Epoch, what was folded and known when the last beat was sent, and when that was: its answer cannot say less."""
    prove_since: int = 0
    """When it could have been that the store was restored meanwhile: it answers when a read that began later has found
    that what is stored is what it has read (N14). 0 when nothing is to be proven."""
    no_lead_before: int = 0
    """A node that has handed over the lead does not take it back at once."""


# What a node is told.


class TimePassed(NamedTuple):
    """Some time has passed."""


class Registered(NamedTuple):
    """The store knows this life."""

    sight: Sight


class Joined(NamedTuple):
    """This life is a member; the head of that moment."""

    head: Head


class Beaten(NamedTuple):
    """A beat was taken; `sent` is the own time from before it was sent (N05)."""

    sent: int
    sight: Sight


class Looked(NamedTuple):
    """What a look has found; `sent` is the own time from before it."""

    sight: Sight
    sent: int = 0


class TookOver(NamedTuple):
    """The answer to taking over: the new head, or None."""

    head: Head | None


class Folded(NamedTuple):
    """All up to here is folded, by this node and by its followers; VMs still see what they saw (N19)."""

    position: int
    asked: int = 0
    """Up to where the journal was to be read: if it ends before that, the rest is lost (N14)."""
    begun: int = 0
    """The own time from before it was read; 0 if that proves nothing."""


class HasRead(NamedTuple):
    """All up to here is read or written, and only the followers of this node have not applied it yet (N06)."""

    position: int


class Wrote(NamedTuple):
    """The same, of what we have written or checked while leading: its notice is long enough to be shown now (S2)."""

    position: int


class Held(NamedTuple):
    """VMs are shown nothing older than this any more, at this node and its followers."""

    position: int


class Revealed(NamedTuple):
    """VMs see what is stored up to here: a node that asks for that may still have to wait for it."""

    position: int


class Asking(NamedTuple):
    """The answer to asking all to hold: who has not applied that yet."""

    position: int
    missing: tuple[str, ...]


class Showing(NamedTuple):
    """The answer to showing: who has not hidden that yet."""

    position: int
    missing: tuple[str, ...]


class MemberGone(NamedTuple):
    """A member is not one any more."""

    life: str


class HeardFromStore(NamedTuple):
    """News from the store."""

    news: News


class WasPutOut(NamedTuple):
    """A call was refused: we are not a member."""


class WasReplaced(NamedTuple):
    """A call was refused: a newer life of this node is there (N03), or the store has forgotten us (N14).

    `head` is what was there then, if that could be found out.
    """

    head: Head | None = None


class HasForgotten(NamedTuple):
    """The store no longer has what we had read or written (N14)."""


class WasDeposed(NamedTuple):
    """A call was refused: we do not lead."""


class HandOver(NamedTuple):
    """Somebody wants another node to lead."""


class Stop(NamedTuple):
    """The process is about to end."""


class Closed(NamedTuple):
    """The doors are closed: nobody is answered any more."""


class CallBroke(NamedTuple):
    """A call or a read did not work; nobody knows whether it was done."""

    action: "Action"


Message = (
    TimePassed
    | Registered
    | Joined
    | Beaten
    | Looked
    | TookOver
    | Folded
    | HasRead
    | Wrote
    | Held
    | Revealed
    | Asking
    | Showing
    | MemberGone
    | HeardFromStore
    | WasPutOut
    | WasReplaced
    | HasForgotten
    | WasDeposed
    | HandOver
    | Stop
    | Closed
    | CallBroke
)


# What a node then does: calls to the store, and acts of its own.


class Register(NamedTuple):
    """Call `register`."""


class Join(NamedTuple):
    """Call `join`."""

    position: int


class Beat(NamedTuple):
    """Call `beat`; take the time first."""


class Look(NamedTuple):
    """Call `look`."""


class TakeOver(NamedTuple):
    """Call `take_over`."""

    epoch: int
    beat: int


class SayApplied(NamedTuple):
    """Call `applied`."""

    position: int


class AskToHold(NamedTuple):
    """Call `hold`."""

    epoch: int
    position: int


class HoldUpTo(NamedTuple):
    """Hide from VMs what differs from what they see, then say `Held`."""

    position: int


class SayHidden(NamedTuple):
    """Call `hidden`."""

    position: int


class ShowUpTo(NamedTuple):
    """Call `show`."""

    epoch: int
    position: int


class PutOut(NamedTuple):
    """Call `put_out`."""

    epoch: int
    life: str
    beat: int


class Resign(NamedTuple):
    """Call `resign`."""


class Leave(NamedTuple):
    """Call `leave`."""


class Read(NamedTuple):
    """Read and fold up to a position, then say `Folded`."""

    position: int


class Reveal(NamedTuple):
    """Show VMs what is folded, which is up to this position, then say `Revealed`."""

    position: int


class Lead(NamedTuple):
    """Begin to decide and to write under this epoch, once all that is known is folded."""

    epoch: int


class Follow(NamedTuple):
    """Stop deciding and writing."""


class StoreHere(NamedTuple):
    """Store anything, if we lead: that proves that nothing is missing on a new server (N14)."""


class BeginAgain(NamedTuple):
    """Begin again from what the store has, and lift the incarnations (N14)."""


class End(NamedTuple):
    """End the process, for this reason."""

    why: str


Action = (
    Register
    | Join
    | Beat
    | Look
    | TakeOver
    | SayApplied
    | AskToHold
    | HoldUpTo
    | SayHidden
    | ShowUpTo
    | PutOut
    | Resign
    | Leave
    | Read
    | Reveal
    | Lead
    | Follow
    | StoreHere
    | BeginAgain
    | End
)

Actions = tuple[Action, ...]


class StandingStep(NamedTuple):
    """What follows from a message."""

    standing: Standing
    actions: Actions = ()
