"""A follower's requests: whatever the node sends, or does not send, is one of our errors."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from duenotice.errors import Conflict, DuenoticeError, Misconfigured, Unavailable
from duenotice.follower.line import Node, NodeLine
from duenotice.wire.replication import FollowerBeat, VmCommand

PROBLEM = b'{"type":"about:blank","status":409,"title":"No.","hint":"Do."}'


def answer(status: str, body: bytes, length: int | None = None) -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status.encode(), length or len(body), body)


@contextmanager
def node_that_says(data: bytes) -> Iterator[NodeLine]:
    """A node that answers each connection with these bytes, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    with server.accept()[0] as client:
                        client.recv(65536)
                        client.sendall(data)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield NodeLine(Node(f"http://127.0.0.1:{server.getsockname()[1]}", "dn_token"), patience=5)
        server.shutdown(socket.SHUT_RDWR)


SAID: dict[str, tuple[bytes, type[DuenoticeError], str]] = {
    "nothing": (b"", Unavailable, "cannot be asked"),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-", Unavailable, "cannot be asked"),
    "half a body": (answer("200 OK", b'{"right":', 100), Unavailable, "cannot be asked"),
    "another thing": (answer("200 OK", b"[]"), Misconfigured, "not as expected"),
    "no JSON": (answer("200 OK", b"\xff\xfe"), Misconfigured, "not as expected"),
    "a refusal": (answer("409 Conflict", PROBLEM), Conflict, "No."),
    "not allowed": (answer("403 Forbidden", PROBLEM), Misconfigured, "does not let us follow it: No."),
    "not a node": (answer("404 Not Found", b"<html>"), Misconfigured, "not a node to follow"),
    "busy": (answer("503 Service Unavailable", PROBLEM), Unavailable, "No."),
}


@pytest.mark.parametrize("what", SAID)
def test_whatever_a_node_says_to_any_request_is_one_of_our_errors(what: str) -> None:
    """A beat that fails with anything else would end the beats for good."""
    data, kind, text = SAID[what]
    with node_that_says(data) as line:
        for ask in (lambda: line.beat(FollowerBeat("me")), lambda: line.command(VmCommand("vm")), line.snapshot):
            with pytest.raises(kind, match=text):
                ask()


@pytest.mark.parametrize("rest", [b"", b"x", b'5\r\n{"line\r\n', b"zz\r\n"])
def test_a_stream_that_is_cut_off_just_ends(rest: bytes) -> None:
    """With all whole lines before that."""
    whole = b'{"line":"show","position":7}\n'
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with node_that_says(head + b"%x\r\n%b\r\n" % (len(whole), whole) + rest) as line:
        assert [each.position for each in line.listen("node", "me", 1)] == [7]  # type: ignore[union-attr]


def test_a_node_that_is_not_there_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unavailable, match="refused"):
        NodeLine(Node(f"http://127.0.0.1:{port}", "dn_token")).snapshot()
