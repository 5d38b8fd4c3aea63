"""The operator's client on a network that is not kind: lost connections, strange answers, TLS."""

import gc
import socket
import ssl
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from duenotice.client import AsyncOperatorClient, OperatorClient
from duenotice.client.operator.errors import ForeignAnswer, NoAnswer, NotReached
from duenotice.errors import DuenoticeError, Refused, Unavailable
from duenotice.wire.operator import Clock
from tests.programs import require_program
from tests.support.clients import Loop
from tests.support.evil import CLOSE, HANG, RESET, Answer, EvilServer, chunked, json_answer, reply
from tests.support.node import Node
from tests.support.operators import reach

__all__ = ["reach"]
Reach = Callable[..., OperatorClient]
SECONDS = 30
CLOCK = {"clock": "real", "now": "2026-03-01T12:00:00Z", "speed": 1.0}
GOOD = json_answer(CLOCK)
ONE_VM = '[[vms]]\nname = "a"\naddress = "127.0.0.9"\n'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def record(position: int) -> bytes:
    return (
        b'id: %d\nevent: scope-enabled\ndata: {"position":%d,"at":"2026-03-01T12:00:00Z","actor":"vm/a",'
        b'"action":"scope-enabled","event_id":null,"details":{"scope":"vm/a"}}\n\n' % (position, position)
    )


def pieces(*parts: bytes) -> bytes:
    """Chunks of an answer that goes on."""
    return chunked(*parts).removesuffix(b"0\r\n\r\n")


def test_a_connection_is_kept_for_the_next_call(reach: Reach) -> None:
    with EvilServer(GOOD) as server:
        client = reach(server.endpoint)
        assert isinstance(client.clock(), Clock)
        client.clock()
        assert [asked.connection for asked in server.requests] == [1, 1]
        assert server.requests[0].headers["authorization"] == "Bearer dn_token"


def test_what_may_not_be_repeated_never_goes_over_a_kept_connection(reach: Reach) -> None:
    """Nobody could tell whether the service had read it before it ended the connection."""
    with EvilServer(GOOD) as server:
        client = reach(server.endpoint, budget=0)
        client.clock()
        client.advance_clock("1s")
        assert [(asked.method, asked.connection) for asked in server.requests] == [("GET", 1), ("POST", 2)]


def test_a_post_that_gets_no_answer_is_sent_again_with_its_key(reach: Reach) -> None:
    """The service does it once (S6)."""
    answers: list[Answer] = [[RESET], GOOD]
    with EvilServer(answers) as server:
        assert reach(server.endpoint).advance_clock("1s").clock == "real"
        first, second = server.requests
    assert first.body == second.body == b'{"by":"1s"}'
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


def test_without_a_budget_it_is_sent_once_and_without_a_key(reach: Reach) -> None:
    answers: list[Answer] = [[CLOSE], GOOD]
    with EvilServer(answers) as server:
        with pytest.raises(NotReached, match="the connection ended before an answer"):
            reach(server.endpoint, budget=0).advance_clock("1s")
        assert ["idempotency-key" in asked.headers for asked in server.requests] == [False]


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        ([b"SSH-2.0-OpenSSH_9.2\r\n\r\n"], ForeignAnswer, "does not begin like HTTP/1.1"),
        (reply(200, b"<html>"), ForeignAnswer, "Cannot read an answer"),
        (reply(302, b"", "Location: http://elsewhere/"), ForeignAnswer, "answers 302"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", CLOSE], ForeignAnswer, "it ends halfway"),
        ([HANG], NoAnswer, "did not answer in 0.2 s"),
        (reply(503, b'{"title":"Later.","hint":"Wait."}', "Retry-After: 7"), Unavailable, "Later."),
    ],
)
def test_a_strange_answer_is_an_error_that_says_so(
    reach: Reach, answer: Answer, kind: type[DuenoticeError], words: str
) -> None:
    with EvilServer(answer) as server, pytest.raises(kind, match=words):
        reach(server.endpoint, budget=0, timeout=0.2 if answer == [HANG] else SECONDS).clock()


def test_nobody_there_is_an_error_that_names_the_place(reach: Reach) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(NotReached, match=f"Cannot reach duenotice at {endpoint}: Connection refused"):
        reach(endpoint, budget=0).clock()


def test_a_host_that_cannot_be_one_is_not_reached(reach: Reach) -> None:
    with pytest.raises(NotReached, match="Cannot reach"):
        reach(f"http://{'x' * 64}.invalid:1", budget=0).clock()


def test_the_feed_goes_on_where_it_was_lost(reach: Reach) -> None:
    """Whatever happens to the connection; a lost one is told once."""
    told: list[str] = []
    answers: list[Answer] = [
        [HEAD + pieces(b"id: 4\nretry: 2000\n\n", record(5)), 0.05, RESET],
        [CLOSE],
        [HEAD + pieces(b"id: 5\nretry: 2000\n\n"), 0.05, pieces(record(6)[:20], record(6)[20:]), HANG],
    ]
    with EvilServer(answers) as server:
        client = reach(server.endpoint)
        with client.feed(on_lost=lambda _: told.append("lost"), on_found=lambda: told.append("found")) as feed:
            assert [next(feed).position, next(feed).position] == [5, 6]
            assert (feed.position, told) == (6, ["lost", "found"])
        assert [asked.headers.get("last-event-id") for asked in server.requests] == [None, "5", "5"]


def test_the_feed_survives_a_restart_of_the_service(reach: Reach, tmp_path: Path) -> None:
    """Same port, same journal: nothing is missed and nothing comes twice."""
    fleet = '[[vms]]\nname = "a"\naddress = "127.0.0.9"\n[[vms]]\nname = "b"\naddress = "127.0.0.8"\n'
    with Node(fleet, data_dir=str(tmp_path)) as node:
        port, token = node.operator_address[1], node.token
        endpoint = f"http://127.0.0.1:{port}"
        feed = reach(endpoint, token).feed()
        feed.open()
        reach(endpoint, token).listen_vm("a")
        assert next(feed).details.scope == "vm/a"
    with Node(data_dir=str(tmp_path), operator_listen=f"127.0.0.1:{port}"):
        reach(endpoint, token).listen_vm("b")
        scopes = [next(feed).details.scope]
        while scopes[-1] is None:  # what a start writes down
            scopes.append(next(feed).details.scope)
        assert scopes[-1] == "vm/b"
        feed.close()


def test_a_client_that_is_closed_says_so(reach: Reach) -> None:
    with EvilServer(GOOD) as server:
        client = reach(server.endpoint)
        client.clock()
        client.close()
        with pytest.raises(Refused, match="closed"):
            client.clock()


def certificate(folder: Path) -> Path:
    """One that nobody vouches for, with its key."""
    openssl, pem = require_program("openssl", "openssl"), folder / "both.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    make = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", *names]
    subprocess.run([*make, "-keyout", pem, "-out", folder / "cert.pem"], check=True, capture_output=True, timeout=60)
    pem.write_bytes(pem.read_bytes() + (folder / "cert.pem").read_bytes())
    return pem


@contextmanager
def tls_in_front_of(address: tuple[str, int], pem: Path) -> Iterator[str]:
    """A proxy that speaks TLS, as one puts in front of the operator's port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                accepted, _ = listening.accept()
                threading.Thread(target=carry, args=(accepted,), daemon=True).start()

    def carry(accepted: socket.socket) -> None:
        with (
            suppress(OSError),
            context.wrap_socket(accepted, server_side=True) as near,
            socket.create_connection(address) as far,
        ):
            threading.Thread(target=pump, args=(far, near), daemon=True).start()
            pump(near, far)

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError, ValueError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"https://localhost:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def test_https_wants_a_certificate_that_it_trusts(reach: Reach, tmp_path: Path) -> None:
    """By default those of this machine; `tls` names others. Calls and the feed work as without."""
    pem = certificate(tmp_path)
    with Node(ONE_VM) as node, tls_in_front_of(node.operator_address, pem) as url:
        with pytest.raises(NotReached, match="self-signed certificate"):
            reach(url, node.token, budget=0).clock()
        client = reach(url, node.token, tls=ssl.create_default_context(cafile=str(tmp_path / "cert.pem")))
        assert [client.clock().clock for _ in range(3)] == ["manual"] * 3
        with client.feed() as feed:
            client.listen_vm("a")
            assert next(feed).action == "scope-enabled"


@contextmanager
def tls_that_never_says_goodbye(pem: Path) -> Iterator[str]:
    """A server that answers one request over TLS, then keeps the connection and reads no more."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            accepted, _ = listening.accept()
            with suppress(OSError), context.wrap_socket(accepted, server_side=True) as near:
                near.recv(65536)
                near.sendall(b"".join(part for part in GOOD if isinstance(part, bytes)))
                over.wait(SECONDS)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield f"https://localhost:{listening.getsockname()[1]}"
        over.set()
        serving.join(SECONDS)


def test_a_client_that_is_closed_waits_for_nobody_and_leaves_nothing_open(tmp_path: Path) -> None:
    """TLS ends when both sides have said so, but the other side may never say it."""
    loop, pem = Loop(), certificate(tmp_path)
    trusted = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    with tls_that_never_says_goodbye(pem) as url, warnings.catch_warnings(record=True) as left_open:
        warnings.simplefilter("always")
        client = AsyncOperatorClient(url, "dn_token", tls=trusted)
        loop.run(client.clock())
        loop.run(client.close())
        loop.end()
        del client, loop
        gc.collect()
    assert [str(warning.message) for warning in left_open] == []


def test_plain_http_is_not_https(reach: Reach) -> None:
    with Node(ONE_VM) as node, pytest.raises(NotReached, match=r"(?i)cannot reach .*wrong.version"):
        reach("https://{}:{}".format(*node.operator_address), budget=0).clock()
