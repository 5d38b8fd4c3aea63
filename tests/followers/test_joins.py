"""Joins are bounded, heard and cheap: dead ones lock nobody out, and a follower that is refused says so (N20)."""

import http.client
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from duenotice.operator_api import follow_places
from tests.followers.flock import LEASE, Flock, FollowingServer, flock
from tests.support.node import SECONDS
from tests.support.served import wait_until

DEAD, AT_ONCE = 5000, 8
QUICK = 0.25


class Joins:
    """Who joins a node with a token and never gives a sign of life."""

    def __init__(self, herd: Flock, token: str) -> None:
        self._address, self._headers = herd.node.operator_address, {"Authorization": f"Bearer {token}"}
        connection = self._connected()
        connection.request("GET", "/v1/follow/snapshot", headers=self._headers)
        head = json.loads(connection.getresponse().read())
        connection.close()
        self._query = f"after={head['position']}&node={head['node']}"
        self.open: list[tuple[http.client.HTTPConnection, http.client.HTTPResponse]] = []

    def _connected(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self._address, timeout=SECONDS)

    def join(self) -> int:
        """One more stream, which stays open; the status."""
        connection = self._connected()
        connection.request("GET", f"/v1/follow/records?{self._query}&life={uuid4()}", headers=self._headers)
        answer = connection.getresponse()
        if answer.status != 200:
            connection.close()
        else:
            while b'"hello"' not in answer.readline():  # what came since the snapshot comes before
                pass
            self.open.append((connection, answer))
        return answer.status

    def __enter__(self) -> "Joins":
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def die(self) -> None:
        """All streams end."""
        while self.open:
            connection, answer = self.open.pop()
            answer.close()
            connection.close()


@pytest.fixture
def herd(tmp_path: Path) -> Iterator[Flock]:
    with flock(tmp_path) as made:
        yield made


def token_of(herd: Flock, name: str) -> str:
    return str(herd.node.operate("/v1/tokens", {"name": name, "role": "follower"})["token"])


def waiting(herd: Flock, token_file: Path) -> FollowingServer:
    """A follower that cannot serve yet."""
    server = FollowingServer(herd.url, token_file, follow_token_file=token_file)
    herd._running.append(server)
    return server


def actions(lines: str, action: str) -> list[str]:
    return [line for line in lines.splitlines() if f'"action": "{action}"' in line]


def change(herd: Flock) -> float:
    """Seconds that an operator waits for a change."""
    began = time.monotonic()
    herd.node.operate("/v1/events", {"type": "Freeze", "resources": ["db-0"]})
    return time.monotonic() - began


def test_5000_joins_that_die_lock_nobody_out_and_cost_nobody_anything(herd: Flock) -> None:
    """With the token of the newcomer, too; a change takes as long as without them, also while they come."""
    secret = herd.token_file.read_text()
    slowest, is_over = [0.0], threading.Event()

    def come_and_go() -> None:
        with Joins(herd, secret) as joins:
            for _ in range(DEAD // AT_ONCE):
                assert joins.join() == 200
                joins.die()

    def operate() -> None:
        while not is_over.is_set():
            slowest.append(change(herd))
            is_over.wait(0.2)

    operator = threading.Thread(target=operate)
    crowd = [threading.Thread(target=come_and_go) for _ in range(AT_ONCE)]
    for thread in (operator, *crowd):
        thread.start()
    for thread in crowd:
        thread.join()
    is_over.set()
    operator.join()
    began = time.monotonic()
    newcomer = herd.follower()
    assert newcomer.get("db-0").status == 200
    assert time.monotonic() - began < 2.0
    assert change(herd) < QUICK
    assert max(slowest) < LEASE * 2 / 3, "dead ones are not waited for"


def test_a_token_that_joins_again_and_again_takes_no_places_of_others(tmp_path: Path) -> None:
    """Its own followers are refused, which both ends say once; they serve as soon as silent ones are put out."""
    with flock(tmp_path, lease=8) as herd:
        secret = token_of(herd, "loop")
        own = tmp_path / "loop.token"
        own.write_text(secret)
        with Joins(herd, secret) as joins:
            assert {joins.join() for _ in range(follow_places.MOST_OF_A_TOKEN)} == {200}
            assert joins.join() == 503
            refused = waiting(herd, own)
            wait_until(lambda: actions(refused.log(), "follow-failed"))
            assert (
                "250 followers with the token 'loop', which is the limit" in actions(refused.log(), "follow-failed")[0]
            )
            told = actions(herd.node.server.log(), "follower-refused")
            assert len(told) == 2, "one line for each follower that was refused, however often it has tried"
            assert herd.follower().get("db-0").status == 200
            refused.wait_until_serving()
            wait_until(lambda: actions(refused.log(), "follow-again"))
            assert len(actions(refused.log(), "follow-failed")) == 1


def test_a_follower_that_waits_ends_with_sigterm(tmp_path: Path) -> None:
    """Refused, or with no node at all: it ends at once, and well."""
    with flock(tmp_path, lease=60) as herd, Joins(herd, herd.token_file.read_text()) as joins:
        assert {joins.join() for _ in range(follow_places.MOST_OF_A_TOKEN)} == {200}
        refused = waiting(herd, herd.token_file)
        wait_until(lambda: actions(refused.log(), "follow-failed"))
        began = time.monotonic()
        refused.stop()
        assert time.monotonic() - began < 3.0


def test_a_start_that_waits_ends_with_sigterm(tmp_path: Path) -> None:
    """A node that accepts connections and never answers keeps no follower from ending."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        token = tmp_path / "token"
        token.write_text("dn_" + "a" * 43)
        server = FollowingServer(f"http://127.0.0.1:{silent.getsockname()[1]}", token)
        asked, _ = silent.accept()
        began = time.monotonic()
        with suppress(ProcessLookupError):
            os.kill(server.pid, signal.SIGTERM)
        assert server.ended() == 0
        assert time.monotonic() - began < 12.0
        asked.close()
