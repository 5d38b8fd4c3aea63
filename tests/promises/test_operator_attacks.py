"""What anybody may try at the operator's port, and what it costs others: next to nothing (S24, S26, S29)."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.promises.attack import RAISED_BYTES, SECONDS, SLOWEST_SECONDS, Attacked, Seen, get, many_descriptors
from tests.promises.stalls.fleet import only_the_poller
from tests.support.certificates import certificates

pytestmark = [pytest.mark.serial, pytest.mark.timeout(300)]


def soak(*values: object) -> Any:
    """Only in `make soak-tests`."""
    return pytest.param(*values, marks=pytest.mark.soak)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """A node whose operator's port speaks no TLS."""
    with Attacked(tmp_path_factory.mktemp("plain")) as node:
        yield node


TRIES = 3
"""The machine is shared: what was too slow is done again, and the best counts."""


def bearable(node: Attacked, attack: Callable[[], None]) -> Seen:
    """What it costs others; fails when somebody had to wait, or the node has grown."""
    for _ in range(TRIES):
        with node.watched() as seen:
            attack()
        if seen.polls.slowest < SLOWEST_SECONDS:
            break
    assert (seen.polls.trouble, seen.polls.unanswered) == ("", False)
    assert seen.polls.slowest < SLOWEST_SECONDS
    assert seen.raised < RAISED_BYTES
    return seen


@pytest.mark.parametrize("count", [1_000, soak(15_000)])
def test_handshakes_that_never_end_take_neither_descriptors_nor_memory(tmp_path: Path, count: int) -> None:
    """They count from accept; an admin and a VM that come now are served (S24)."""
    many_descriptors(count + 500)
    with Attacked(tmp_path, certificates(tmp_path)) as node:

        def attack() -> None:
            with ExitStack() as clients:
                for _ in range(count):
                    client = clients.enter_context(socket.create_connection(node.server.operator, timeout=SECONDS))
                    client.send(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a hello
                assert node.ask("GET", "/v1/me")[0] == 200
                socket.create_connection(node.server.metadata, timeout=SECONDS).close()
                assert node.descriptors() < 400

        bearable(node, attack)


def test_a_crowd_without_a_token_takes_no_places_of_those_who_have_one(plain: Attacked) -> None:
    """190 ask for /metrics at the same moment, and nobody who shows a token is refused (S29)."""
    viewer = plain.token("among-a-crowd", "viewer")

    def attack() -> None:
        clients = [plain.silent() for _ in range(190)]
        for client in clients:
            client.sendall(get("/metrics"))
        asked = [(path, token) for path in ("/v1/states", "/v1/fleet") for token in (viewer, None)] * 10
        assert {plain.ask("GET", path, token=token)[0] for path, token in asked} == {200}
        assert plain.ask("GET", "/readyz", token="")[0] == 200

    bearable(plain, attack)


def test_readers_that_never_read_shut_nobody_out(plain: Attacked) -> None:
    """200 exports of one viewer and 200 live pages of four: admin, probes and metrics answer (S24)."""
    vms = "".join(f'[[vms]]\nname = "vm-{n}"\naddress = "127.9.{n // 250}.{n % 250 + 1}"\n' for n in range(5_000))
    for text in (only_the_poller() + vms, only_the_poller()):
        assert plain.ask("PUT", "/v1/fleet", text.encode())[0] == 200
    greedy = plain.cookie(plain.token("greedy", "viewer"))
    pages = [plain.cookie(plain.token(f"pages-{n}", "viewer")) for n in range(4)]

    def attack() -> None:
        for _ in range(200):
            plain.silent(get("/audit/export?format=csv", cookie=greedy))
        for n in range(200):
            plain.silent(get("/live", cookie=pages[n % 4]))
        for path, token in (("/v1/me", None), ("/livez", ""), ("/readyz", ""), ("/metrics", ""), ("/v1/vms", None)):
            for _ in range(5):
                assert plain.ask("GET", path, token=token)[0] == 200

    bearable(plain, attack)
