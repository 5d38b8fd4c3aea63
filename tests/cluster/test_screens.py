"""For each fault one screen names it: `duenotice node list`, `/readyz?verbose` and the console's page (N23).

The table in docs/clustering.md goes from what these screens say to the cause and to what to do; each of its rows is
seen here, or in tests/unit/operator_api/test_node_metrics.py.
"""

import html
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.cluster.places import Loopback
from tests.cluster.trio import ask
from tests.crash.server import Server
from tests.followers.flock import FLEET, FollowingServer
from tests.support.cli import Done, duenotice
from tests.support.ports import free_port
from tests.support.postgres import Database
from tests.support.served import wait_until

pytestmark = pytest.mark.machine

LEASE = 3.0
DOCUMENT = (Path(__file__).parents[2] / "docs" / "clustering.md").read_text()
SYMPTOMS = re.findall(r"^\| `([^`]+)` \|", DOCUMENT.split("## At 3 a.m.")[1].split("\n## ")[0], re.M)


class Nodes:
    """Nodes on lines that can be cut, and a follower."""

    def __init__(self, folder: Path, database: Database, names: str, **settings: object) -> None:
        self.folder, place = folder, Loopback()
        self._fleet = folder / "fleet.toml"
        self._fleet.write_text(FLEET)
        self._settings = settings
        ends = {name: place.line(name, folder, database) for name in names}
        self.lines, self._urls = {n: line for n, (line, _) in ends.items()}, {n: url for n, (_, url) in ends.items()}
        self.servers: dict[str, Server] = {}
        for name in names:
            self.start(name, **(settings if name == names[0] else {}))
        self.token = self.servers[names[0]].token
        self._cookies = {name: self._signed_in(name) for name in names}  # before anything goes wrong

    def start(self, name: str, **more: object) -> None:
        given: dict[str, object] = {"journal": self._urls[name], "node": name, "lease": LEASE, **more}
        self.servers[name] = server = Server(self.folder / name, self._fleet, **given)
        server.wait_until_serving()

    def follower(self, name: str, of: str, only: str) -> FollowingServer:
        """One that answers VMs, with a token of this name."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        body = {"name": name, "role": "follower", "only": only}
        made = ask(self.servers[of].operator, "POST", "/v1/tokens", body, headers).json()
        file = self.folder / f"{name}.token"
        file.write_text(made["token"])
        server = FollowingServer("http://{}:{}".format(*self.servers[of].operator), file, only=only)
        self.servers[name] = server
        server.wait_until_serving()
        return server

    def list_nodes(self, name: str, *more: str) -> Done:
        """The screen of an operator."""
        url = "http://{}:{}".format(*self.servers[name].operator)
        return duenotice(None, "node", "list", *more, DUENOTICE_ENDPOINT=url, DUENOTICE_TOKEN=self.token)

    def screens(self, name: str) -> dict[str, str]:
        """What a person sees at a node, in one line each."""
        server = self.servers[name]
        listed = self.list_nodes(name)
        page = ask(server.operator, "GET", "/nodes", None, {"Cookie": self._cookies[name]}).body.decode()
        return {
            "node list": f"{listed.out}\n{listed.err}",
            "readyz": ask(server.operator, "GET", "/readyz?verbose").body.decode(),
            "console": html.unescape(re.sub(r"<[^>]+>", "", page)),
        }

    def _signed_in(self, name: str) -> str:
        """The cookie of a session at the console of a node."""
        console = HTTPConnection(*self.servers[name].operator, timeout=30)
        console.request("POST", "/sign-in", f"token={self.token}")
        cookie = console.getresponse().headers["Set-Cookie"].partition(";")[0]
        console.close()
        return cookie

    def states(self, name: str) -> dict[str, str]:
        """Of the nodes, as one of them says."""
        return {node["name"]: node["state"] for node in self.list_nodes(name, "-o", "json").json()}

    def change(self, name: str, vm: str = "db-0") -> int:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        body = {"type": "Freeze", "resources": [vm]}
        return ask(self.servers[name].operator, "POST", "/v1/events", body, headers).status

    def wait_for(self, name: str, said: str, *, but: str = "") -> None:
        """Until all screens of a node have said this; `but` is one that does not have to."""
        assert any(said.startswith(symptom.partition("…")[0]) for symptom in SYMPTOMS), f"no row of the table: {said}"
        missing = {"node list", "readyz", "console"} - {but}

        def all_said() -> bool:
            missing.difference_update(screen for screen, text in self.screens(name).items() if said in text)
            return not missing

        wait_until(all_said)


@contextmanager
def nodes(folder: Path, database: Database, names: str, **settings: object) -> Iterator[Nodes]:
    made = Nodes(folder, database, names, **settings)
    try:
        yield made
    finally:
        for server in made.servers.values():
            if server.alive():
                server.kill()
        for line in made.lines.values():
            line.close()


class Relay:
    """A way to a port that can be cut, as a network can."""

    def __init__(self, port: int) -> None:
        self._port, self._ends = port, list[socket.socket]()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                self._ends += [near, far]
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        """Nothing gets through, and nobody is let in any more."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for end in self._ends:
            end.close()


@pytest.fixture
def pair(tmp_path: Path, database: Database) -> Iterator[Nodes]:
    with nodes(tmp_path, database, "ab") as made:
        yield made


def test_a_database_that_is_away_is_named_and_nobody_else_is_blamed(pair: Nodes) -> None:
    """Since when, why and what to do; the asked node is cut off, and what it does not know it does not say."""
    assert pair.states("b") == {"a": "leads", "b": "follows"}
    assert "[+]leader ok: a leads" in pair.screens("b")["readyz"]
    for line in pair.lines.values():
        line.cut()
    wait_until(lambda: pair.states("b") == {"a": "unknown", "b": "cut-off"})
    pair.wait_for("b", "The database cannot be used by this node: ")
    screens = pair.screens("b")
    assert re.search(r"^\[-\]database .* \(for \d+\.\d s\) .+", screens["readyz"], re.M)
    assert "[-]leader is not known: this node does not reach the database" in screens["readyz"]
    assert "[+]leader" not in screens["readyz"]
    assert "silent" not in screens["node list"] + screens["console"]
    assert "a led when this node reached the database last." in screens["console"]
    for line in pair.lines.values():
        line.mend()
    wait_until(lambda: "[-]" not in pair.screens("b")["readyz"])


def test_a_node_that_stands_still_or_is_down_is_named(pair: Nodes) -> None:
    """First that a change waits for it, then that it was put out."""
    pair.servers["b"].freeze()
    waits = threading.Thread(target=pair.change, args=("a",))
    waits.start()
    pair.wait_for("a", "The node b does not answer. A change waits for it.")
    waits.join()
    wait_until(lambda: pair.states("a")["b"] == "down")
    pair.wait_for("a", "The node b does not answer. It was put out", but="readyz")
    pair.servers["b"].thaw()
    wait_until(lambda: pair.states("a")["b"] == "follows")


def test_a_leader_that_is_not_reached_is_named(tmp_path: Path, database: Database) -> None:
    """Both reach the database, and the network between them is cut: changes fail at one of them."""
    port = free_port()
    relay = Relay(port)
    with nodes(tmp_path, database, "ab", operator_listen=f"127.0.0.1:{port}", node_url=relay.url) as made:
        assert made.states("b")["a"] == "leads"
        assert made.change("b") == 201
        relay.cut()
        assert made.change("b") == 503
        made.wait_for("b", f"This node does not reach a, which leads, at {relay.url}: ")
        assert made.change("a") == 201, "there it works"


def test_a_follower_that_holds_back_a_change_is_named_with_its_host(pair: Nodes) -> None:
    """Followers and workers are listed; the log names the one that was put out."""
    follower = pair.follower("rack-7", "a", "host=h1")
    assert ask(follower.metadata, "GET", "/metadata/scheduledevents?api-version=2020-07-01", None,
               {"Metadata": "true"}, "127.0.1.10").status == 200  # fmt: skip
    listed = [line.split() for line in pair.list_nodes("a").out.splitlines()]
    assert ["rack-7", "follower", "answers", "127.0.0.1", "host=h1"] in [words[:5] for words in listed]
    follower.freeze()
    waits = threading.Thread(target=pair.change, args=("a",))
    waits.start()
    pair.wait_for("a", "A change waits for the follower 'rack-7' at 127.0.0.1 (host=h1).")
    waits.join()
    wait_until(lambda: '"action": "follower-out"' in pair.servers["a"].log())
    (line,) = [line for line in pair.servers["a"].log().splitlines() if '"follower-out"' in line]
    assert all(part in line for part in ('"token": "rack-7"', '"host": "127.0.0.1"', '"only": "host=h1"'))


def test_workers_are_listed(tmp_path: Path, database: Database) -> None:
    """Of the asked node, on all screens that list followers."""
    with nodes(tmp_path, database, "a", workers=2) as made:
        wait_until(lambda: "workers  worker" in re.sub(" +", "  ", made.list_nodes("a").out))
        assert "workers" in made.screens("a")["console"]


def test_a_machine_that_is_gone_costs_the_command_line_five_seconds() -> None:
    """It does not refuse, it does not answer; the error says so."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as stack:
        for _ in range(3):  # no room is left, so the kernel answers nobody
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        began = time.monotonic()
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        done = duenotice(None, "node", "list", DUENOTICE_ENDPOINT=url, DUENOTICE_TOKEN="dn_x")
        assert 4.0 < time.monotonic() - began < 9.0
        assert "no connection within 5 s" in done.err


def test_each_row_of_the_table_is_seen_by_a_test() -> None:
    """A row that no test of these files waits for would be a claim."""
    sources = [Path(__file__), Path(__file__).parents[1] / "unit" / "operator_api" / "test_node_metrics.py"]
    tests = "".join(path.read_text() for path in sources)
    begins = [symptom.partition("…")[0].strip() for symptom in SYMPTOMS]
    assert len(begins) >= 6
    assert [begin for begin in begins if begin not in tests] == []


def test_a_node_that_waits_for_the_leader_at_its_start_ends_with_sigterm(tmp_path: Path, database: Database) -> None:
    """It says why it waits, and leaves nothing behind that others would wait for (N20)."""
    with nodes(tmp_path, database, "a", node_url="http://127.0.0.1:1") as made:
        server = Server(tmp_path / "late", tmp_path / "fleet.toml", journal=database.url, node="late", lease=LEASE)
        wait_until(lambda: '"action": "waits-for-others"' in server.log())
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < LEASE
        assert made.states("a") == {"a": "leads"}
