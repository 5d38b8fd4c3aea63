"""TLS at the operator's port, as somebody without manners or with an odd client meets it (S24, S29)."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from duenotice.bootstrap import acceptor, operator_server
from tests.support.certificates import SLOW_KEY, Certificates, certificates
from tests.support.node import Node
from tests.support.served import wait_until

ASKED = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


def settings(made: Certificates) -> dict[str, Any]:
    return {"operator_cert_file": str(made.certificate), "operator_key_file": str(made.key)}


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_server, "PATIENCE_SECONDS", 0.3)


@pytest.fixture
def node(tmp_path: Path, patience: None) -> Iterator[Node]:
    """One whose operator's port speaks TLS, and does not wait long."""
    with Node(**settings(certificates(tmp_path))) as node:
        yield node


def connect(node: Node) -> socket.socket:
    client = socket.create_connection(node.service.operator_address, timeout=60)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def trusting(groups: str = "") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if groups:
        context.set_ecdh_curve(groups)
    return context


def hello() -> bytes:
    """What a client says first."""
    says = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        trusting().wrap_bio(ssl.MemoryBIO(), says).do_handshake()
    return says.read()


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_hello_that_comes_byte_by_byte_is_answered(node: Node) -> None:
    """As one that comes in one piece."""
    with connect(node) as client:
        for byte in hello():
            client.send(bytes([byte]))
        assert client.recv(1) == b"\x16"


@pytest.mark.parametrize(
    "sent",
    [b"", hello()[:4], hello()[:-1]],
    ids=["nothing", "half a head", "all but a byte"],
)
def test_a_hello_that_does_not_end_is_waited_for_only_so_long(node: Node, sent: bytes) -> None:
    """Then its connection is closed, and its place is free (S24)."""
    with connect(node) as client:
        client.sendall(sent)
        assert is_closed(client)


@pytest.mark.parametrize(
    "sent",
    [ASKED, b"\x16\x03\x01\x00\x02\x01\x00" + bytes(9), b"\x16\x03\x01\xff\xff\x01\x00\xff\xfb", b"\x17" + hello()[1:]],
    ids=["plain HTTP", "a hello in many records", "a record that is too long", "another record"],
)
def test_what_is_no_hello_is_closed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """Long before we would lose patience, and no handshake is begun for it."""
    monkeypatch.setattr(operator_server, "PATIENCE_SECONDS", 600.0)
    with Node(**settings(certificates(tmp_path))) as node, connect(node) as client:
        client.sendall(sent)
        assert is_closed(client)


def test_who_has_gone_costs_no_signature_and_keeps_no_descriptor(node: Node) -> None:
    """After the hello, before it, in the middle of it, or in the middle of the handshake."""
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    for sent in (hello(), b"", hello()[:20]) * 20:
        connect(node).close() if not sent else _say_and_go(node, sent)
    for _ in range(20):
        with connect(node) as client:
            client.sendall(hello())
            assert client.recv(1) == b"\x16"
    wait_until(lambda: len(list(descriptors.iterdir())) <= before)


def _say_and_go(node: Node, sent: bytes) -> None:
    with connect(node) as client:
        client.sendall(sent)


def test_clients_cannot_choose_what_a_handshake_costs(node: Node) -> None:
    """Keys are exchanged with one group; a client that would rather have another asks a second time."""
    for context in (trusting(), trusting(acceptor.CURVE)):
        with context.wrap_socket(connect(node)) as client:
            client.sendall(ASKED)
            assert client.recv(12) == b"HTTP/1.1 200"
    with connect(node) as plain, pytest.raises(OSError):
        trusting("secp384r1").wrap_socket(plain)


def test_the_log_warns_of_a_key_whose_signatures_are_slow(tmp_path: Path) -> None:
    """And says what to use instead; of the usual one it says nothing."""
    said = []
    for name, more in (("slow", (SLOW_KEY,)), ("usual", ())):
        (tmp_path / name).mkdir()
        with capture_logs() as lines, Node(**settings(certificates(tmp_path / name, *more))):
            said.append([line for line in lines if line.get("action") == "slow-key"])
    assert "EC" in said[0][0]["hint"]
    assert said[1] == []
