"""Signed in at the console of three nodes, real processes on a real PostgreSQL, also while that is away (S35, N09)."""

import http.client
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.cluster.trio import FLEET, LEASE, NAMES
from tests.console.test_sessions import SIGN_IN, page
from tests.crash.server import Server
from tests.handlers.databases import folder_of_postgres, require_postgresql
from tests.support import postgres
from tests.support.node import SECONDS, signed_in
from tests.support.ports import free_port
from tests.support.served import wait_until

pytestmark = pytest.mark.machine
SHOWN = (200, "")


class Trio:
    """Three nodes and their database, which can be stopped and started again."""

    def __init__(self, folder: Path, data: Path) -> None:
        (folder / "hba").write_text("local all all trust\nhost all all 127.0.0.1/32 trust\n")
        self._database, self._port = postgres.Server(folder), free_port()
        self._options = ("listen_addresses=127.0.0.1", f"port={self._port}", "fsync=off", f"hba_file={folder}/hba")
        self.start()
        url = f"postgresql://postgres@127.0.0.1:{self._port}/postgres"
        self.nodes = [Server(data / name, FLEET, journal=url, node=name, lease=LEASE) for name in NAMES]
        for node in self.nodes:
            node.wait_until_serving()
        self.token = self.nodes[0].token

    def start(self) -> None:
        self._database.start(*self._options)

    def stop(self) -> None:
        self._database.stop()

    def pages(self, secret: str, path: str = "/") -> list[tuple[int, str]]:
        """What each node answers to a browser with this session."""
        return [page(node.operator, cookie(node, secret), path) for node in self.nodes]


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Trio]:
    require_postgresql()
    with folder_of_postgres() as folder:
        made = Trio(folder, tmp_path)
        yield made
        for node in made.nodes:
            node.kill()
        made.stop()


def cookie(node: Server, secret: str) -> str:
    return f"duenotice_session_{node.operator[1]}={secret}"


def sign_in(node: Server, token: str) -> tuple[str, str]:
    """The secret of a new session, and what the next page will say about it."""
    with closing(http.client.HTTPConnection(*node.operator, timeout=SECONDS)) as connection:
        connection.request("POST", "/sign-in", f"token={token}", {"Content-Type": "application/x-www-form-urlencoded"})
        answer = connection.getresponse()
        said = dict(value.partition(";")[0].split("=", 1) for value in answer.headers.get_all("set-cookie", []))
    return said[f"duenotice_session_{node.operator[1]}"], unquote(said.get("duenotice_flash", ""))


def test_a_session_goes_on_at_every_node_while_the_database_is_away_and_new_ones_begin(trio: Trio) -> None:
    """At 3 a.m., behind a load balancer. Who signs in or out meanwhile does so at one node; later all know it."""
    first, second, third = trio.nodes
    old = signed_in(second.operator, trio.token).partition("=")[2]
    assert trio.pages(old) == [SHOWN] * 3
    for node in trio.nodes:
        assert page(node.operator, cookie(node, old), "/vms/me/restart", "POST") == (303, "/vms/me")
    trio.stop()
    assert trio.pages(old) == trio.pages(old, "/events") == trio.pages(old, "/nodes") == [SHOWN] * 3
    new, said = sign_in(third, trio.token)
    assert said.startswith("failed You are signed in at this node alone, until it can be stored.")
    assert trio.pages(new) == [SIGN_IN, SIGN_IN, SHOWN]
    assert page(first.operator, cookie(first, old), "/sign-out", "POST")[0] == 200
    assert trio.pages(old) == [SIGN_IN, SHOWN, SHOWN]
    trio.start()
    wait_until(lambda: trio.pages(new) == [SHOWN] * 3 and trio.pages(old) == [SIGN_IN] * 3)
