"""Lets tests that start one node start three instead, each request to a random one:

`pytest -p tests.support.three_nodes …`. The nodes are whole services in one process, on one store in memory. All that
a VM or an operator sees must be the same, so these tests must pass as they are; `ALONE` has the few that cannot.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest
import structlog

from duenotice import __version__
from duenotice.azure_api.signing_keys import SecretStore
from duenotice.bootstrap.cluster import ClusterStore
from duenotice.bootstrap.node import Service
from duenotice.clock import Clock, Instant, ManualClock, micros, seconds, wall
from duenotice.domain.policy import Policy
from duenotice.domain.state import State
from duenotice.engine.fenced_journal import FencedJournal
from duenotice.engine.last_polls import EVERY, LastPolls
from duenotice.engine.lives import new_life
from duenotice.engine.membership import Terms
from duenotice.engine.node_engine import NodeEngine
from duenotice.engine.publisher import Publisher
from duenotice.engine.seat import Identity
from duenotice.engine.shared_time import SharedClock
from duenotice.operator_api.way_to_leader import WayToLeader
from duenotice.store.memory import MemoryMembers
from duenotice.testkit.emulator import Emulator
from duenotice.wire.spans import parse_duration
from tests.support.node import Node, Outside
from tests.support.seed import SEED

NAMES = ("a", "b", "c")
NOT_HERE = {
    "test_A01_address_and_port_are_settings": "an address and a port belong to one node",
    "test_the_description_has_every_call_and_only_those": "several nodes have two calls more: those about nodes",
    "test_the_pace_of_a_scaled_clock_can_be_set": "each node has a scaled clock of its own",
}
"""What cannot run on several nodes of one process, and why. A13 is about DHCP, and asks one address for all nodes."""

AT_ONE_NODE = {"test_A08_approvals_have_a_budget_of_their_own": "throttles are per node (N13)"}
"""What runs on three nodes, but asks only one of them, and why."""

_STORES: dict[str, tuple[MemoryMembers, "OneTime"]] = {}
"""What is there when nodes are started again, by their data directory."""


class OneTime(ManualClock, SharedClock):
    """The manual clock of all nodes: one object, so nobody has to tell another the time. Leases count real time."""

    def follow(self, steady: int, epoch: int, position: int = 0) -> None:
        """Nothing: it is the leader's."""

    def lead(self, last: Instant) -> timedelta:
        """It goes on from where it is, and is not behind."""
        return timedelta()


class MemoryStore(ClusterStore):
    """The store of one node, in memory; `members` and `clock` are those of all nodes."""

    def __init__(self, node: str, members: MemoryMembers, clock: OneTime) -> None:
        self.node, self.life, self._clock = node, new_life(wall()), clock
        self.way, self._last_life = WayToLeader(), ""
        self.shared, self.journal = members, members.journal  # type: ignore[assignment]

    def signing_keys(self) -> SecretStore:
        """Those of all nodes."""
        return self.shared.signing_keys

    def engine(
        self, own: Clock, policy: Policy, state: State, publisher: Publisher, url: str, lease: float
    ) -> NodeEngine:
        """The engine of this node, on the time of all."""
        clock = self._clock if own.speed == 0.0 else SharedClock(own)
        fenced = FencedJournal(self.journal, self.shared, self.life, clock, self.shared.look().head.shown)
        identity = Identity(self.life, self.node, url, __version__)
        terms = Terms(micros(lease))
        return NodeEngine(fenced, clock, policy, state, publisher, self.shared, identity, self._pass_on, terms)


class NodeEmulator(Emulator):
    """An emulator that is one of several nodes."""

    def __init__(self, store: MemoryStore, **settings: Any) -> None:
        super().__init__(node=store.node, **settings)
        self._store = store

    def _made(self) -> Service:
        return Service(self._settings, self.request_log, options=self._options, store=self._store)

    def tell_of_polls(self) -> None:
        """Tell the others of all polls here. A beat that came just before may have told of some, and is on its way."""
        store, publisher = self._store, self.service.engine.publisher
        store.shared.beat(store.life, 0, LastPolls(publisher, 0).gather(0))

    def hear_of_polls(self) -> None:
        """Hear of the polls at the others."""
        LastPolls(self.service.engine.publisher, 0).merge(self._store.shared.polls(0))


def three_emulators(data_dir: str, **settings: Any) -> Sequence[Emulator]:
    """A service of three nodes; if it has a directory, it goes on from what it was when it was last there."""
    members, clock = _STORES.get(data_dir) or (MemoryMembers(), OneTime())
    if data_dir != ":memory:":
        Path(data_dir).mkdir(exist_ok=True)
        _STORES[data_dir] = members, clock
    return [NodeEmulator(MemoryStore(name, members, clock), data_dir=data_dir, **settings) for name in NAMES]


def advance(node: Node, by: str) -> None:
    """Let time pass, and let the nodes hear of each other's polls at its beginning, as they do every ten minutes."""
    span, first = micros(parse_duration(by)), EVERY
    if span > first:
        Outside.advance(node, "10m")
        emulators = [emulator for emulator in node.emulators if isinstance(emulator, NodeEmulator)]
        for emulator in emulators:
            emulator.call(emulator.tell_of_polls)
        for emulator in emulators:
            emulator.call(emulator.hear_of_polls)
        span -= first
    Outside.advance(node, f"{seconds(span)}s")


class Chance(Random):
    """Chooses the node of each request, and counts."""

    asked: ClassVar[Counter[str]] = Counter()

    def choice(self, seq: Any) -> Any:
        """Any of the nodes."""
        chosen = super().choice(seq)
        self.asked[chosen.service.node] += 1
        return chosen


class OneChoice(Random):
    """Chooses always the same."""

    def choice(self, seq: Any) -> Any:
        """One of the nodes."""
        return seq[SEED % len(seq)]


def pytest_sessionstart() -> None:
    """From now on a node is three."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    Node.make_emulators = staticmethod(three_emulators)
    Node.advance = advance  # type: ignore[method-assign, assignment]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What cannot run here is named in the summary."""
    for item in items:
        if why := NOT_HERE.get(_name(item)):
            item.add_marker(pytest.mark.skip(reason=why))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The nodes that this test asks do not depend on the tests before it."""
    Node.chance = OneChoice() if _name(item) in AT_ONE_NODE else Chance(f"{SEED} {item.nodeid}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How often each node was asked."""
    terminalreporter.write_line(f"asked on {len(NAMES)} nodes with DUENOTICE_SEED={SEED}: {dict(Chance.asked)}")


def _name(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", item.name))
