"""Several nodes and one store in one made-up time: everything that decides is real, only time and messages are made.

Calls to the store may get lost on the way there or back, be late, or be done long after the caller gave up. News may
get lost, doubled, late. A node may be stopped and wake up, be killed and come back as a new life, be cut off. Each node
has a clock of its own that runs up to four hundredths too fast or too slow and began at another number.
"""

import heapq
import itertools
from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple

from duenotice.clock import LONGEST_PAUSE, MICROS, Instant, _RunningClock
from duenotice.domain.records import Record, ScopeEnabled
from duenotice.engine import membership as m
from duenotice.engine.members import Deposed, News, NotMember, Replaced
from duenotice.engine.membership import NodePhase, Standing, Terms
from duenotice.engine.shared_time import SharedClock
from duenotice.engine.standing import may_answer, step
from duenotice.errors import Conflict, DuenoticeError
from duenotice.store.memory import MemoryMembers
from duenotice.testkit.journal_contract import NOON

REVEALING = 500
"""Microseconds until VMs see what is to be shown: other work may have to be done first."""
DRIFT = 0.04
SCOPES = ("vm/a", "vm/b", "vm/c")
GIVE_UPS = (MICROS, 4 * MICROS, 20 * MICROS)
"""How long a node may wait for the answer to a call; one of them in each world."""


class _OwnClock(_RunningClock):
    """A node's real clock, read from its made-up time since boot."""

    name = "real"

    def now(self) -> Instant:
        return Instant(NOON, self._passed())

    def mark(self):  # pragma: no cover - nobody asks
        raise NotImplementedError


class Writing(NamedTuple):
    """A record that was appended: under which epoch, at which steady time, and when that was in truth."""

    position: int
    epoch: int
    steady: int
    at: int


class Node:
    """One process: what the engine and the doors of a node would do, as simply as possible."""

    def __init__(self, world: "World", name: str, life: str) -> None:
        self.world, self.name, self.life = world, name, life
        self.rate = 1 + world.random.uniform(-DRIFT, DRIFT)
        self.booted = world.random.randrange(10**12)
        self.standing = Standing(life, world.terms)
        self.records: list[Record] = []  # folded
        self.folded: dict[str, int] = dict.fromkeys(SCOPES, 0)  # the version of each document
        self.shown = dict(self.folded)
        self.held: set[str] = set()
        self.revealed = self.allowed = 0
        self.is_stopped = self.is_dead = self.is_cut = self.is_blind = False
        self.epoch: int | None = None  # while it leads
        self.is_appending = self.stops_after_beat = False
        self.clock = SharedClock(_OwnClock(self.now))
        self.clock.hold()
        self.queue: list[Callable[[], None]] = []  # what arrives while it is stopped
        self.hear_no_more = world.store.listen(self.hear)
        self.every(world.terms.every // 4, lambda: self.tell(m.TimePassed()))
        self.every(MICROS // 4, self.count)
        self.every(MICROS // 5, self.show_what_is_left)
        self.every(MICROS // 50, self.take_command)

    def now(self) -> int:
        """Its own time since boot."""
        return self.booted + int(self.world.now * self.rate)

    def every(self, micros: int, act: Callable[[], None]) -> None:
        """Do it again and again, as long as it lives."""

        def again() -> None:
            if not self.is_dead:
                self.world.later(micros, again)
                if not self.is_stopped:
                    act()

        self.world.later(self.world.random.randrange(micros), again)

    def at_work(self, act: Callable[[], None]) -> None:
        """Do it now, or when it wakes up, or never."""
        if self.is_stopped:
            self.queue.append(act)
        elif not self.is_dead:
            act()

    def may_answer(self) -> bool:
        return not (self.is_stopped or self.is_dead) and may_answer(self.standing, self.now())

    def read(self, scope: str) -> int | None:
        """The version of a scope's document that a VM gets; None: no answer, or it is held back."""
        return None if scope in self.held or not self.may_answer() else self.shown[scope]

    def count(self) -> None:
        """Time in which it may answer is notice (S25)."""
        if self.may_answer():
            self.clock.run()
            self.clock.beat()
            self.world.answered.append(self.world.now)

    # --- what it is told, and what it does then ---

    def hear(self, news: News) -> None:
        if not self.is_dead and not (self.is_cut or self.world.chance(self.world.losses)):
            for _ in range(1 + self.world.chance(0.1)):
                self.world.later(self.world.delay(), lambda: self.at_work(lambda: self.tell(m.HeardFromStore(news))))

    def tell(self, message: m.Message) -> None:
        if isinstance(message, m.Beaten | m.Looked) and self.epoch is None:
            head = message.sight.head
            if head.leader != self.life:
                self.clock.follow(head.steady, head.epoch, head.position)
        self.standing, actions = step(self.standing, message, self.now())
        for action in actions:
            self.do(action)

    def do(self, action: m.Action) -> None:
        store, life = self.world.store, self.life
        sent = self.now()
        match action:
            case m.Register():
                self.call(action, lambda: store.register(life, self.name, "", "1"), m.Registered)
            case m.Join(position):
                self.call(action, lambda: store.join(life, position), m.Joined)
            case m.Beat():
                steady = self.clock.now().steady
                self.call(action, lambda: store.beat(life, steady, {}), partial(m.Beaten, sent))
                self.is_stopped = self.is_stopped or self.stops_after_beat
            case m.Look():
                self.call(action, store.look, m.Looked)
            case m.TakeOver(epoch, beat):
                self.call(action, lambda: store.take_over(life, epoch, beat), m.TookOver)
            case m.SayApplied(position):
                self.call(action, lambda: store.applied(life, position), lambda _: None)
            case m.AskToHold(epoch, position):
                self.call(action, lambda: store.hold(life, epoch, position), partial(m.Asking, position))
            case m.HoldUpTo(position):
                self.held |= {scope for scope in SCOPES if self.folded[scope] != self.shown[scope]}
                self.world.later(self.world.delay(), lambda: self.at_work(lambda: self.tell(m.Held(position))))
            case m.SayHidden(position):
                self.call(action, lambda: store.hidden(life, position), lambda _: None)
            case m.ShowUpTo(epoch, position):
                self.call(action, lambda: store.show(life, epoch, position), partial(m.Showing, position))
            case m.PutOut(epoch, other, beat):
                answer = lambda done: m.MemberGone(other) if done else None  # noqa: E731
                self.call(action, lambda: store.put_out(life, epoch, other, beat), answer)
            case m.Resign():
                self.call(action, lambda: store.resign(life), lambda _: None)
            case m.Leave():
                self.call(action, lambda: store.leave(life), lambda _: None)
                self.is_dead = True
            case m.Read() if self.is_blind:
                self.world.later(1000, lambda: self.at_work(lambda: self.tell(m.CallBroke(action))))
            case m.Read(position):
                known = len(self.records)
                limit = max(0, position - known)
                self.call(action, lambda: list(store.journal.read(known, limit)), lambda read: self.fold(read, sent))
            case m.Reveal(position):
                assert position == len(self.records)
                self.allowed = position
                self.world.later(REVEALING, lambda: self.at_work(self.reveal))
            case m.Lead(epoch):
                self.epoch = epoch
                self.clock.lead(Instant(NOON, store.look().head.steady))
            case m.Follow():
                self.epoch = None
            case m.End() | m.BeginAgain():
                self.world.kill(self)

    def reveal(self) -> None:
        """Some time after it was asked for: it waits for its turn. What is behind it has to be allowed too."""
        if self.allowed >= len(self.records):
            self.revealed, self.shown, self.held = len(self.records), dict(self.folded), set()
        self.tell(m.Revealed(self.revealed))

    def fold(self, records: list[Record], begun: int = 0) -> m.Message:
        for record in records:
            if record.position == len(self.records) + 1:
                self.records.append(record)
                assert isinstance(record.transition, ScopeEnabled)
                self.folded[record.transition.scope] = record.position
        if self.standing.phase is NodePhase.READING and not self.revealed:
            self.shown = dict(self.folded)  # it begins with this state, and has nothing older to hide
        return m.Folded(len(self.records), begun=begun)

    def call(self, action: m.Action, act: Callable[[], object], answer: Callable[..., m.Message | None]) -> None:
        """Ask the store, over a network that may lose or delay it on both ways."""

        def failed() -> None:
            self.at_work(lambda: self.tell(m.CallBroke(action)))

        self.world.call(self, act, lambda got: self.at_work(lambda: self.tell_all(answer(got))), failed)

    # --- its engine ---

    def take_command(self) -> None:
        every = self.world.commands_every
        if every and self.world.chance(MICROS / 50 / every):
            self.write(self.world.random.choice(SCOPES))

    def write(self, scope: str) -> None:
        """A command, if it leads and has nothing under way: decide now, append, hide, have it shown."""
        if self.epoch is None or self.is_stopped or self.is_appending or len(self.records) < self.standing.known:
            return
        store, epoch, steady = self.world.store, self.epoch, self.clock.now().steady
        record = Record(len(self.records) + 1, NOON, "operator", ScopeEnabled(scope))
        self.is_appending = True

        def append() -> None:
            store.append(self.life, epoch, [record], steady=steady)
            self.world.writings.append(Writing(record.position, epoch, steady, self.world.now))

        def done(_: object) -> m.Message | None:
            self.is_appending = False
            self.fold([record])
            return m.Wrote(len(self.records))

        def failed() -> None:
            def recover() -> None:
                # Whether it was stored is not known: what the journal has is read, as the engine does.
                self.is_appending = False
                self.do(m.Read(record.position))

            self.at_work(recover)

        self.world.call(self, append, lambda got: self.at_work(lambda: self.tell_all(done(got))), failed)

    def tell_all(self, message: m.Message | None) -> None:
        if message is not None:
            self.tell(message)

    def show_what_is_left(self) -> None:
        """A new leader shows what the old one has stored; what did not work is tried again."""
        position = len(self.records)
        is_idle = self.epoch is not None and not self.is_appending
        if is_idle and position >= self.standing.known and position > self.standing.may_show:
            self.tell(m.Wrote(position))


class World:
    """Nodes, a store, a network and time, all from one seed."""

    def __init__(self, seed: int, nodes: int = 3) -> None:
        self.random = Random(seed)
        self.terms = Terms(6 * MICROS)
        self.now = 0
        self.losses = self.lateness = 0.0
        self.give_up = self.random.choice(GIVE_UPS)
        self.commands_every = 0  # microseconds between commands at each node; 0: none
        self.store = MemoryMembers()
        self.writings: list[Writing] = []
        self.answered: list[int] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._lives = itertools.count(1)
        self.read_before: dict[str, int] = dict.fromkeys(SCOPES, 0)
        self.reads = 0
        self.nodes = [self._born(f"node-{n}") for n in range(nodes)]

    def _born(self, name: str) -> Node:
        return Node(self, name, f"life-{next(self._lives)}")

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def delay(self) -> int:
        """A message takes some milliseconds, or, if things are bad, up to three leases."""
        if self.chance(self.lateness):
            return self.random.randrange(3 * self.terms.lease)
        return self.random.randrange(200, 5_000)

    def later(self, micros: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + micros, next(self._count), act))

    def call(
        self, node: Node, act: Callable[[], object], answered: Callable[[object], None], failed: Callable[[], None]
    ) -> None:
        """One call of a node. It is answered once, or has failed; a call that has failed may still be done later."""
        is_over = False

        def end(finish: Callable[[], None]) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                finish()

        def there() -> None:
            if node.is_cut and self.chance(0.9):
                return
            outcome = self._done(node, act)
            if not (node.is_cut or self.chance(self.losses)):
                self.later(self.delay(), lambda: end(lambda: outcome(answered)))

        if not (node.is_cut or self.chance(self.losses)):
            self.later(self.delay(), there)
        self.later(self.give_up, lambda: end(failed))

    def _done(self, node: Node, act: Callable[[], object]) -> Callable[[Callable[[object], None]], None]:
        refused: dict[type[DuenoticeError], m.Message] = {
            NotMember: m.WasPutOut(),
            Replaced: m.WasReplaced(),
            Deposed: m.WasDeposed(),
            Conflict: m.WasDeposed(),
        }
        try:
            got = act()
        except tuple(refused) as error:
            message = refused[type(error)]

            def refuse(_: object) -> None:
                if message == m.WasDeposed():
                    node.is_appending = False
                node.at_work(lambda: node.tell(message))

            return refuse
        return lambda answered: answered(got)

    def run(self, micros: int) -> None:
        """Let time pass, and let VMs ask all nodes all the time."""
        end = self.now + micros
        while self._events and self._events[0][0] <= end:
            self.now, _, act = heapq.heappop(self._events)
            act()
            self.check()
        self.now = end
        self.check()

    # --- what happens to nodes ---

    def stop(self, node: Node) -> None:
        node.is_stopped = True

    def stop_after_beat(self, node: Node) -> None:
        """Stop it while the answer to its next beat is on its way."""
        node.stops_after_beat = True

    def wake(self, node: Node) -> None:
        """It goes on with what came meanwhile, in any order; but VMs may be the first to ask."""
        node.is_stopped = node.stops_after_beat = False
        self.check()
        waiting, node.queue = node.queue, []
        self.random.shuffle(waiting)
        for act in waiting:
            node.at_work(act)
            self.check()

    def kill(self, node: Node) -> None:
        node.is_dead = True
        node.hear_no_more()

    def start(self, node: Node) -> None:
        """A new life of a node; the old one may still be there."""
        self.nodes.append(self._born(node.name))

    # --- what must hold, always ---

    def check(self) -> None:
        """S27, S3: whatever node is asked, nobody reads anything older than what was read before."""
        read = [(scope, node, node.read(scope)) for node in self.nodes for scope in SCOPES]
        for scope, node, version in read:
            if version is not None:
                self.reads += 1
                before = self.read_before[scope]
                assert version >= before, f"{node.name} ({node.life}) shows {version} of {scope} after {before}"
        for scope, _, version in read:
            self.read_before[scope] = max(self.read_before[scope], version or 0)

    def check_journal(self) -> None:
        """S21, N01, N10: one writer for each epoch, epochs in order, and time that neither goes back nor leaps."""
        positions = [record.position for record in self.store.journal.read(0)]
        assert positions == list(range(1, len(positions) + 1))
        assert [writing.position for writing in self.writings] == positions
        assert [self.store.epochs[position] for position in positions] == [w.epoch for w in self.writings]
        for before, after in itertools.pairwise(self.writings):
            assert before.epoch <= after.epoch
            assert before.steady <= after.steady
        for writing in self.writings:
            assert writing.steady <= self.notice_until(writing.at) * (1 + DRIFT) + 1

    def notice_until(self, at: int) -> int:
        """All time until then in which some node could answer, or had answered shortly before (S25)."""
        total = end = 0
        for begin in self.answered:
            if begin > at:
                break
            until = min(at, begin + int(LONGEST_PAUSE / (1 - DRIFT)))
            total += max(0, until - max(begin, end))
            end = max(end, until)
        return total

    @property
    def alive(self) -> list[Node]:
        return [node for node in self.nodes if not node.is_dead]

    def heal(self) -> None:
        """All faults are over; a node with two living lives keeps the newest."""
        self.losses = self.lateness = 0.0
        for node in self.alive:
            node.is_cut = node.is_blind = False
            self.wake(node)

    def check_all_is_well(self) -> None:
        """Liveness: one node leads, all that is stored is shown, and every node answers with it."""
        leading = [node for node in self.alive if node.standing.phase is NodePhase.LEADING]
        assert len(leading) == 1, [(node.life, node.standing.phase) for node in self.alive]
        position = self.store.look().head.position
        for node in self.alive:
            assert node.may_answer(), node.standing
            assert node.revealed == position, (node.life, node.standing)
