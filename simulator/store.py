"""The store that nodes share: the members in memory behind lines that break, on a server that can fail over.

What a node does with its database is in `store/postgres*`; here is the same without SQL: each node notes how far the
journal had come, so it can tell when the store has lost something (N14), and news may be lost, doubled or late.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import Context, ContextVar
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from duenotice import __version__
from duenotice.bootstrap.cluster import ClusterStore
from duenotice.clock import Alive, Clock, micros, monotonic, wall
from duenotice.domain.policy import Policy
from duenotice.domain.records import IncarnationsLifted, Record
from duenotice.domain.snapshot import Snapshot
from duenotice.domain.state import State
from duenotice.engine.fenced_journal import FencedJournal, FoundCopy
from duenotice.engine.lives import new_life
from duenotice.engine.members import Head, Member, News, Sight
from duenotice.engine.membership import Terms
from duenotice.engine.node_engine import NodeEngine
from duenotice.engine.publisher import Publisher
from duenotice.engine.seat import Identity
from duenotice.engine.shared_time import SharedClock
from duenotice.errors import InvariantBroken, Rewound, Unavailable
from duenotice.operator_api.way_to_leader import WayToLeader
from duenotice.store.codec import RECORDS, Row
from duenotice.store.memory import MemoryJournal, MemoryMembers
from simulator.machine import BEGIN, Machine
from simulator.network import Network

ASIDE: ContextVar[bool] = ContextVar("aside", default=False)
"""Whether what runs now only looks on (`sweep`): its calls take no time, and no dice are thrown for them."""
T = TypeVar("T")
STORE = "store"
ROUND = 0.002
"""Seconds that a call takes."""
_LOST = "duenotice goes on from what is there, and lifts the incarnations."


class Copy(NamedTuple):
    """All that a server had at one moment; of the journal it knows how many rows there were."""

    rows: int
    head: Head
    registered: dict[str, Member]
    joined: set[str]
    polls: dict[str, int]
    epochs: dict[int, int]


class SharedStore(MemoryMembers):
    """One server after the other; `origin` names the one that runs, `written_on` the one that all records are from."""

    def __init__(self) -> None:
        super().__init__(MemoryJournal())
        self.origin = self.written_on = 1
        self.is_away = False
        self.slowness = 0.0
        self.holds_next = False
        """Whether the next append is on its way for so long that its caller gives up; `late` is when it arrives."""
        self.late: Callable[[], None] | None = None
        self.copies: deque[Copy] = deque(maxlen=6)
        self.backup: Copy | None = None
        self.on_commit: Callable[[Sequence[Record], Sequence[Row], float], None] = lambda *_: None

    def copy(self) -> Copy:
        """What there is now."""
        rows = len(self.journal._rows)
        return Copy(rows, self._head, dict(self._registered), set(self._joined), dict(self._polls), dict(self.epochs))

    def go_on_from(self, copy: Copy | None) -> int:
        """Another server takes over, with all there is or with an older copy; tells where its journal ends."""
        self.origin += 1
        if copy is not None:
            rows = self.journal._rows[: copy.rows]
            self.journal = journal = MemoryJournal()
            journal.append([RECORDS.unpack(row) for row in rows])
            self._head, self._registered, self._joined = copy.head, dict(copy.registered), set(copy.joined)
            self._polls, self.epochs = dict(copy.polls), dict(copy.epochs)
            self._forget_copies_after(copy.rows)
        return len(self.journal._rows)

    def _forget_copies_after(self, position: int) -> None:
        """A copy counts rows of this journal. One of rows that are lost would cut a later commit in two."""
        self.copies.clear()
        if self.backup is not None and self.backup.rows > position:
            self.backup = None

    def row(self, position: int) -> Row | None:
        """A record as it is stored."""
        return self.journal._rows[position - 1] if 0 < position <= len(self.journal._rows) else None


class Known(NamedTuple):
    """What a node has noted in its directory."""

    life: str = ""
    position: int = 0
    crc: int = 0
    seen: int = 0
    floor: int = 0


class StoreLine:
    """The connections of one life of a node to the store."""

    blocking = True

    def __init__(self, store: SharedStore, node: str, machine: Machine, network: Network) -> None:
        self._store, self._node, self._machine, self._network = store, node, machine, network
        self.is_copy = False
        self._stored_on = 0
        self.on_stored: Callable[[Row], None] = lambda _: None
        self._hears: list[Callable[[], None]] = []

    def servers_seconds(self) -> float:
        """Seconds since 2020, by the clock of the store's server, which is right."""
        return (BEGIN - datetime(2020, 1, 1, tzinfo=UTC)).total_seconds() + self._machine.world_time

    def call(self, work: Callable[[], T]) -> T:
        """One call: it may not get there, or its answer may not come back."""
        network, faults, store = self._network, self._network.faults, self._store
        if ASIDE.get():
            if store.is_away or network.is_cut(self._node, STORE) or network.is_cut(STORE, self._node):
                raise Unavailable("The store cannot be reached.", hint="Wait.")
            return work()
        dice = network.dice(f"{self._node}/store")
        if store.is_away or network.is_cut(self._node, STORE):
            self._machine.latency = dice.uniform(0.01, 2.0)
            raise Unavailable("The store cannot be reached.", hint="Wait.")
        if faults.happens("store-call-lost", network.chances["store-call-lost"], dice):
            self._machine.latency = dice.uniform(0.01, 2.0)
            raise Unavailable("The store did not answer.", hint="Wait.")
        self._machine.latency = ROUND + store.slowness * dice.random()
        came = work()
        is_lost = faults.happens("store-answer-lost", network.chances["store-answer-lost"], dice)
        if is_lost or network.is_cut(STORE, self._node):
            self._machine.latency = dice.uniform(0.01, 2.0)
            raise Unavailable("The store did not answer.", hint="Wait.")
        return came

    def register(self, life: str, node: str, url: str, version: str) -> Sight:
        return self.call(lambda: self._store.register(life, node, url, version))

    def join(self, life: str, position: int) -> Head:
        return self.call(lambda: self._store.join(life, position))

    def beat(self, life: str, steady: int, polls: Mapping[str, int]) -> Sight:
        def work() -> Sight:
            store = self._store
            sight = store.beat(life, steady, polls)
            is_copy = store.written_on != store.origin and sight.head.position > 0
            return sight._replace(head=sight.head._replace(is_copy=is_copy))

        return self.call(work)

    def look(self) -> Sight:
        return self.call(self._store.look)

    def absent(self) -> tuple[Member, ...]:
        return self.call(self._store.absent)

    def polls(self, after: int) -> Mapping[str, int]:
        return self.call(lambda: self._store.polls(after))

    def take_over(self, life: str, epoch: int, beat: int) -> Head | None:
        return self.call(lambda: self._store.take_over(life, epoch, beat))

    def append(self, life: str, epoch: int, records: Sequence[Record], *, steady: int = 0) -> None:
        """Store all records or none; where an append proves that no record is missing here, that is noted."""
        if not records:
            return
        begun, store = self._machine.world_time, self._store

        def work() -> None:
            copy = store.copy()
            store.append(life, epoch, records, steady=steady)
            store.copies.append(copy)
            has_moved = self._stored_on != store.origin and not self.is_copy
            if has_moved or lifts(records):
                store.written_on = store.origin
            self._stored_on = store.origin
            self.is_copy = self.is_copy and not lifts(records)
            store.on_commit(records, store.journal._rows[-len(records) :], begun)

        if store.holds_next:
            store.holds_next, store.late = False, work
            raise Unavailable("The store did not answer.", hint="Wait.")
        if store.slowness:
            self._machine.wait(store.slowness * self._network.dice(f"{self._node}/slow").random())
        self.call(work)
        self.on_stored(RECORDS.pack(records[-1]))

    def applied(self, life: str, position: int) -> None:
        self.call(lambda: self._store.applied(life, position))

    def hold(self, life: str, epoch: int, position: int) -> tuple[str, ...]:
        return self.call(lambda: self._store.hold(life, epoch, position))

    def hidden(self, life: str, position: int) -> None:
        self.call(lambda: self._store.hidden(life, position))

    def show(self, life: str, epoch: int, position: int) -> tuple[str, ...]:
        return self.call(lambda: self._store.show(life, epoch, position))

    def put_out(self, life: str, epoch: int, member: str, beat: int) -> bool:
        return self.call(lambda: self._store.put_out(life, epoch, member, beat))

    def resign(self, life: str) -> None:
        self.call(lambda: self._store.resign(life))

    def leave(self, life: str) -> None:
        self.call(lambda: self._store.leave(life))

    def listen(self, hear: Callable[[News], None]) -> Callable[[], None]:
        """News come a little later, in any order; some do not come, and some come twice."""
        network, node = self._network, self._node
        context = self._machine_context()

        def tell(news: News) -> None:
            faults, dice, chances = network.faults, network.dice(f"{node}/news"), network.chances
            if network.is_cut(STORE, node) or faults.happens("news-lost", chances["news-lost"], dice):
                return
            times = 2 if faults.happens("news-doubled", chances["news-doubled"], dice) else 1
            for _ in range(times):
                is_late = faults.happens("news-late", chances["news-late"], dice)
                delay = dice.uniform(0, 10) if is_late else dice.uniform(0.0002, 0.003)
                network.loop.call_later(delay, hear, news, context=context.copy())

        hear_no_more = self._store.listen(tell)
        self._hears.append(hear_no_more)
        return hear_no_more

    def _machine_context(self) -> Context:
        from contextvars import copy_context

        return copy_context()

    def deaf(self) -> None:
        """Its process is gone."""
        for hear_no_more in self._hears:
            hear_no_more()

    def close(self) -> None:
        """Nothing is held."""


class NodeJournal:
    """The shared journal as one life of a node reads it."""

    blocking = True
    alive: Alive | None = None

    def __init__(self, store: SharedStore, line: StoreLine, notes: dict[str, Known], node: str) -> None:
        self._store, self._line, self._notes, self._node = store, line, notes, node
        self._last = (0, 0)
        known = self._known
        line.on_stored = self._note_stored
        position = len(store.journal._rows)
        self._servers_time = line.servers_seconds(), monotonic()
        self._reached, self.found = position, FoundCopy(position, known.floor)
        is_here = store.written_on == store.origin
        line.is_copy = position > 0 and not (is_here and self._has(known.position, known.crc))
        self.seen = min(position, max(store._head.shown, known.seen))

    def look_again(self) -> None:
        """We lead from now on: is this still the server where all records were stored (N14)?"""
        position, is_here = self._line.call(
            lambda: (len(self._store.journal._rows), self._store.written_on == self._store.origin)
        )
        self._servers_time = self._line.servers_seconds(), monotonic()
        if position > 0 and not is_here:
            self.found, self._line.is_copy = FoundCopy(position, self._known.floor), True

    def seconds_since_2020(self) -> int:
        """As in PostgreSQL's."""
        there, here = self._servers_time
        return int(there + monotonic() - here)

    @property
    def _known(self) -> Known:
        return self._notes.get(self._node, Known())

    def note_lifted(self, position: int, floor: int) -> None:
        """As in PostgreSQL's."""
        self._note(floor=max(floor, self._known.floor))
        if position > self.found.position and floor > self.found.floor:
            self._line.is_copy = False

    def _has(self, position: int, crc: int) -> bool:
        row = self._store.row(position)
        return position == 0 or (row is not None and row.crc == crc)

    @property
    def restored(self) -> bool:
        """Whether this is a copy put in place; until incarnations are lifted."""
        return self._line.is_copy

    def _note(self, **changes: Any) -> None:
        self._notes[self._node] = self._known._replace(**changes)

    def note_life(self, life: str) -> None:
        """This process is the last one here."""
        self._note(life=life)

    def note_seen(self, position: int) -> None:
        """Remember how far readers have seen."""
        self.seen = position
        if not self.restored:
            self._note(seen=position)

    def note_alive(self, alive: Alive) -> None:
        """The store knows the time of the leader's last beat."""

    def _note_stored(self, last: Row) -> None:
        if last.position > self._last[0]:
            self._last = last.position, last.crc
            self._reached = max(self._reached, last.position)
            if not self.restored:
                self._note(position=last.position, crc=last.crc)

    def append(self, records: Sequence[Record]) -> None:
        """Appends go through the members."""
        raise InvariantBroken("A node appends through the members.", hint="Please report this.")

    def newest(self) -> int:
        """Where the journal ends; `Rewound` when that is before what was stored."""
        position = len(self._store.journal._rows)
        if position < self._reached:
            raise Rewound(f"it ends at record {position} although record {self._reached} was stored", hint=_LOST)
        return position

    def read(self, after: int, limit: int | None = None) -> Iterator[Record]:
        """The records behind a position."""
        return iter(self._line.call(lambda: self._records(after, limit)))

    def _records(self, after: int, limit: int | None) -> list[Record]:
        self.newest()
        if after <= self._last[0] and not self._has(*self._last):  # others may have written behind what is left
            raise Rewound(f"record {self._last[0]} is not the one that was stored", hint=_LOST)
        rows = self._store.journal._rows[after : None if limit is None else after + limit]
        found = [RECORDS.unpack(row) for row in rows]
        if not self.found.floor and lifts([record for record in found if record.position > self.found.position]):
            self._line.is_copy = False  # another node has done it
        if rows:
            self._note_stored(rows[-1])
        return found

    def index(self) -> bool:
        return False

    def find(self, prefix: str, limit: int) -> list[Record]:
        return self._line.call(lambda: self._store.journal.find(prefix, limit))

    def first_position(self) -> int:
        return 1

    def last_position(self) -> int:
        return self._line.call(self.newest)

    def snapshot(self) -> Snapshot | None:
        return None

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """All records are read at each start."""

    def needs_upkeep(self) -> bool:
        return False

    def maintain(self) -> None:
        """There is nothing to tidy up."""

    def close(self) -> None:
        """Nothing is held."""


class NodeStore(ClusterStore):
    """What one life of a node has of the store."""

    def __init__(
        self, store: SharedStore, node: str, machine: Machine, network: Network, notes: dict[str, Known]
    ) -> None:
        self.node, self.life, self.way = node, new_life(wall()), WayToLeader()
        if store.is_away or network.is_cut(node, STORE) or network.is_cut(STORE, node):
            raise Unavailable("The store cannot be reached.", hint="Wait.")
        self._last_life, self._was_here = notes.get(node, Known()).life, True
        self.line = line = StoreLine(store, node, machine, network)
        self.members, self._shared = line, store  # type: ignore[assignment]
        journal = NodeJournal(store, line, notes, node)
        self.journal = journal  # type: ignore[assignment]
        journal.note_life(self.life)
        self.shown = store.look().head.shown

    def engine(
        self, own: Clock, policy: Policy, state: State, publisher: Publisher, url: str, lease: float
    ) -> NodeEngine:
        """The engine of this node; its seat does not beat yet."""
        clock = SharedClock(own)
        journal: Any = self.journal
        journal.note_lifted(state.raised_at, state.least_incarnation)
        fenced = _Fenced(journal, self.line, self.life, clock, self.shown, journal)
        identity = Identity(self.life, self.node, url, __version__)
        terms = Terms(micros(lease))
        return NodeEngine(fenced, clock, policy, state, publisher, self.line, identity, self._pass_on, terms)


class _Fenced(FencedJournal):
    """If records are gone that were stored, an append says so."""

    def append(self, records: Sequence[Record]) -> None:
        try:
            super().append(records)
        except InvariantBroken:
            self._journal.newest()  # type: ignore[attr-defined]
            raise


def lifts(records: Sequence[Record]) -> bool:
    """Whether what follows these records is ahead of all that VMs may have seen (S3)."""
    return any(isinstance(record.transition, IncarnationsLifted) for record in records)
