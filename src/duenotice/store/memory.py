"""A store that lives as long as its object, for one node or many: for tests, demos and simulations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import RLock

from duenotice.clock import Alive
from duenotice.domain.records import Record
from duenotice.domain.snapshot import Snapshot
from duenotice.engine.members import (
    Appended,
    Applied,
    Changed,
    Deposed,
    Head,
    Hid,
    Hold,
    Member,
    MemberBeat,
    News,
    NotMember,
    Replaced,
    Shown,
    Sight,
)
from duenotice.errors import Rewound
from duenotice.store.codec import RECORDS, SNAPSHOTS, Row, refuse_unless_next, refuse_unless_reached
from duenotice.wire.operator.from_domain import event_id_of

KEPT_RECORDS = 100_000
"""So that memory stays bounded (S24); what is not in a snapshot yet is kept anyway."""

_REPLACED = "Another process has registered as this node, or the store was changed."
_END = "Give each node a name of its own; end this process."


class MemoryJournal:
    """Keeps rows, not objects: a new engine reads from it what a new process would read from a disk."""

    blocking = False
    restored = False

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._forgotten = 0
        self._events: dict[str, list[int]] = {}
        self._snapshot: Row | None = None
        self.seen = 0
        self.alive: Alive | None = None

    def note_seen(self, position: int) -> None:
        """Remember how far readers have seen."""
        self.seen = position

    def note_alive(self, alive: Alive) -> None:
        """Remember that VMs can be answered now."""
        self.alive = alive

    def append(self, records: Sequence[Record]) -> None:
        """Store all records or none."""
        if not records:
            return
        refuse_unless_next(self.last_position(), records)
        self._rows += [RECORDS.pack(record) for record in records]
        for record in records:
            if event_id := event_id_of(record):
                self._events.setdefault(event_id, []).append(record.position)

    def read(self, after: int, limit: int | None = None) -> Iterator[Record]:
        """The records behind a position, in order; the oldest may be forgotten."""
        start = max(0, after - self._forgotten)
        return map(RECORDS.unpack, self._rows[start : None if limit is None else start + limit])

    def index(self) -> bool:
        """There is nothing to do: events are indexed at once."""
        return False

    def find(self, prefix: str, limit: int) -> list[Record]:
        """The first records about events whose id begins like this."""
        found = sorted(at for key, places in self._events.items() if key.startswith(prefix) for at in places)
        return [RECORDS.unpack(self._rows[position - self._forgotten - 1]) for position in found[:limit]]

    def first_position(self) -> int:
        """The position of the oldest record that is kept."""
        return self._forgotten + 1

    def last_position(self) -> int:
        """The position of the newest record; 0 when there is none."""
        return self._forgotten + len(self._rows)

    def snapshot(self) -> Snapshot | None:
        """The newest snapshot, if any."""
        return None if self._snapshot is None else SNAPSHOTS.unpack(self._snapshot)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep the newest snapshot, and behind it not too many of the records that it stands for."""
        refuse_unless_reached(self.last_position(), snapshot.position)
        if self._snapshot is None or snapshot.position >= self._snapshot.position:
            self._snapshot = SNAPSHOTS.pack(snapshot)
            self._forget(min(snapshot.position, self.seen, self.last_position() - KEPT_RECORDS))

    def _forget(self, position: int) -> None:
        if position > self._forgotten:
            del self._rows[: position - self._forgotten]
            self._forgotten = position
            kept = {key: [at for at in places if at > position] for key, places in self._events.items()}
            self._events = {key: places for key, places in kept.items() if places}

    def needs_upkeep(self) -> bool:
        """Never."""
        return False

    def maintain(self) -> None:
        """There is nothing to tidy up."""

    def close(self) -> None:
        """Nothing is held, and nothing is forgotten: the same object may be opened by another engine."""


class MemoryMembers:
    """Head and members beside a journal in memory; the lock makes each method one transaction."""

    blocking = False

    def __init__(self, journal: MemoryJournal | None = None) -> None:
        self.journal = MemoryJournal() if journal is None else journal
        self.signing_keys = MemorySecrets()
        self.epochs: dict[int, int] = {}
        """Under which epoch each record was stored."""
        self._lock = RLock()
        self._head = Head()
        self._registered: dict[str, Member] = {}
        self._joined: set[str] = set()
        self._polls: dict[str, int] = {}
        self._hear: dict[object, Callable[[News], None]] = {}

    def register(self, life: str, node: str, url: str, version: str) -> Sight:
        """A process of a node begins, and replaces the others of this node."""
        with self._lock:
            if life in self._registered:
                self._known(life)
                return self.look()
            for other in [each for each in self._registered.values() if each.node == node]:
                self._replace(other)
            self._registered[life] = Member(life, node, url, version)
        self._tell(Changed())
        return self.look()

    def _replace(self, old: Member) -> None:
        self._lead_no_more(old.life)
        if old.life in self._joined:
            self._registered[old.life] = old._replace(replaced=True)
        else:
            del self._registered[old.life]

    def join(self, life: str, position: int) -> Head:
        """Become a member that answers with nothing older than a position."""
        with self._lock:
            member = self._known(life)
            self._joined.add(life)
            self._registered[life] = member._replace(hidden=max(member.hidden, position))
            head = self.look().head
        self._tell(Changed())
        return head

    def beat(self, life: str, steady: int, polls: Mapping[str, int]) -> Sight:
        """Say that a member is there."""
        with self._lock:
            member = self._present(self._known(life))
            self._registered[life] = member._replace(beat=member.beat + 1)
            if self._head.leader == life:
                self._head = self._head._replace(steady=max(self._head.steady, steady))
            for scope, polled in polls.items():
                self._polls[scope] = max(polled, self._polls.get(scope, polled))
            sight = self.look()
        self._tell(MemberBeat(life, member.beat + 1))
        return sight

    def look(self) -> Sight:
        """What is there now."""
        with self._lock:
            members = tuple(member for member in self._registered.values() if member.life in self._joined)
            return Sight(self._head._replace(position=self.journal.last_position()), members)

    def absent(self) -> tuple[Member, ...]:
        """Who has registered and is not a member."""
        with self._lock:
            return tuple(member for member in self._registered.values() if member.life not in self._joined)

    def polls(self, after: int) -> Mapping[str, int]:
        """The last polls that are later than that; older ones are forgotten."""
        with self._lock:
            self._polls = {scope: polled for scope, polled in self._polls.items() if polled > after}
            return dict(self._polls)

    def take_over(self, life: str, epoch: int, beat: int) -> Head | None:
        """Lead from now on, if all is as the caller has seen it."""
        with self._lock:
            self._present(self._known(life))
            leader = self._registered.get(self._head.leader)
            if self._head.epoch != epoch or (leader is not None and leader.beat != beat):
                return None
            self._head = self._head._replace(epoch=epoch + 1, leader=life)
            head = self.look().head
        self._tell(Changed())
        return head

    def append(self, life: str, epoch: int, records: Sequence[Record], *, steady: int = 0) -> None:
        """Store all records or none, if this life leads."""
        with self._lock:
            self._refuse_unless_leader(life, epoch)
            self.journal.append(records)
            self._head = self._head._replace(steady=max(self._head.steady, steady))
            self.epochs.update((record.position, epoch) for record in records)
            position = self.journal.last_position()
        self._tell(Appended(position))

    def applied(self, life: str, position: int) -> None:
        """A member has read all up to a position, and still shows what was shown."""
        with self._lock:
            member = self._says(life, position)
            self._registered[life] = member._replace(applied=max(member.applied, position))
        self._tell(Applied(life, position))

    def hold(self, life: str, epoch: int, position: int) -> tuple[str, ...]:
        """Ask all to hide what is older, if every other member has applied it."""
        with self._lock:
            self._refuse_unless_leader(life, epoch)
            self._refuse_what_is_lost(position)
            members = self.look().members
            missing = tuple(each.life for each in members if each.has_applied < position and each.life != life)
            if missing:
                return missing
            self._head = self._head._replace(hold=max(self._head.hold, position))
        self._tell(Hold(position))
        return ()

    def hidden(self, life: str, position: int) -> None:
        """A member answers with nothing older from now on."""
        with self._lock:
            member = self._says(life, position)
            self._registered[life] = member._replace(hidden=max(member.hidden, position))
        self._tell(Hid(life, position))

    def _says(self, life: str, position: int) -> Member:
        member = self._registered.get(life)
        if member is None:
            raise Replaced(_REPLACED, hint=_END)
        self._refuse_what_is_lost(position)
        return self._present(member)

    def show(self, life: str, epoch: int, position: int) -> tuple[str, ...]:
        """Let all up to a position be shown, if every other member has hidden it."""
        with self._lock:
            self._refuse_unless_leader(life, epoch)
            self._refuse_what_is_lost(position)
            members = self.look().members
            missing = tuple(each.life for each in members if each.hidden < position and each.life != life)
            if missing:
                return missing
            me = self._registered[life]
            self._registered[life] = me._replace(hidden=max(me.hidden, position))
            self._head = self._head._replace(shown=max(self._head.shown, position))
        self._tell(Shown(position))
        return ()

    def _refuse_what_is_lost(self, position: int) -> None:
        if position > self.journal.last_position():
            raise Rewound("The store no longer has what was stored.", hint="Begin again from what is there.")

    def put_out(self, life: str, epoch: int, member: str, beat: int) -> bool:
        """Stop waiting for a member, if it has not beaten since."""
        with self._lock:
            self._refuse_unless_leader(life, epoch)
            if member not in self._joined:
                return True
            if self._registered[member].beat != beat:
                return False
            self._joined.discard(member)
            if self._registered[member].replaced:
                del self._registered[member]
        self._tell(Changed())
        return True

    def resign(self, life: str) -> None:
        """Stop leading."""
        with self._lock:
            self._lead_no_more(life)
        self._tell(Changed())

    def leave(self, life: str) -> None:
        """Be forgotten."""
        with self._lock:
            self._lead_no_more(life)
            self._joined.discard(life)
            self._registered.pop(life, None)
        self._tell(Changed())

    def listen(self, hear: Callable[[News], None]) -> Callable[[], None]:
        """Tell all news, until what is returned is called."""
        key = object()
        self._hear[key] = hear

        def hear_no_more() -> None:
            self._hear.pop(key, None)

        return hear_no_more

    def close(self) -> None:
        """Nothing is held: other nodes go on with the same object."""

    def _known(self, life: str) -> Member:
        member = self._registered.get(life)
        if member is None or member.replaced:
            raise Replaced(_REPLACED, hint=_END)
        return member

    def _present(self, member: Member) -> Member:
        if member.life not in self._joined:
            raise NotMember("This node was silent for too long and was put out.", hint="It joins again by itself.")
        return member

    def _lead_no_more(self, life: str) -> None:
        if self._head.leader == life:
            self._head = self._head._replace(leader="")

    def _refuse_unless_leader(self, life: str, epoch: int) -> None:
        if (self._head.leader, self._head.epoch) != (life, epoch):
            raise Deposed("Another node leads by now.", hint="Ask again; it is passed on to the node that leads.")

    def _tell(self, news: News) -> None:
        for hear in list(self._hear.values()):
            hear(news)


class MemorySecrets:
    """A text that is gone with the process; the lock makes a change one transaction."""

    def __init__(self) -> None:
        self._text, self._lock = "", RLock()

    def change(self, work: Callable[[str], str]) -> str:
        """Keep what this makes of what is there, which is "" at first."""
        with self._lock:
            self._text = work(self._text)
            return self._text

    def close(self) -> None:
        """Other nodes go on with it."""
