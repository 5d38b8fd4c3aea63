"""What anybody may try at the operator's port, and what it costs others: next to nothing (S24, S26, S29)."""

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.promises.attack import RAISED_BYTES, SECONDS, SLOWEST_SECONDS, Attacked, Seen, get, many_descriptors, post
from tests.promises.noise import ANYBODY, AT_OPERATORS, Noise
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


MOST_RAISED = 0.005
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
                for n in range(count):
                    own = (f"127.201.0.{n // 1000 + 1}", 0)  # one address has not so many ports to spare
                    client = clients.enter_context(socket.create_connection(node.server.operator, SECONDS, own))
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


@pytest.mark.parametrize("path", ["/sign-in", soak("/nothing"), "/livez", soak("/readyz?verbose")])
def test_who_asks_without_a_token_as_often_as_possible_slows_down_nobody(plain: Attacked, path: str) -> None:
    """150 connections, each asks again when it is answered; polls take 5 ms more at the most (S29)."""

    def attack() -> None:
        end = time.monotonic() + 3
        clients = {client.fileno(): client for client in (plain.silent(address="127.0.0.3") for _ in range(150))}
        ready = select.epoll()
        for number, client in clients.items():
            ready.register(number, select.EPOLLIN)
            client.sendall(get(path))
        while time.monotonic() < end:
            for number, _ in ready.poll(0.1):
                try:
                    if clients[number].recv(65536).startswith(b"HTTP/1.1 "):
                        clients[number].sendall(get(path))
                except ConnectionError:  # it made room for another one
                    ready.unregister(number)
        ready.close()
        for client in clients.values():
            client.close()

    barely_noticed(plain, attack)


@pytest.mark.parametrize("source", [soak("127.0.0.3"), ANYBODY])
@pytest.mark.parametrize("kind", AT_OPERATORS)
def test_new_connections_without_end_slow_down_nobody(plain: Attacked, kind: str, source: str) -> None:
    """60 clients that connect again for each request. Polls take 5 ms more at the most, and each probe is answered."""

    def attack() -> None:
        end = time.monotonic() + 3
        with Noise(plain.server.operator, kind, source, 60) as noise:
            while time.monotonic() < end:
                begun = time.monotonic()
                assert plain.ask("GET", "/readyz", token="")[0] == 200
                assert time.monotonic() - begun < 1
                time.sleep(0.1)
        assert noise.made.requests > 100

    barely_noticed(plain, attack)


def barely_noticed(node: Attacked, attack: Callable[[], None]) -> None:
    """The median poll takes 5 ms more at the most."""
    for _ in range(TRIES):
        before = node.quiet(0.5)
        seen = bearable(node, attack)
        raised = seen.polls.typical - max(before.typical, node.quiet(0.5).typical)
        if raised < MOST_RAISED:
            break
    assert raised < MOST_RAISED


def test_readers_that_never_read_shut_nobody_out(plain: Attacked) -> None:
    """200 exports of one viewer and 200 live pages of four: admin, probes and metrics answer (S24)."""
    vms = "".join(f'[[vms]]\nname = "vm-{n}"\naddress = "127.9.{n // 250}.{n % 250 + 1}"\n' for n in range(5_000))
    for text in (only_the_poller() + vms, only_the_poller()):
        assert plain.ask("PUT", "/v1/fleet", text.encode())[0] == 200
    greedy = plain.cookie(plain.token("greedy", "viewer"))
    pages = [plain.cookie(plain.token(f"pages-{n}", "viewer")) for n in range(4)]

    def attack() -> None:
        readers = [plain.silent(get("/audit/export?format=csv", cookie=greedy)) for _ in range(200)]
        readers += [plain.silent(get("/live", cookie=pages[n % 4])) for n in range(200)]
        for path, token in (("/v1/me", None), ("/livez", ""), ("/readyz", ""), ("/metrics", ""), ("/v1/vms", None)):
            for _ in range(5):
                assert plain.ask("GET", path, token=token)[0] == 200
        for reader in readers:
            reader.close()  # else they would have places in the next test, too

    bearable(plain, attack)


def noise(method: str, path: str, *lines: str, body: bytes = b"") -> bytes:
    """The bytes of a request that nobody of ours sends."""
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: x", *lines, "", "")).encode() + body


CHUNKED = "Transfer-Encoding: chunked"
UNINVITED = {
    "8,000 requests in one packet": noise("GET", "/livez") * 8_000,
    "as many that need a token": noise("GET", "/v1/vms") * 8_000,
    "a body in pieces of one byte": noise("POST", "/v1/events", CHUNKED, body=b"1\r\nx\r\n" * 160_000),
    "a form in pieces of one byte": noise("POST", "/sign-in", CHUNKED, body=b"1\r\nx\r\n" * 160_000),
    "a form of a million bytes": noise("POST", "/sign-in", "Content-Length: 1000000", body=b"%=%&" * 250_000),
    "40,000 lines of a head": noise("GET", "/livez", *["a: b"] * 40_000),
    "50,000 cookies": noise("GET", "/audit", f"Cookie: {'a=b;' * 50_000}"),
    "100,000 parameters": noise("GET", f"/sign-in?{'a&' * 100_000}"),
    "a million bytes of JSON": noise("POST", "/v1/events", "Content-Length: 1000000", body=b"[" * 1_000_000),
    "the same with a key": noise("POST", "/v1/events", "Idempotency-Key: k", "Content-Length: 1000000") + b"[" * 10**6,
    "what is no HTTP": b"\x16\x03\x01\x02\x00" * 50_000,
    "wishes for another protocol": noise("GET", "/livez", "Connection: Upgrade", "Upgrade: h2c") * 4_000,
}


@pytest.mark.parametrize("what", UNINVITED)
def test_what_anybody_sends_without_a_token_costs_others_nothing(plain: Attacked, what: str) -> None:
    """From 60 connections at the same moment (S24, S29)."""

    def attack() -> None:
        everybody = threading.Barrier(60)

        def one(client: socket.socket) -> None:
            everybody.wait(SECONDS)
            with suppress(OSError):  # it may be hung up on
                client.sendall(UNINVITED[what])
            with suppress(OSError):
                client.recv(1)

        with ThreadPoolExecutor(60) as threads:
            list(threads.map(one, [plain.silent() for _ in range(60)]))

    bearable(plain, attack)


@pytest.mark.parametrize("body", [b" " * 1_000_000, b"[" * 1_000_000, b'{"on":["' + b"x" * 1_000_000])
def test_an_operator_s_bodies_are_bounded_and_so_is_what_they_cost(plain: Attacked, body: bytes) -> None:
    """A million bytes, from 60 connections at once, where as many are read as the call allows (S24, S26)."""
    token = plain.token(f"bodies-{len(body)}-{body[0]}", "operator")

    def attack() -> None:
        def one(path: str) -> int:
            sent = plain.silent(post("POST", path, token, body[:250_000]))
            head = sent.recv(12)
            return int(head[9:])

        with ThreadPoolExecutor(50) as threads:
            answers = set(threads.map(one, ["/v1/events", "/v1/maintenances"] * 25))
        assert answers <= {400, 422}
        for path in ("/v1/events", "/v1/vms/poller/policy"):
            status, _ = plain.ask("PUT" if "policy" in path else "POST", path, body, token=token)
            assert status == 413

    bearable(plain, attack)


LARGE = 240_000_000
A_FLEET = b"".join(b'[[vms]]\nname = "vm-%d"\naddress = "10.1.%d.%d"\n' % (n, n >> 8, n & 255) for n in range(20_000))
NO_FLEETS = {
    "spaces": b" " * LARGE,
    "keys": b"a=1\n" * (LARGE // 4),
    "tables without a name": b"[[vms]]\n" * (LARGE // 8),
    "20,000 VMs, then spaces": A_FLEET.ljust(LARGE),
    "what is not UTF-8": b"\xff" * LARGE,
}


@pytest.mark.parametrize("what", NO_FLEETS)
def test_a_large_body_that_is_no_fleet_is_not_kept_in_memory(plain: Attacked, what: str) -> None:
    """The only call that takes so much is an admin's; it raised the memory by twice of what came (S24)."""

    def attack() -> None:
        assert plain.ask("PUT", "/v1/fleet", NO_FLEETS[what])[0] in (400, 422)

    bearable(plain, attack)


def test_a_small_body_cannot_say_that_a_fleet_has_millions_of_vms(plain: Attacked) -> None:
    """Three lines stand for a thousand of them (S24)."""
    networks = (f"{10 + n // 16_384}.{n >> 6 & 255}.{n % 64 * 4}.0/22" for n in range(10_000))
    line = '[[scale_sets]]\nname = "s-{0}"\ncapacity = 1000\naddresses = "{1}"\n'
    sets = "".join(line.format(n, network) for n, network in enumerate(networks))

    def attack() -> None:
        status, body = plain.ask("PUT", "/v1/fleet", sets.encode())
        assert (status, b"at most 2,000,000 VMs" in body) == (422, True)

    bearable(plain, attack)
