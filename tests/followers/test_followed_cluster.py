"""Followers of three nodes on PostgreSQL: their node dies, stops or is cut off, and VMs go on without going back."""

import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.trio import LEASE, NAMES, Reply, Trio
from tests.crash.server import Server
from tests.followers.flock import Asked, FollowingServer, Walker
from tests.support.node import unwrapped
from tests.support.ports import free_port
from tests.support.postgres import Database
from tests.support.served import wait_until

pytestmark = pytest.mark.machine


class StayingTrio(Trio):
    """A node comes back where it was; one of them has a worker."""

    def _listening(self, name: str) -> dict[str, object]:
        self._ports = getattr(self, "_ports", None) or {each: free_port() for each in NAMES}
        return {"operator_listen": f"127.0.0.1:{self._ports[name]}", "workers": 2 if name == "b" else 1}


class Herd:
    """Three nodes, and followers that know some of them."""

    def __init__(self, nodes: Trio, folder: Path) -> None:
        self.nodes, self._folder = nodes, folder
        self._running: list[Server] = []
        self.token_file = self.token("shadow")

    def token(self, name: str) -> Path:
        """A token for followers, in a file."""
        made = self.done(NAMES[0], "POST", "/v1/tokens", {"name": name, "role": "follower"})
        file = self._folder / f"{name}.token"
        file.write_text(made.json()["token"])
        return file

    def done(self, name: str, method: str, target: str, body: object = None) -> Reply:
        """A call that succeeds, perhaps not at once: a busy node may just have lost its lease. All have one key."""
        key, answers = secrets.token_hex(8), list[Reply]()

        def is_done() -> bool:
            answers.append(self.nodes.operate(name, method, target, body, key))
            return answers[-1].status in (200, 201, 204)

        wait_until(is_done)
        return answers[-1]

    def follower(self, *names: str, token_file: Path | None = None, **more: object) -> Asked:
        """A follower of these nodes, the first one first."""
        urls = ",".join("http://{}:{}".format(*self.nodes.servers[name].operator) for name in names)
        server = FollowingServer(urls, token_file or self.token_file, **more)
        self._running.append(server)
        server.wait_until_serving()
        return Asked(server, self.nodes.token)

    def door(self, name: str) -> Asked:
        """A node as VMs ask it."""
        return Asked(self.nodes.servers[name], self.nodes.token)

    def change(self, name: str, vm: str = "db-0") -> bool:
        """Two new documents of a VM; whether that was possible."""
        made = self.nodes.operate(name, "POST", "/v1/events", {"type": "Reboot", "resources": [vm]})
        if made.status != 201:
            return False
        (event,) = unwrapped(made.json())
        return self.nodes.operate(name, "POST", f"/v1/events/{event['id']}/cancel", {}).status == 200

    def close(self) -> None:
        """End the followers."""
        for server in self._running:
            if server.alive():
                server.thaw()
                server.kill()


@pytest.fixture(scope="module")
def herd(postgres_folder: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Herd]:
    """Three nodes that can be followed, for all stories."""
    folder = tmp_path_factory.mktemp("herd")
    Database(postgres_folder, "postgres").sql("CREATE DATABASE herd TEMPLATE template0 ENCODING 'UTF8'")
    nodes = StayingTrio(folder, Database(postgres_folder, "herd"))
    try:
        nodes.wait_until_whole()
        made = Herd(nodes, folder)
        yield made
        made.close()
    finally:
        nodes.stop()


@pytest.fixture(autouse=True)
def whole(herd: Herd) -> Iterator[None]:
    """Each story begins with all nodes and no follower."""
    herd.nodes.wait_until_whole()
    yield
    herd.close()


def followed(follower: Asked) -> str:
    """The URL of the node that a follower follows now; nothing when it looks for one."""
    said = follower.operator("GET", "/readyz?verbose").body.decode()
    return next((line.split()[1] for line in said.splitlines() if line.startswith("[+]node")), "")


def read_alike(one: Asked, other: Asked) -> bool:
    """Whether a VM reads the same at both; after a change this may take a moment."""
    answers = [door.get("db-0") for door in (one, other)]
    return answers[0].body == answers[1].body and [answer.status for answer in answers] == [200, 200]


def node_of(herd: Herd, follower: Asked) -> str:
    """The name of that node."""
    names = {"http://{}:{}".format(*server.operator): name for name, server in herd.nodes.servers.items()}
    wait_until(lambda: followed(follower) in names)
    return names[followed(follower)]


def hurt(herd: Herd, name: str, how: str) -> None:
    """Do something to a node from which VMs must not suffer."""
    server = herd.nodes.servers[name]
    {
        "kill": server.kill,
        "stop": server.stop,
        "freeze": server.freeze,
        "cut": herd.nodes.lines[name].cut,
    }[how]()


def heal(herd: Herd, name: str, how: str) -> None:
    """Undo it."""
    if how in ("kill", "stop"):
        herd.nodes.start(name)
    elif how == "freeze":
        herd.nodes.servers[name].thaw()
    else:
        herd.nodes.lines[name].mend()
    herd.nodes.wait_until_whole()


MOVES = [("kill", "cut"), pytest.param(("stop", "freeze"), marks=pytest.mark.soak)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("ways", MOVES)
def test_a_follower_goes_on_at_another_node_when_its_own_is_gone(herd: Herd, ways: tuple[str, ...]) -> None:
    """Killed, stopped, frozen or cut off from the database; and a VM that asks it and others never goes back (S27)."""
    follower, part = herd.follower(*NAMES), herd.follower(*reversed(NAMES), only="host=host-1")
    follower.enable("db-0")
    for how in ways:
        name = node_of(herd, follower)
        others = [each for each in NAMES if each != name]
        doors = [follower, part, *map(herd.door, others)]
        walkers = [Walker("db-0", doors, 1), Walker("db-0", doors, 2), Walker("db-0", [follower], 3)]
        for walker in walkers:
            walker.start()
        wait_until(lambda others=others: herd.change(others[0]))  # type: ignore[misc]
        hurt(herd, name, how)
        wait_until(lambda name=name: followed(follower) and node_of(herd, follower) != name)  # type: ignore[misc]
        wait_until(lambda others=others: herd.change(others[0]))  # type: ignore[misc]
        over = time.monotonic() + 1.5 * LEASE
        while time.monotonic() < over:
            herd.change(others[1])
            time.sleep(0.02)
        for walker in walkers:
            walker.finish()
        assert [walker.wrong for walker in walkers] == [[], [], []], how
        wait_until(lambda doors=doors: read_alike(follower, doors[-1]))  # type: ignore[misc]
        heal(herd, name, how)


def test_a_follower_of_a_node_that_is_cut_off_shows_nothing_older_than_the_others(herd: Herd) -> None:
    """The others wait for the node and not for its follower, which may answer no longer than the node (N05, S27)."""
    name, leader = herd.nodes.others()[0], herd.nodes.leader()
    follower = herd.follower(name)
    follower.enable("db-0")
    walker = Walker("db-0", [follower, herd.door(leader)], 1)
    walker.start()
    herd.nodes.lines[name].cut()
    wait_until(lambda: herd.change(leader))
    wait_until(lambda: follower.get("db-0").status == 503)
    walker.finish()
    assert walker.wrong == []
    told = "may not answer VMs itself"  # by the node, perhaps after the right has run out by itself
    wait_until(lambda: told in follower.operator("GET", "/readyz?verbose").body.decode())
    herd.nodes.lines[name].mend()
    wait_until(lambda: follower.get("db-0").status == 200)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_worker_of_a_node_that_stood_still_shows_nothing_older(herd: Herd) -> None:
    """It was not asked to hide what others have shown meanwhile: it has no right before it shows that too (S27)."""
    stopped, *others = NAMES[1], NAMES[0], NAMES[2]
    vms = ("db-0", "db-1")  # one of them is answered by the node itself, the other one by its worker
    herd.door(others[0]).enable(*vms)
    walkers = [Walker(vm, [herd.door(stopped), herd.door(others[0])], number) for vm in vms for number in (1, 2)]
    for walker in walkers:
        walker.start()
    for round_ in range(20):
        herd.nodes.servers[stopped].freeze()
        over = time.monotonic() + (1.0 + 0.1 * (round_ % 10)) * LEASE
        while time.monotonic() < over:
            herd.change(others[0], vms[round_ % 2])
        herd.nodes.servers[stopped].thaw()
        over = time.monotonic() + LEASE
        while time.monotonic() < over:
            herd.change(others[1], vms[round_ % 2])
        herd.nodes.wait_until_whole()
    for walker in walkers:
        walker.finish()
    assert [walker.wrong for walker in walkers] == [[]] * 4
    assert min(walker.answers for walker in walkers) > 1000


def test_a_follower_whose_token_was_revoked_answers_nobody_after_the_lease(herd: Herd) -> None:
    """Also when its node dies in the same moment: no other node lets it in."""
    follower = herd.follower(*NAMES, token_file=herd.token("passing"))
    follower.enable("db-0")
    name = node_of(herd, follower)
    (other, *_) = (each for each in NAMES if each != name)
    tokens = unwrapped(herd.done(other, "GET", "/v1/tokens").json())
    (token,) = (each["id"] for each in tokens if each["name"] == "passing")
    herd.done(other, "DELETE", f"/v1/tokens/{token}")
    herd.nodes.servers[name].kill()
    wait_until(lambda: follower.get("db-0").status == 503)
    over = time.monotonic() + 1.5 * LEASE
    while time.monotonic() < over:
        assert follower.get("db-0").status == 503
    assert "does not let us follow it" in follower.operator("GET", "/readyz?verbose").body.decode()
    herd.nodes.start(name)
