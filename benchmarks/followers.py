"""Processes that answer VMs for a node: what a poll costs there, and what one on each host needs."""

import http.client
import json
import re
import sys
from pathlib import Path

from benchmarks.support.children import Child
from benchmarks.support.console import step
from benchmarks.support.duels import taking_turns
from benchmarks.support.fleets import alone, fleet_text
from benchmarks.support.http import Address, exchange, poll
from benchmarks.support.machine import SERVER_CORE, pinned
from benchmarks.support.node import SETTINGS, Node
from benchmarks.support.process import resident_bytes
from benchmarks.support.results import SAME, Row, at_most, within
from benchmarks.support.yard import FLEET, Yard

GUESTS = 50
VMS = 1000
_ADDRESS = re.compile(rb"VMs ask +http://([\d.]+):(\d+)/")


class Follower(Child):
    """`duenotice serve --follow`, on the server's core."""

    def __init__(self, node: Node, folder: Path, *flags: str) -> None:
        folder.mkdir()
        (token := folder / "token").write_text(_token(node))
        listen = ["--metadata-listen", "127.0.0.1:0", "--operator-listen", "none"]
        follow = ["--follow", f"http://{node.operator}", "--follow-token-file", str(token)]
        settings = [part for setting in SETTINGS.items() for part in setting]
        command = [sys.executable, "-m", "duenotice", "serve", *follow, *listen, *settings, *flags]
        super().__init__(pinned(SERVER_CORE, command), folder / "log")
        found = next((found for line in self.output if (found := _ADDRESS.search(line))), None)
        if found is None:
            raise self.failed("ended before it listened")
        self.metadata = Address(found[1].decode(), int(found[2]))


def measure(yard: Yard) -> list[Row]:
    """Each beside the node that it follows."""
    return [_cost_of_a_poll(yard), _memory(yard)]


def _token(node: Node) -> str:
    connection = http.client.HTTPConnection(*node.operator)
    body = json.dumps({"name": "bench", "role": "follower"})
    connection.request("POST", "/v1/tokens", body, {"Authorization": f"Bearer {node.token}"})
    made = json.loads(connection.getresponse().read())
    connection.close()
    return str(made["token"])


def _cost_of_a_poll(yard: Yard) -> Row:
    with (
        Node(yard.folder("followed"), yard.fleet_file(VMS)) as node,
        Follower(node, yard.folder("follower")) as follower,
    ):
        exchange(follower.metadata, poll())
        duel = taking_turns(yard, (follower.pid, follower.metadata), (node.pid, node.metadata), "its node")
    return at_most("CPU a poll at a follower, beside its node", duel, SAME, "µs")


def _memory(yard: Yard) -> Row:
    """Some VMs of a large fleet stand on one host; their follower knows nothing of the others."""
    size = 10_000 if yard.quick else FLEET
    guests = {name for name, _ in alone(GUESTS, size)}
    parts = (part.strip() for part in fleet_text(size).split("\n\n"))
    placed = (f'{part}\nhost = "h1"' if part.split('"')[1] in guests else part for part in parts)
    text = "\n\n".join(('[[hosts]]\nname = "h1"', *placed, ""))
    (file := yard.folder("hosts.toml")).write_text(text)
    _, address = alone(GUESTS, size)[0]
    with (
        Node(yard.folder("large"), file) as node,
        Follower(node, yard.folder("small"), "--only", "host=h1") as follower,
    ):
        check = exchange(follower.metadata, poll(), address)
        if not check.startswith(b"HTTP/1.1 200"):
            raise follower.failed(f"answered {check!r}")
        held = resident_bytes(follower.pid) / 1e6
        step(f"{GUESTS} of {size:,} VMs: {held:.1f} MB")
    return within(f"memory of a follower of {GUESTS} VMs out of {size:,}", held, 40.0, "MB")
