"""Nodes whose fleet files differ, killed and restarted in any order: what was removed stays removed (N21, S31)."""

import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.trio import LEASE, Reply, ask
from tests.crash.server import Server
from tests.support.postgres import Database
from tests.support.seed import SEED
from tests.support.served import wait_until

pytestmark = pytest.mark.machine

ROUNDS = 20
REMOVED = ("c", "d", "e")


def vms(names: str) -> str:
    """A file with these VMs."""
    return "".join(f'[[vms]]\nname = "{name}"\naddress = "127.0.7.{ord(name)}"\n' for name in names)


def jobs(capacity: int) -> str:
    """A scale set."""
    return f'[[scale_sets]]\nname = "jobs"\ncapacity = {capacity}\naddresses = "127.0.9.0/24"\n'


class Pair:
    """Two nodes on one database, each with a fleet file of its own."""

    def __init__(self, folder: Path, database: Database) -> None:
        self._folder, self._database = folder, database
        self.servers: dict[str, Server] = {}

    def file(self, name: str) -> Path:
        return self._folder / f"{name}.toml"

    def start(self, *names: str) -> None:
        """One after the other; the first one may have to wait until those that were killed are put out."""
        for name in names:
            more: dict[str, object] = {"journal": self._database.url, "node": name, "lease": LEASE}
            self.servers[name] = server = Server(self._folder / name, self.file(name), **more)
            server.wait_until_serving()

    def operate(self, name: str, method: str, path: str, body: object = None) -> Reply:
        """As an operator, at one node, until a node leads."""
        server = self.servers[name]
        headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
        got: list[Reply] = []

        def answered() -> bool:
            got[:] = [ask(server.operator, method, path, body, headers)]
            return got[0].status not in (0, 503)

        wait_until(answered)
        assert got[0].status < 300, got[0]
        return got[0]

    def fleet(self, name: str) -> set[str]:
        """The names of the VMs, as one node says."""
        return {vm["name"] for vm in self.operate(name, "GET", "/v1/vms?limit=1000").json()["items"]}

    def warnings(self, name: str) -> list[dict[str, Any]]:
        """What the log of a node says of files that differ since it began."""
        lines = [json.loads(line) for line in self.servers[name].log().splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("action") == "fleet-files-differ"]

    def reread(self, name: str) -> None:
        """SIGHUP; returns when it is done."""
        before = self.servers[name].log().count('"fleet-reread"')
        os.kill(self.servers[name].pid, signal.SIGHUP)
        wait_until(lambda: self.servers[name].log().count('"fleet-reread"') > before)


@pytest.fixture
def pair(tmp_path: Path, database: Database) -> Iterator[Pair]:
    made = Pair(tmp_path, database)
    yield made
    for server in made.servers.values():
        if server.alive():
            server.kill()


def test_no_vm_comes_back_and_none_is_lost_in_whatever_order_nodes_are_killed_and_started(pair: Pair) -> None:
    """20 times; one of the files has a remark more, lacks a VM and has another, and is edited to and fro."""
    chance = random.Random(SEED)
    pair.file("a").write_text(vms("abcde") + jobs(4))
    older = "# a remark\n" + vms("bcdez") + jobs(4)
    newer = older + vms("y")
    pair.file("b").write_text(older)
    pair.start("a", "b")
    (warning,) = pair.warnings("b")
    assert warning["nodes"] == ["b", "a"]
    assert warning["difference"] == "only in the file of b: vm/z; only in the file of a: vm/a"
    for name in REMOVED:
        pair.operate(chance.choice("ab"), "POST", f"/v1/vms/{name}/delete")
    pair.operate("a", "POST", "/v1/scale-sets/jobs/scale", {"capacity": 2})
    always = {"a", "b", "z", "jobs_0", "jobs_1"}
    said = older
    for turn in range(ROUNDS):
        killed = chance.choice(("a", "b", "ab", "ba"))
        for name in killed:
            pair.servers[name].kill()
        text = (newer, older)[turn // 3 % 2]
        pair.file("b").write_text(text)
        pair.start(*killed)
        if "b" in killed:
            said = text
        elif chance.random() < 0.5:
            pair.reread("b")
            said = text
        expected = always | {"y"} if said == newer else always
        assert [pair.fleet(name) for name in "ab"] == [expected] * 2
        last, other = (killed[-1], "ab".replace(killed[-1], ""))
        assert [line["nodes"] for line in pair.warnings(last)][:1] == [[last, other]]


def test_nodes_whose_files_say_the_same_do_not_warn(pair: Pair) -> None:
    """However differently it is written; then one is edited, and its next start warns of what the other lacks."""
    pair.file("a").write_text(vms("ab"))
    pair.file("b").write_text("# the same\n\n" + vms("ab"))
    pair.start("a", "b")
    assert pair.warnings("a") == pair.warnings("b") == []
    pair.file("a").write_text(vms("abc"))
    pair.reread("a")
    (warning,) = pair.warnings("a")
    assert warning["difference"] == "only in the file of a: vm/c"
    assert pair.fleet("b") == {"a", "b", "c"}
    pair.file("b").write_text(vms("abc"))
    pair.reread("b")
    assert pair.warnings("b") == []
    assert pair.fleet("a") == {"a", "b", "c"}
