"""A node and its followers as real processes, and a VM that asks any of them and never goes back."""

import http.client
import json
import random
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.crash.server import PROGRAM, Server
from tests.support.node import HEADER, SECONDS, Outside, events_at
from tests.support.ports import free_port

LEASE = 1.5
EVERY = 0.005
"""Seconds between two polls: a port is free a minute after its connection, and one address has 28,000 of them."""
FLEET = """
[[hosts]]
name = "h1"
[[hosts]]
name = "h2"
[[vms]]
name = "db-0"
address = "127.0.1.10"
host = "h1"
[[vms]]
name = "db-1"
address = "127.0.1.11"
host = "h2"
[[availability_sets]]
name = "web"
vms = [
  { name = "web-0", address = "127.0.2.1", update_domain = 0, host = "h1" },
  { name = "web-1", address = "127.0.2.2", update_domain = 1, host = "h2" },
]
"""
ADDRESSES = {"db-0": "127.0.1.10", "db-1": "127.0.1.11", "web-0": "127.0.2.1", "web-1": "127.0.2.2"}


class Asked(Outside):
    """Somebody that answers VMs, and passes operators on."""

    def __init__(self, server: Server, token: str) -> None:
        self.server, self.token = server, token
        self.metadata_address, self.operator_address = server.metadata, server.operator

    def address(self, vm: str) -> str:
        """The source address of a VM."""
        return ADDRESSES.get(vm, vm)


class FollowingServer(Server):
    """`duenotice serve --follow` as a process of its own."""

    def __init__(self, url: str, token_file: Path, **more: object) -> None:
        self._token_file = token_file
        super().__init__(Path(), Path(), **{"follow": url, "follow_token_file": token_file, **more})

    def command(self, data_dir: Path, fleet: Path, flags: list[str]) -> list[str]:
        """It has no fleet and no directory."""
        return [str(PROGRAM), "serve", *flags]

    def token_file(self) -> Path:
        """The only token it has is its own."""
        return self._token_file


class Flock:
    """One node on a data directory that outlives it, and as many followers as a test wants."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self._folder, self._settings = folder, settings
        self._fleet = folder / "fleet.toml"
        self._fleet.write_text(FLEET)
        self._operator_port = free_port()
        self._running: list[Server] = []
        self.node = self.start_node()
        made = self.node.operate("/v1/tokens", {"name": "shadow", "role": "follower"})
        self.token_file = folder / "shadow.token"
        self.token_file.write_text(made["token"])

    @property
    def url(self) -> str:
        """Where the node can be followed; it comes back there."""
        return f"http://127.0.0.1:{self._operator_port}"

    def start_node(self) -> Asked:
        """The node, or another process of it."""
        listen = f"127.0.0.1:{self._operator_port}"
        settings = {"operator_listen": listen, "lease": LEASE, **self._settings}
        server = self._started(Server(self._folder / "data", self._fleet, **settings))
        self.node = Asked(server, server.token)
        return self.node

    def follower(self, **more: object) -> Asked:
        """A follower that may answer."""
        flags = {"follow_token_file": self.token_file, "maintenance_lasts": 600, **more}
        return Asked(self._started(FollowingServer(self.url, self.token_file, **flags)), self.node.token)

    def _started(self, server: Server) -> Server:
        self._running.append(server)
        server.wait_until_serving()
        return server

    def close(self) -> None:
        """End all that still run."""
        for server in self._running:
            if server.alive():
                server.thaw()
                server.kill()


@contextmanager
def flock(folder: Path, **settings: object) -> Iterator[Flock]:
    """A node that can be followed."""
    made = Flock(folder, **settings)
    try:
        yield made
    finally:
        made.close()


class Walker(threading.Thread):
    """A VM that asks one door after another, chosen at random, and notes every answer (S3, S4, S27)."""

    def __init__(self, vm: str, doors: list[Asked], seed: int, sources: Sequence[str] = ()) -> None:
        """It has several `sources` where it is the VM that unknown addresses count as."""
        super().__init__(daemon=True)
        self.vm, self.doors, self._random = vm, doors, random.Random(seed)
        self._sources = sources or (vm,)
        self.answers = self.refusals = 0
        self.wrong: list[str] = []
        self.newest = 0
        self._bytes: dict[int, bytes] = {}
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(EVERY):
            door = self._random.choice(list(self.doors))
            with suppress(OSError, http.client.HTTPException):
                self._ask(door)

    def _ask(self, door: Asked) -> None:
        source = (door.address(self._random.choice(self._sources)), 0)
        connection = http.client.HTTPConnection(*door.metadata_address, timeout=4 * LEASE, source_address=source)
        try:
            connection.request("GET", events_at(), headers=HEADER)
            answer = connection.getresponse()
            self._note(answer.status, answer.read())
        finally:
            connection.close()

    def _note(self, status: int, body: bytes) -> None:
        if status != 200:
            self.refusals += 1
            return
        self.answers += 1
        incarnation = int(json.loads(body)["DocumentIncarnation"])
        if incarnation < self.newest:
            self.wrong.append(f"read {incarnation} after {self.newest}")
        if self._bytes.setdefault(incarnation, body) != body:
            self.wrong.append(f"two documents of {incarnation}")
        self.newest = max(self.newest, incarnation)

    def finish(self) -> None:
        """Ask no more."""
        self._over.set()
        self.join(SECONDS)


def changes(node: Asked, vm: str) -> Any:
    """Raise an event on a VM and cancel it: two new documents. A node that is being killed may not answer."""
    with suppress(AssertionError, OSError, http.client.HTTPException):
        (event,) = node.operate("/v1/events", {"type": "Reboot", "resources": [vm]})
        return node.operate(f"/v1/events/{event['id']}/cancel", {})


def said_at_start(*flags: str) -> tuple[int, str]:
    """How a start ends, and what it says."""
    done = subprocess.run(
        [str(PROGRAM), "serve", "--metadata-listen=127.0.0.1:0", "--operator-listen=none", "--log-format=none", *flags],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    return done.returncode, done.stderr


def until(seconds: float) -> float:
    """A moment in the near future."""
    return time.monotonic() + seconds
