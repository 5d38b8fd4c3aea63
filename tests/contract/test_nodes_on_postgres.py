"""Several engines in one process on a real PostgreSQL, in real time: what VMs read never goes back (N01-N10, S27)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from duenotice.clock import MICROS
from duenotice.domain.commands import ApplyFleet, CancelEvent, EnableScope
from duenotice.domain.policy import Policy
from duenotice.engine.engine import Records, load
from duenotice.engine.fenced_journal import FencedJournal
from duenotice.engine.members import Member
from duenotice.engine.membership import Terms
from duenotice.engine.node_engine import NodeEngine
from duenotice.engine.publisher import Publisher
from duenotice.engine.seat import Identity
from duenotice.engine.shared_time import SharedClock
from duenotice.engine.writer import Ask
from duenotice.errors import DuenoticeError, Unavailable
from duenotice.store.data_dir import CheckpointFile
from duenotice.store.postgres import PostgresJournal
from duenotice.store.postgres_members import PostgresMembers
from duenotice.store.postgres_schema import prepared
from tests.support.postgres import Database
from tests.unit.domain.build import declaration, id_of
from tests.unit.engine.cluster_rig import Line
from tests.unit.engine.rig import SettableClock, reboot

pytestmark = pytest.mark.machine

TERMS = Terms(lease=3 * MICROS // 2)


class Node:
    """A node with connections of its own: one for its seat, one to append, one to read."""

    def __init__(self, url: str, name: str, nodes: "Nodes") -> None:
        seat, appending = PostgresMembers(url), PostgresMembers(url)
        self.line, self.appending = Line(seat), Line(appending)
        life = f"life-{name}"
        journal = PostgresJournal(url, appending, CheckpointFile(None), life)
        clock = SharedClock(SettableClock())
        line: Any = self.line
        to_append: Any = self.appending
        fenced = FencedJournal(journal, to_append, life, clock, seat.look().head.shown)
        publisher = Publisher(asyncio.get_running_loop().call_soon)
        identity = Identity(life, name, f"http://{name}", "1")
        state = load(journal)
        self.engine = NodeEngine(fenced, clock, Policy(), state, publisher, line, identity, nodes.pass_on, TERMS)
        self.engine.start()
        self.engine.seat.start()

    def cut(self, is_cut: bool) -> None:
        """Cut it off from the database, or not any more."""
        self.line.is_cut = self.appending.is_cut = is_cut


class Nodes:
    """All of them, and a VM that asks them all, all the time."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.newest = 0
        self.reads = 0
        self.went_back: list[str] = []

    async def pass_on(self, leader: Member, ask: Ask) -> Records:
        """Without a network between them."""
        (node,) = [node for node in self.nodes if node.engine.seat.identity.life == leader.life]
        if not node.engine.leads:
            raise Unavailable("The node that leads does not know it yet.", hint="")
        return await node.engine.submit(ask.command, ask.actor, ask.receipt)

    async def poll(self) -> None:
        """S27: nobody reads an older incarnation than before, whatever node it asks."""
        while True:
            for node in self.nodes:
                engine = node.engine
                if engine.may_answer() and not engine.curtain.hides("vm/alone"):
                    self.reads += 1
                    incarnation = engine.publisher.state.incarnation("vm/alone")
                    if incarnation < self.newest:
                        self.went_back.append(f"{engine.seat.identity.node}: {incarnation} after {self.newest}")
                    self.newest = max(self.newest, incarnation)
            await asyncio.sleep(0.001)

    async def until(self, condition: Callable[[], object], limit: float = 20.0) -> None:
        async with asyncio.timeout(limit):
            while not condition():  # noqa: ASYNC110 (the condition is what is tested, and leases need real time)
                await asyncio.sleep(0.005)

    async def done(self, node: Node, command: Any) -> Records:
        """Have a command done, by trying again as a client does."""
        async with asyncio.timeout(20):
            while True:
                try:
                    return await node.engine.submit(command, "test")
                except Unavailable:
                    await asyncio.sleep(0.05)

    @property
    def leading(self) -> list[Node]:
        return [node for node in self.nodes if node.engine.leads]


@asynccontextmanager
async def three(url: str) -> AsyncIterator[Nodes]:
    """Three nodes with the demo fleet, polled all the time."""
    prepared(url)
    nodes = Nodes()
    for name in "abc":
        nodes.nodes.append(Node(url, name, nodes))
    polling = asyncio.create_task(nodes.poll())
    try:
        await nodes.until(lambda: all(node.engine.may_answer() for node in nodes.nodes) and nodes.leading)
        await nodes.done(nodes.nodes[0], ApplyFleet(declaration()))
        await nodes.done(nodes.nodes[1], EnableScope("alone"))
        yield nodes
    finally:
        polling.cancel()
        for node in nodes.nodes:
            node.cut(False)
            await node.engine.stop()
    assert nodes.went_back == []


def test_changes_at_any_node_are_shown_by_all(database: Database) -> None:
    """Each command goes to a random node, and is shown there when it is answered."""

    async def story() -> None:
        async with three(database.url) as nodes:
            random = Random(1)
            for number in range(1, 16):
                node = random.choice(nodes.nodes)
                await nodes.done(node, reboot("alone", number))
                assert id_of(number) in node.engine.state.events
                await nodes.done(random.choice(nodes.nodes), CancelEvent(id_of(number)))
            await nodes.until(lambda: len({node.engine.state.position for node in nodes.nodes}) == 1)
            assert len({node.engine.state.incarnation("vm/alone") for node in nodes.nodes}) == 1
            assert nodes.reads > 50

    asyncio.run(story())


def test_a_leader_is_cut_off_and_another_goes_on(database: Database) -> None:
    """What was answered is there; the old one follows when it is back, and what VMs read never goes back."""

    async def story() -> None:
        async with three(database.url) as nodes:
            (old,) = nodes.leading
            others = [node for node in nodes.nodes if node is not old]
            await nodes.done(old, reboot("alone"))
            old.cut(True)
            await nodes.until(lambda: any(node.engine.leads for node in others))
            await nodes.done(others[0], CancelEvent(id_of(1)))
            assert not old.engine.may_answer()
            await nodes.done(others[1], reboot("alone", 2))
            old.cut(False)
            await nodes.until(old.engine.may_answer)
            await nodes.done(old, CancelEvent(id_of(2)))
            await nodes.until(lambda: len({node.engine.state.position for node in nodes.nodes}) == 1)
            assert [dict(node.engine.state.events) for node in nodes.nodes] == [{}] * 3

    asyncio.run(story())


def test_the_leader_hands_over_within_a_second(database: Database) -> None:
    """N07: then the next command is done by another node."""

    async def story() -> None:
        async with three(database.url) as nodes:
            (old,) = nodes.leading
            old.engine.hand_over()
            others = [node for node in nodes.nodes if node is not old]
            await nodes.until(lambda: any(node.engine.leads for node in others), limit=10)
            await nodes.done(old, reboot("alone"))
            assert not old.engine.leads
            assert old.engine.may_answer()

    asyncio.run(story())


def test_commands_and_failures_at_random(database: Database) -> None:
    """A few seconds of everything at once; the seed is fixed, the time is not."""

    async def story() -> None:
        async with three(database.url) as nodes:
            random = Random(7)
            number = 100
            for _ in range(4):
                victim = random.choice(nodes.nodes)
                victim.cut(True)
                for _ in range(4):
                    number += 1
                    node = random.choice([node for node in nodes.nodes if node is not victim])
                    await nodes.done(node, reboot("alone", number))
                    await _cancelled(nodes, node, number)
                victim.cut(False)
                await nodes.until(lambda: all(node.engine.may_answer() for node in nodes.nodes))
            await nodes.until(lambda: len({node.engine.state.position for node in nodes.nodes}) == 1)

    asyncio.run(story())


async def _cancelled(nodes: Nodes, node: Node, number: int) -> None:
    try:
        await nodes.done(node, CancelEvent(id_of(number)))
    except DuenoticeError:
        assert id_of(number) not in node.engine.state.events  # an answer was lost, and it was done at once
