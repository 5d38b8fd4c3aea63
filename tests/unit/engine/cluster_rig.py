"""Several real engines in one process on one store: time passes when told, a node can be cut off, deaf or killed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from duenotice.clock import MICROS
from duenotice.domain import commands
from duenotice.domain.commands import ApplyFleet, Command
from duenotice.domain.policy import Policy
from duenotice.engine.engine import Records, load
from duenotice.engine.fenced_journal import FencedJournal
from duenotice.engine.members import Member, Members, News
from duenotice.engine.membership import Terms, TimePassed
from duenotice.engine.node_engine import NodeEngine
from duenotice.engine.ports import Journal
from duenotice.engine.publisher import Publisher
from duenotice.engine.seat import Identity
from duenotice.engine.shared_time import SharedClock
from duenotice.engine.writer import Ask
from duenotice.errors import Unavailable
from duenotice.store.memory import MemoryMembers
from tests.unit.domain.build import declaration
from tests.unit.engine.rig import SettableClock

LEASE = 6 * MICROS
_CALLS = (
    "register",
    "join",
    "beat",
    "look",
    "take_over",
    "append",
    "applied",
    "hold",
    "hidden",
    "show",
    "put_out",
    "resign",
    "leave",
)


class Line:
    """A node's line to the store: it can be cut, lose the answers to appends, or bring no news."""

    def __init__(self, store: Members) -> None:
        self.blocking = store.blocking
        self.is_cut = self.is_deaf = self.loses_answers = self.refuses_appends = False
        self.meanwhile: Callable[[], object] = lambda: None
        self._store = store

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        return self._tried(name, call) if name in _CALLS else call

    def _tried(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def tried(*args: Any, **kwargs: Any) -> Any:
            self.refuse_if_cut()
            if self.refuses_appends and name == "append":
                self.meanwhile()
                raise Unavailable("the store is full", hint="")
            answer = call(*args, **kwargs)
            if self.loses_answers and name == "append":
                self.is_cut = True
                self.refuse_if_cut()
            return answer

        return tried

    def refuse_if_cut(self) -> None:
        if self.is_cut:
            raise Unavailable("the store cannot be reached", hint="")

    def listen(self, hear: Callable[[News], None]) -> Callable[[], None]:
        return self._store.listen(lambda news: None if self.is_cut or self.is_deaf else hear(news))


class CutJournal:
    """The journal at the end of such a line."""

    def __init__(self, journal: Journal, line: Line) -> None:
        self._journal, self._line = journal, line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def read(self, after: int, limit: int | None = None) -> Any:
        self._line.refuse_if_cut()
        return self._journal.read(after, limit)


class Node:
    """One node with its engine."""

    def __init__(self, cluster: "Cluster", name: str) -> None:
        self.name, self.line, self.clock = name, Line(cluster.store), SettableClock()
        self.is_dead = False
        seen, journal = cluster.store.look().head.shown, CutJournal(cluster.journal, self.line)
        shared = SharedClock(self.clock)
        identity = Identity(f"life-{name}-{len(cluster.nodes)}", name, f"http://{name}", "1")
        fenced = FencedJournal(journal, self.line, identity.life, shared, seen)
        publisher = Publisher(asyncio.get_running_loop().call_soon)
        members: Any = self.line
        self.engine = NodeEngine(
            fenced,
            shared,
            Policy(),
            load(cluster.journal),
            publisher,
            members,
            identity,
            cluster.pass_on,
            Terms(LEASE),
            lambda: cluster.micros,
        )
        self.engine.start()

    @property
    def life(self) -> str:
        return self.engine.seat.identity.life


class Cluster:
    """The nodes, and the time that they all have."""

    def __init__(self, store: Any = None, journal: Journal | None = None) -> None:
        self.store = MemoryMembers() if store is None else store
        self.journal: Journal = self.store.journal if journal is None else journal
        self.micros = 1_000 * MICROS
        self.nodes: list[Node] = []

    async def begin(self, name: str) -> Node:
        """A node starts, and is a member when this returns."""
        node = Node(self, name)
        self.nodes.append(node)
        await self.until(node.engine.may_answer)
        return node

    async def pass_on(self, leader: Member, ask: Ask) -> Records:
        """What one node has another do."""
        (node,) = [node for node in self.nodes if node.life == leader.life]
        if node.is_dead or node.line.is_cut:
            raise Unavailable("the node that leads cannot be reached", hint="")
        return await node.engine.submit(ask.command, ask.actor, ask.receipt)

    async def pass_time(self, micros: int) -> None:
        """Time passes, a twelfth of a second at a time."""
        for _ in range(0, micros, MICROS // 12):
            self.micros += MICROS // 12
            for node in self.nodes:
                if not node.is_dead:
                    node.clock.pass_by(MICROS // 12)
                    node.engine.keep_time()
                    node.engine.seat.tell(TimePassed())
                    self._let_it_tick(node)
            await settle()

    def _let_it_tick(self, node: Node) -> None:
        """What its ticker does: if something is stored that could not be shown, try again."""
        if node.engine.leads and node.engine.behind and not node.engine.is_busy:
            ask(node, commands.Tick()).add_done_callback(lambda done: _ignore(done.exception()))

    async def until(self, condition: Callable[[], object], micros: int = 5 * LEASE) -> None:
        """Time passes until a condition holds."""
        begin = self.micros
        await settle()
        while not condition():
            assert self.micros - begin <= micros, [node.engine.seat.standing for node in self.nodes]
            await self.pass_time(MICROS // 12)

    def kill(self, node: Node) -> None:
        """It does nothing more, and answers nobody."""
        node.is_dead = node.line.is_cut = True

    @property
    def leader(self) -> Node:
        """The one that leads."""
        (node,) = [node for node in self.nodes if node.engine.leads and not node.is_dead]
        return node

    @property
    def others(self) -> list[Node]:
        """The living ones that do not."""
        return [node for node in self.nodes if not node.engine.leads and not node.is_dead]


def _ignore(_: object) -> None:
    return None


async def settle() -> None:
    """Let everything happen that needs no time."""
    for _ in range(30):
        await asyncio.sleep(0)


def ask(node: Node, command: Command) -> "asyncio.Future[Records]":
    """Submit as the test."""
    return node.engine.submit(command, "test")


@asynccontextmanager
async def three(cluster: Cluster | None = None, names: str = "abc") -> AsyncIterator[Cluster]:
    """Three nodes with the demo fleet; the first leads."""
    cluster = cluster or Cluster()
    for name in names:
        await cluster.begin(name)
    done = ask(cluster.nodes[0], ApplyFleet(declaration()))
    await cluster.until(done.done)
    await done
    try:
        yield cluster
    finally:
        for node in cluster.nodes:
            node.line.is_cut = False
            await node.engine.stop()
