"""Three real `duenotice serve` processes on one real PostgreSQL, each with a line to it that can fail."""

import http.client
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.cluster.places import LOOPBACK_FLEET, NAMES, Loopback
from tests.cluster.versions import INSTALLED
from tests.crash.server import Server
from tests.support.postgres import Database
from tests.support.served import wait_until

__all__ = ["FLEET", "LEASE", "NAMES", "Reply", "Trio", "ask", "trio"]

LEASE = 1.0
FLEET = LOOPBACK_FLEET
HEADER = {"Metadata": "true"}
DOCUMENT = "/metadata/scheduledevents?api-version=2020-07-01"


class Reply(NamedTuple):
    """What came back; status 0: nothing did."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    address: tuple[str, int],
    method: str,
    target: str,
    body: object = None,
    headers: dict[str, str] | None = None,
    source: str = "",
    patience: float = 15.0,
) -> Reply:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection(*address, timeout=patience, source_address=(source, 0) if source else None)
    try:
        connection.request(method, target, None if body is None else json.dumps(body), headers or {})
        answer = connection.getresponse()
        return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    except (OSError, http.client.HTTPException):
        return Reply(0, {}, b"")
    finally:
        connection.close()


class NodeServer(Server):
    """A node at its place, started as one of some versions."""

    def __init__(self, program: Sequence[str], data_dir: Path, fleet: Path, **more: object) -> None:
        self._program = program
        super().__init__(data_dir, fleet, **more)

    def command(self, data_dir: Path, fleet: Path, flags: list[str]) -> list[str]:
        """What to run."""
        return [*self._program, *super().command(data_dir, fleet, flags)[1:]]


class Trio:
    """The nodes, by name."""

    def __init__(self, folder: Path, database: Database, place: Loopback | None = None, **settings: object) -> None:
        """On the loopback, if nothing else is said."""
        self._folder, self._settings = folder, settings
        self.place = place = place or Loopback()
        ends = {name: place.line(name, folder, database) for name in NAMES}
        self.lines = {name: line for name, (line, _) in ends.items()}
        self._urls = {name: url for name, (_, url) in ends.items()}
        self.programs: dict[str, Sequence[str]] = dict.fromkeys(NAMES, INSTALLED)
        """As what each node is started."""
        self.servers: dict[str, Server] = {name: self._begin(name) for name in NAMES}
        self._wait_for_all()
        self.token = self.servers["a"].token

    def _wait_for_all(self) -> None:
        try:
            for server in self.servers.values():
                server.wait_until_serving()
        except AssertionError as error:  # one waits for another: the reason is in the log of that one
            logs = "\n".join(f"{name}:\n{server.log()}" for name, server in self.servers.items())
            raise AssertionError(f"{error}\nThe logs of all nodes:\n{logs}") from error

    def _begin(self, name: str) -> Server:
        program = [*self.place.inside(name), *self.programs[name]]
        more: dict[str, object] = {"journal": self._urls[name], "node": name, "lease": LEASE}
        given = self._listening(name) | more | self._settings
        return NodeServer(program, self._folder / name, self.place.fleet, **given)

    def _listening(self, name: str) -> dict[str, object]:
        """Where a node listens: at a new port each time."""
        address = self.place.nodes[name]
        return {"metadata_listen": f"{address}:0", "operator_listen": f"{address}:0"}

    def start(self, name: str) -> None:
        """Start a node that has ended."""
        server = self._begin(name)
        server.wait_until_serving()
        self.servers[name] = server

    def operate(self, name: str, method: str, target: str, body: object = None, key: str = "") -> Reply:
        """Ask as the operator, at one node."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        return ask(self.servers[name].operator, method, target, body, headers, patience=3.0)

    def want_every_notice(self) -> None:
        """The events of `me` wait, also while others of it have started (M14)."""
        wish = {"all_instances_down": False}
        answer = self.operate(self.leader(), "PUT", "/v1/vms/me/policy", wish)
        assert answer.status == 200, answer

    def poll(self, name: str, source: str) -> Reply:
        """Ask as a VM, at one node."""
        return self.poll_at(self.servers[name].metadata, source)

    def poll_at(self, address: tuple[str, int], source: str, patience: float = 1.0) -> Reply:
        """The same, where it was."""
        return ask(address, "GET", DOCUMENT, None, HEADER, source, patience)

    def approve(self, name: str, source: str, event_id: str) -> Reply:
        """Approve as a VM, at one node."""
        body = {"StartRequests": [{"EventId": event_id}]}
        return ask(self.servers[name].metadata, "POST", DOCUMENT, body, HEADER, source, patience=3.0)

    def is_ready(self, name: str) -> bool:
        """Whether a load balancer would send VMs to it."""
        return ask(self.servers[name].operator, "GET", "/readyz", patience=1.0).status == 200

    def leader(self, *, but: str = "") -> str:
        """The node that leads, once the others agree; `but` is not asked."""
        found: list[str] = []

        def agreed() -> bool:
            answers = [self.operate(name, "GET", "/v1/nodes") for name in NAMES if name != but]
            named = {answer.json()["leader"] if answer.status == 200 else "" for answer in answers}
            found[:] = named
            return len(named) == 1 and "" not in named and named != {but}

        wait_until(agreed)
        return found[0]

    def others(self) -> list[str]:
        """The nodes that do not lead."""
        leader = self.leader()
        return [name for name in NAMES if name != leader]

    def wait_until_whole(self) -> None:
        """All three answer VMs, and one leads."""
        wait_until(lambda: all(self.is_ready(name) for name in NAMES))
        self.leader()

    def stop(self) -> None:
        for name, server in self.servers.items():
            self.lines[name].mend()
            with suppress(ProcessLookupError):
                server.thaw()
        for server in self.servers.values():
            if server.alive():
                server.stop()
        for line in self.lines.values():
            line.close()


@contextmanager
def trio(folder: Path, database: Database, place: Loopback | None = None, **settings: object) -> Iterator[Trio]:
    """Three nodes, until the block ends."""
    nodes = Trio(folder, database, place, **settings)
    try:
        yield nodes
    finally:
        nodes.stop()
