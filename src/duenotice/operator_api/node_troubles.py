"""What is wrong with the nodes, by name: one list for `/readyz?verbose`, `duenotice node list` and the console (N23).

A node says only what it knows. While it does not reach the database itself, it knows nothing of the others.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from duenotice.clock import MICROS, seconds
from duenotice.domain.token import Role, Token
from duenotice.engine.engine import Engine
from duenotice.engine.followers import Followers
from duenotice.engine.membership import Standing
from duenotice.engine.node_engine import NodeEngine
from duenotice.engine.seat import Seat
from duenotice.operator_api.way_to_leader import WayToLeader

SILENT_SHARE = 3
"""Who has given no sign of life for a third of a lease, which is four beats, is called silent."""
HELD_BACK = MICROS // 4
"""A change that waits for less than this is on its way."""
WORKERS = "workers"
"""The name of the token of a node's own workers."""


class Trouble(NamedTuple):
    """`about` is the check that it belongs to; `micros` is for how long it has been so, if that is known."""

    about: str
    what: str
    hint: str
    micros: int | None = None


class Reader(NamedTuple):
    """A follower or a worker: whose token it has, which VMs it answers, and where it is."""

    token: str
    only: str
    host: str

    @classmethod
    def of(cls, token: Token, only: str, host: str) -> "Reader":
        """As it has asked for its stream."""
        assert token.role is Role.FOLLOWER
        return cls(token.name, only, host)

    @property
    def is_worker(self) -> bool:
        """Whether it is a process of the node itself."""
        return self.token == WORKERS

    def __str__(self) -> str:
        kind = "worker" if self.is_worker else "follower"
        return f"the {kind} {self.token!r} at {self.host}" + (f" ({self.only})" if self.only else "")


Readers = dict[str, Reader]
"""By life."""


def cut_off(seat: Seat, now: int) -> int | None:
    """For how long no beat of this node has reached the database, if that is long."""
    age = lease_age(seat, now)
    return age if age > seat.standing.terms.lease // SILENT_SHARE else None


def lease_age(seat: Seat, now: int) -> int:
    """Microseconds since the last good beat was sent."""
    return max(0, now - (seat.standing.right_until - seat.standing.terms.right))


def troubles(
    engine: Engine, followers: Followers, readers: Readers, way: WayToLeader | None, now: int
) -> Iterator[Trouble]:
    """All that is wrong, the worst first; `now` is the time since boot."""
    if isinstance(engine, NodeEngine):
        yield from _of_database(engine, now)
        if cut_off(engine.seat, now) is None:
            yield from _of_leader(engine.seat, way)
            yield from _of_members(engine.seat, now)
    yield from _of_readers(engine, followers, readers, now)


def _of_database(engine: NodeEngine, now: int) -> Iterator[Trouble]:
    found, late = engine.store_trouble, cut_off(engine.seat, now)
    if found is not None:
        what = f"The database cannot be used by this node: {found.error.message}"
        yield Trouble("database", what, found.error.hint, now - found.since)
    elif late is not None:
        what = "The database has not answered this node."
        yield Trouble("database", what, "Look at the database, and at this node's way to it.", late)


def _of_leader(seat: Seat, way: WayToLeader | None) -> Iterator[Trouble]:
    leader = seat.leader
    if leader is None:
        what = "No node leads: VMs are answered, but nothing can be changed and nothing starts."
        yield Trouble("leader", what, "Another node takes over within a lease, if one reaches the database.")
    elif way is not None and (why := way.trouble_with(leader)):
        what = f"This node does not reach {leader.node}, which leads, at {leader.url}: {why}"
        yield Trouble("leader", what, "Changes fail here. Look at the network, node_url and the certificate.")


def _of_members(seat: Seat, now: int) -> Iterator[Trouble]:
    standing, sight = seat.standing, seat.sight
    names = {member.life: member.node for member in (() if sight is None else sight.members)}
    behind = set(nodes_behind(standing)) if _waits(seat, now) else set()
    names.pop(standing.life, None)  # what holds us back are our own followers, and they are named
    for life, name in names.items():
        seen = standing.others.get(life)
        silence = 0 if seen is None else max(0, now - seen.since)
        holds = " A change waits for it." if life in behind else ""
        if silence > standing.terms.lease // SILENT_SHARE:
            hint = "Look at its process, its machine, and its way to the database."
            yield Trouble("nodes", f"The node {name} does not answer.{holds}", hint, silence)
        elif holds:
            hint = "Look at its log: is it overloaded, or does one of its own followers not answer?"
            yield Trouble("changes", f"A change waits for the node {name}.", hint, now - seat.behind_since)


def _of_readers(engine: Engine, followers: Followers, readers: Readers, now: int) -> Iterator[Trouble]:
    """Those of this node."""
    if isinstance(engine, NodeEngine) and not _waits(engine.seat, now):
        return
    for life in followers.behind():
        silence = now - followers.by_life[life].seen
        if silence > HELD_BACK:
            name = readers.get(life)
            what = f"A change waits for {'a follower' if name is None else name}."
            hint = "It is put out after a lease of silence. Look at its process and its machine."
            yield Trouble("changes", what, hint, silence)


def nodes_behind(standing: Standing) -> Sequence[str]:
    """The lives of the other nodes that a change waits for: first all apply it, then all hide what is older."""
    known = standing.known
    if standing.may_show >= known:
        return ()
    are_asked_to_hide = standing.may_hold >= known
    return [
        life for life, seen in standing.others.items() if (seen.hidden if are_asked_to_hide else seen.applied) < known
    ]


def _waits(seat: Seat, now: int) -> bool:
    """Whether something is stored that VMs do not see, and that for longer than a change takes."""
    return bool(seat.behind_since) and now - seat.behind_since > HELD_BACK


def line_of(trouble: Trouble) -> str:
    """As a line of `/readyz?verbose`."""
    return f"[-]{trouble.about} {told(trouble)}"


def told(trouble: Trouble) -> str:
    """In one line, with since when and what to do."""
    since = "" if trouble.micros is None else f" (for {seconds(trouble.micros):.1f} s)"
    return f"{trouble.what}{since} {trouble.hint}"
