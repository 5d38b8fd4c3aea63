"""Three nodes on one PostgreSQL, as people run them: default settings, a process each."""

import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from time import monotonic, sleep
from typing import Any, NamedTuple

from benchmarks.support.console import step
from benchmarks.support.http import SECONDS, exchange, poll
from benchmarks.support.machine import ANY_CORE, CannotMeasure
from benchmarks.support.node import Node
from benchmarks.support.postgres import Database
from benchmarks.support.yard import Yard

NAMES = ("a", "b", "c")
VMS = 1000
_numbers = count(1)


class Answered(NamedTuple):
    """An operator's call: its status, what it said, and how far the journal was."""

    status: int
    body: Any
    position: int


class Trio:
    """The nodes by name; one that was ended can be started again."""

    def __init__(self, yard: Yard, database: Database, running: ExitStack) -> None:
        self._yard, self._database, self._running = yard, database, running
        self.nodes = {name: self._started(name) for name in NAMES}

    def _started(self, name: str) -> Node:
        folder = self._yard.folder(f"trio-{name}")
        node = Node(
            folder, self._yard.fleet_file(VMS), f"--journal={self._database.url}", f"--node={name}", core=ANY_CORE
        )
        self._running.callback(node.kill)
        return node

    def start(self, name: str) -> None:
        """Another process of a node that has ended."""
        self.nodes[name] = self._started(name)

    def leader(self, *asked: str) -> str:
        """The node that leads, as soon as those who are asked agree."""
        until = monotonic() + SECONDS
        while monotonic() < until:
            named = {self.call(name, "GET", "/v1/nodes").body.get("leader", "") for name in asked or NAMES}
            if len(named) == 1 and "" not in named:
                return str(named.pop())
            sleep(0.05)
        raise CannotMeasure("No node leads.")

    def call(self, name: str, method: str, path: str, body: object = None, patience: float = 2.0) -> Answered:
        """An operator's call at one node; status 0: nobody answered."""
        node = self.nodes[name]
        connection = http.client.HTTPConnection(*node.operator, timeout=patience)
        headers = {"Authorization": f"Bearer {node.token}", "Content-Type": "application/json"}
        with suppress(OSError, http.client.HTTPException, ValueError):
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            said = answer.read()
            connection.close()
            return Answered(answer.status, json.loads(said or b"{}"), int(answer.getheader("Duenotice-Position", 0)))
        connection.close()
        return Answered(0, {}, 0)

    def change(self, name: str, vm: str) -> Answered:
        """A new document for a VM, as it is there when this is answered."""
        return self.call(name, "POST", "/v1/events", {"type": "Freeze", "resources": [vm]})

    def polls(self, name: str, source: str) -> bool:
        """Whether a VM is answered at a node."""
        with suppress(OSError):
            return exchange(self.nodes[name].metadata, poll("Connection: close"), source).startswith(b"HTTP/1.1 200")
        return False


@contextmanager
def trio(yard: Yard, database: Database) -> Iterator[Trio]:
    """Until the block ends."""
    with ExitStack() as running:
        made = Trio(yard, database, running)
        step(f"three nodes on PostgreSQL, {VMS:,} VMs; {made.leader()} leads")
        yield made
