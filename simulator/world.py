"""One world: machines, nodes, operators, VMs and faults, all from one seed; it lives, heals, and is looked at.

First a fleet is applied and clients begin to poll. Then the actions of the plan come, each at its moment. At the end
all faults are over, and what must come true then is checked.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from duenotice.bootstrap.cluster import ClusterStore
from duenotice.bootstrap.ports import NOWHERE
from duenotice.domain.records import Record
from duenotice.engine.node_engine import NodeEngine
from duenotice.engine.ports import Journal
from duenotice.errors import Damaged, DuenoticeError
from duenotice.http.fetch import HttpAnswer
from duenotice.metadata_api.options import MetadataOptions
from duenotice.settings import ServeSettings
from duenotice.store.codec import Row
from simulator import cluster_faults, node_faults, operators
from simulator.agents_in_world import begin_agents
from simulator.agents_machine import AgentVm
from simulator.clients import Client
from simulator.disk import Disk, DiskJournal
from simulator.drivers import ATTEMPTS, OUTSIDE, REPORT_WITHIN, RETRY_AFTER, TIMEOUT, Outside
from simulator.ending import come_to_rest
from simulator.faults import TABLE, Action, Faults
from simulator.fleets import drawn_fleet
from simulator.followers import Follower
from simulator.judge import Judge
from simulator.loop import VirtualLoop
from simulator.machine import BEGIN, Machine, Process
from simulator.network import Network
from simulator.node import Node
from simulator.observatory import Observatory
from simulator.operators import Operator
from simulator.store import Copy, Known, NodeStore, SharedStore
from simulator.transcripts import DIGESTS_ONLY, Recording, Transcripts

__all__ = ["Shape", "World", "cluster_faults", "node_faults", "operators"]

SET_UP = 60.0
"""Seconds until the first action."""
LIMIT = 3
_DRIVEN: dict[str, Any] = {
    "impact": "webhook",
    "impact_url": "http://outside/impact",
    "impact_timeout": TIMEOUT,
    "impact_attempts": ATTEMPTS,
    "impact_retry_after": RETRY_AFTER,
    "impact_report_within": REPORT_WITHIN,
}
"""Settings of nodes whose impacts are carried out by somebody."""


@dataclass(frozen=True)
class Shape:
    """How large a world is: how many nodes and VMs, how long it lives, and how much happens."""

    nodes: int = 1
    vms: int = 20
    seconds: float = 7200.0
    actions: int = 80
    lease: float = 60.0
    agents: int = 0
    driver: str = ""
    """Who carries out impacts: nobody (they are simulated), `webhook` or `command`."""
    followers: int = 0

    @property
    def has(self) -> set[str]:
        """What it has that some actions need."""
        agents = ["agents", "agents among VMs"] if self.agents else []
        followers = ["followers"] if self.followers else []
        return {"lone" if self.nodes == 1 else "cluster", *agents, *followers, self.driver}


class World:
    """What actions find around them."""

    def __init__(
        self,
        seed: int,
        shape: Shape,
        loop: VirtualLoop,
        faults: Faults,
        trace: bool = False,
        recording: Recording = DIGESTS_ONLY,
    ) -> None:
        self.seed, self.shape, self.loop, self.faults = seed, shape, loop, faults
        self.transcripts = Transcripts(loop.time, recording)
        self._trace = trace
        self._context = copy_context()
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._marks = 0
        self._restored_at = BEGIN, 0.0
        self._stale: dict[str, dict[str, str]] = {}
        """Processes of nodes whose word the store has lost since, and whose address each was until then."""
        self._begun: dict[str, dict[str, str]] = {}
        """The same of processes that were about to start in that moment: they may have read what is lost."""
        self._old: list[Process] = []
        """Processes of nodes that have been started again meanwhile."""
        self.over: asyncio.Future[None] = loop.create_future()
        self.violations: list[str] = []
        loop.on_bug = self.broken
        self.network = Network(loop, seed, faults)
        self.observatory = Observatory(loop.time, self.say, self.broken)
        self.judge = Judge(self.observatory, self.broken)
        self.operator = Operator(self)
        self.fleet = drawn_fleet(self.dice("fleet"), shape.vms)
        self.clients: dict[str, Client] = {}
        self.agents: list[AgentVm] = []
        self.has_lost = False
        """Whether a store has lost commits."""
        self.outside = Outside(self, shape.driver)
        self._context.run(OUTSIDE.set, self.outside)
        self.nodes: dict[str, Node] = {}
        self.network.on_written, self.network.on_rest = self._written, self._write_rest
        self.network.on_called = self.answered_operator
        self._make_nodes()
        self.followers = {name: Follower(self, name) for name in "uvwxy"[: shape.followers]}

    # --- what everybody needs ---

    def dice(self, name: str) -> Random:
        """Dice of somebody's own: what others do does not change what they throw."""
        return Random(f"{self.seed}/{name}")

    def say(self, who: str, what: str) -> None:
        """Write a line of the trace."""
        if self._trace:
            print(f"{self.loop.time():10.3f}  {who:12}  {what}", flush=True)

    def broken(self, what: str) -> None:
        """A promise was broken; the world ends."""
        self.say("BROKEN", what)
        self.violations.append(f"at {self.loop.time():.3f}: {what}")
        if not self.over.done() and len(self.violations) <= LIMIT:
            self.over.set_result(None)

    def mark(self) -> int:
        """A number that nobody else gets."""
        self._marks += 1
        return self._marks

    def begin(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Begin something that belongs to no process."""
        task = self.loop.create_task(work, context=self._context.copy())
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.broken(f"the simulator failed: {error!r}")

    def outside_context(self) -> Context:
        """A context for something that belongs to no process."""
        return self._context.copy()

    def later(self, seconds: float, work: Callable[[], object]) -> None:
        """Do something that belongs to no process, some time from now."""
        self.loop.call_later(seconds, work, context=self._context.copy())

    @property
    def names(self) -> list[str]:
        """The names of all nodes."""
        return list(self.nodes)

    def any_node(self, dice: Random) -> str:
        """A node to ask."""
        return dice.choice(self.names) if len(self.nodes) > 1 else next(iter(self.nodes))

    @property
    def doors(self) -> list[str]:
        """The names of all who answer VMs."""
        return [*self.nodes, *self.followers]

    def any_door(self, dice: Random) -> str:
        """Somebody that a VM can ask."""
        return dice.choice(self.doors) if self.followers else self.any_node(dice)

    def token_of(self, name: str) -> str:
        """A token that counts there, if there is one."""
        service = self.nodes[name].service
        return service.token if service is not None and service.token else "none"

    def _written(self, process: Process, address: str, request: bytes, answer: bytes) -> None:
        line = request.partition(b"\r\n")[0].decode("latin-1")
        self.transcripts.answered.add(_name_of(process), "answers", address, f"{line!r}:", data=answer)
        service = process.service
        if service is not None:
            # Whose address it is has been lost too: there it is still as it was.
            then = self._stale.get(_word_of(process))
            self.observatory.written(service.state.position, address, request, answer, then)

    def _write_rest(self, process: Process, address: str, rest: bytes) -> None:
        self.transcripts.answered.add(_name_of(process), "writes to", address, "no whole answer:", data=rest)

    def answered_operator(self, who: str, node: str, method: str, target: str, answer: HttpAnswer) -> None:
        """The operator's port of a node has answered. What nodes and followers ask each other is their own affair."""
        if who in ("operator", "sweep"):
            self.transcripts.operator((node, "answers", who, method, target), answer)

    def _stored(self, records: Sequence[Record], rows: Sequence[Row], decided: float) -> None:
        self.transcripts.rows("record", rows, decided)
        self.observatory.stored(records, decided)

    def _lose_after(self, position: int) -> None:
        self.transcripts.stored.add("everything after record", position, "is lost")
        self.observatory.lost_after(position)

    def _snapshot_stored(self, row: Row) -> None:
        self.transcripts.rows("snapshot", [row], self.loop.time())

    # --- nodes ---

    def _make_nodes(self) -> None:
        if self.shape.nodes == 1:
            self._make_lone_node()
        else:
            self._make_cluster()

    def _make_cluster(self) -> None:
        dice = self.dice("nodes")
        self.store = SharedStore()
        self.store.on_commit = self._stored
        self._notes = notes = dict[str, Known]()

        def open_store(node: Node) -> tuple[Journal | None, ClusterStore | None]:
            opened = NodeStore(self.store, node.name, node.machine, self.network, notes)
            assert node.process is not None
            node.process.on_death.append(opened.line.deaf)
            return None, opened

        for name in "abcde"[: self.shape.nodes]:
            self._add_node(name, Machine(name, self.loop, drift=dice.uniform(-5e-5, 5e-5)), open_store)

    def leader(self) -> Node | None:
        """The node that the store says leads."""
        life = self.store.look().head.leader
        for node in self.nodes.values():
            service = node.service
            if node.is_there and service is not None and isinstance(getattr(service, "engine", None), NodeEngine):
                engine: Any = service.engine
                if engine.seat.identity.life == life:
                    return node
        return None

    def fail_over(self, away: float, copy: Copy | None) -> None:
        """The store is away for a while, and then another server has what the old one had, or an older copy."""
        self.say("store", f"is away for {away:.1f} s")
        self.store.is_away = True

        def back() -> None:
            kept = self.store.go_on_from(copy)
            self.store.is_away = False
            self.say("store", f"is back, at record {kept}")
            if copy is not None:
                self._note_stale(kept)
                self._restored_at = self._set_walls_right()
                self.judge.forget()
                self.has_lost = True
                self._lose_after(kept)

        self.later(away, back)

    def _showing(self) -> list[Process]:
        """All processes that are up."""
        up = [node.process for node in self.nodes.values() if node.process is not None and node.is_up]
        up += [each.process for each in self.followers.values() if each.process is not None and each.is_up]
        return [*up, *(process for process in self._old if not process.is_dead)]

    def _note_stale(self, kept: int) -> None:
        """Everything after a record is lost. Some may still show it for a while, and a follower may turn to them.

        Also who stood still and had read it: when it wakes it hears first that it may be shown. It answers nobody then.
        """
        now = dict(self.observatory.by_address)
        for process in self._showing():
            if max(_shown_by(process), _read_by(process)) > kept:
                self._stale.setdefault(_word_of(process), now)
        begun = (node.process for node in self.nodes.values() if not node.is_up)
        self._begun |= {process.name: now for process in begun if process is not None and not process.is_dead}

    def _set_walls_right(self) -> tuple[datetime, float]:
        """No clock is before what it was at the last restore, give or take what has passed since (0004)."""
        at, then = self._restored_at
        right = at + timedelta(seconds=self.loop.time() - then)
        walls = [node.machine.set_wall_right(right) for node in self.nodes.values()]
        return max(walls), self.loop.time()

    def start_twin(self, node: Node, seconds: float) -> None:
        """Another process of a node begins while the old one stands still; then that one wakes up."""
        old = node.process
        assert old is not None
        self.say(node.name, f"is started again while it stands still, for {seconds:.1f} s")
        old.stop()
        self._old.append(old)
        self._notes.pop(node.name, None)  # in another directory: its own is in use
        node.machine.directories += 1
        node.is_up, node.process = False, None
        self.look_around()
        node.start()
        self.later(seconds, old.go_on)
        self.later(seconds + 600, old.kill)

    def wake_old_processes(self) -> None:
        """One that still stands still would keep the connections of VMs, and answer nobody."""
        for old in self._old:
            old.go_on()

    def _make_lone_node(self) -> None:
        dice = self.dice("nodes")
        machine = Machine("a", self.loop, drift=dice.uniform(-5e-5, 5e-5))
        self.disk = Disk(machine, self.dice("disk"))
        self.disk.on_commit, self.disk.came_true = self._stored, self.faults.count
        self.disk.on_snapshot = self._snapshot_stored
        self.disk.on_kill = lambda: self.kill(self.nodes["a"], dice.uniform(0.5, 60))
        self._add_node("a", machine, self._open_disk)

    def _open_disk(self, _: Node) -> tuple[Journal | None, ClusterStore | None]:
        journal = DiskJournal(self.disk)
        if journal.restored:
            # The lift comes next. A clock that was set back between the lifts of two restores of one copy is the one
            # thing that nobody can make good (0004): people look at it before they start a node on a copy.
            self._restored_at = self._set_walls_right()
        return journal, None

    def _add_node(
        self, name: str, machine: Machine, open_store: Callable[[Node], tuple[Journal | None, ClusterStore | None]]
    ) -> None:
        settings = ServeSettings(
            data_dir=":memory:",
            operator_listen=NOWHERE,
            workers=1,
            log_format="none",
            spot_rebalance=True,
            node=name,
            lease=self.shape.lease,
            journal="postgresql://store" if self.shape.nodes > 1 else "",
            node_url=f"http://{name}:1",
            **(_DRIVEN if self.shape.driver else {}),
        )
        node = Node(name, machine, self.network, settings, open_store, MetadataOptions(spot_rebalance=True))
        node.on_start, node.on_end = self._started, self._ended_by_itself
        node.on_bug = lambda node, error: self.broken(f"the node {node.name} cannot start: {error!r}")
        self.nodes[name] = node

    def _started(self, node: Node) -> None:
        assert node.service is not None
        self.say(node.name, f"is up, at record {node.position}")
        process = node.process
        assert process is not None
        if process.name in self._begun and node.position > max(self.observatory.log, default=0):
            self._stale[process.name] = self._begun[process.name]  # it has not heard of the loss yet, like others

        def published(position: int) -> None:
            if _word_of(process) not in self._stale:
                self.observatory.published(position)

        published(node.position)
        node.service.engine.on_commit.append(lambda records: published(records[-1].position))
        self.look_around()

    def _ended_by_itself(self, node: Node, error: DuenoticeError) -> None:
        self.say(node.name, f"ends: {error.message}")
        self.look_around()
        if isinstance(error, Damaged) and self.shape.nodes == 1:
            return  # `mend_disk` puts a backup in place
        self.start_later(node, 5.0)

    def look_around(self) -> None:
        """Something about nodes has changed: can VMs be answered now (S25)?"""
        self.observatory.can_read(any(node.is_up and node.runs for node in self.nodes.values()))

    def start_later(self, node: Node, seconds: float, boot: bool = False) -> None:
        """Somebody starts it again."""

        def start() -> None:
            if not node.is_there:
                if boot:
                    node.machine.boot()
                self.say(node.name, "starts")
                node.start()

        self.later(seconds, start)

    def kill(self, node: Node, away: float, boot: bool = False) -> None:
        """kill -9, and a new process some time later."""
        self.say(node.name, f"is killed, for {away:.1f} s")
        node.kill()
        if boot:  # no process outlives the power of its machine, also not an old one that stands still
            for old in self._old:
                if old.machine is node.machine and not old.is_dead:
                    old.kill()
        self.look_around()
        self.start_later(node, away, boot)

    def pause(self, node: Node, seconds: float) -> None:
        """SIGSTOP, and SIGCONT some time later."""
        process = node.process
        assert process is not None
        self.say(node.name, f"stands still for {seconds:.1f} s")
        process.stop()
        self.look_around()

        def go_on() -> None:
            process.go_on()
            self.look_around()

        self.later(seconds, go_on)

    async def restart(self, node: Node, away: float) -> None:
        """Stop it as it should be, and start it again."""
        self.say(node.name, "is stopped")
        stopping = self.begin(node.stop())
        self.look_around()
        await asyncio.wait([stopping])
        self.look_around()
        self.start_later(node, away)

    async def restore(self, away: float) -> None:
        """Put an older copy of the journal in place."""
        (node,) = self.nodes.values()
        node.kill()
        self.look_around()
        self.judge.forget()
        self.has_lost = True
        kept = self.disk.restore()
        self._note_stale(kept)
        self._lose_after(kept)
        self.start_later(node, away)

    async def mend_disk(self, away: float) -> None:
        """A damaged journal is noticed at the next start at the latest; then a backup is put in place."""
        (node,) = self.nodes.values()
        self.kill(node, 1.0)
        await asyncio.sleep(30)
        if self.disk.is_damaged:
            if node.is_up:
                self.broken("S5: a node has started on a damaged journal")
            await self.restore(away)

    def heal_stores(self) -> None:
        """Disks and stores work again."""
        if self.shape.nodes == 1:
            self.disk.is_full, self.disk.slowness, self.disk.trouble = False, 0.0, None
        else:
            self.store.slowness = 0.0

    # --- its life ---

    async def live(self, actions: Sequence[Action]) -> None:
        """From the first start to the last look."""
        story = self.begin(self._story(actions))
        await asyncio.wait([story, self.over], return_when=asyncio.FIRST_COMPLETED)
        self.violations += [f"asyncio: {failure}" for failure in self.loop.failures[:LIMIT]]

    async def _story(self, actions: Sequence[Action]) -> None:
        for node in self.nodes.values():
            node.start()
        await asyncio.sleep(10)
        await self.operator.ask("PUT", "/v1/fleet", self.fleet.text())
        for follower in self.followers.values():
            follower.begin()
        taken = begin_agents(self, self.shape.agents)
        for address in [each for each in self.fleet.addresses() if each not in taken]:
            self.clients[address] = Client(self, address)
            self.clients[address].begin()
        for action in actions:
            await asyncio.sleep(max(0.0, SET_UP + action.at - self.loop.time()))
            self._act(action)
        await asyncio.sleep(max(0.0, SET_UP + self.shape.seconds - self.loop.time()))
        await come_to_rest(self)

    def _act(self, action: Action) -> None:
        kind = TABLE[action.kind]
        self.say(f"#{action.number}", f"{kind.name}: {kind.says}")
        if kind.do(self, Random(f"{self.seed}/action/{action.number}")) is not False:
            self.faults.count(kind.name)


def _name_of(process: Process) -> str:
    """The node or follower that a process is a life of."""
    return process.name.partition("-")[0]


def _word_of(process: Process) -> str:
    """The process of the node whose word it shows: a node shows its own."""
    following = getattr(process.service, "following", None)
    return process.name if following is None else str(following._let_by)


def _read_by(process: Process) -> int:
    """Up to which record a node of several has read the journal."""
    seat = getattr(getattr(process.service, "engine", None), "seat", None)
    return 0 if seat is None else int(seat.standing.folded)


def _shown_by(process: Process) -> int:
    """Up to which record VMs can see the journal there."""
    position: int = process.service.publisher.state.position
    return position
