"""The operator's port, as somebody without a token or without manners meets it."""

import gc
import re
import select
import socket
import time
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from duenotice.bootstrap import acceptor, operator_server
from duenotice.bootstrap.operator_server import PatientOnlySoLong
from tests.support.node import Node
from tests.support.served import wait_until


def connect(node: Node, data: bytes = b"") -> socket.socket:
    """A connection to the operator's port on which only this much is sent."""
    client = socket.create_connection(node.service.operator_address, timeout=20)
    client.sendall(data)
    return client


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /livez HTTP/1.1\r\nHost: x\r\n",
        b"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nAuthorization: Bearer x\r\n\r\n{",
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_a_connection_on_which_nothing_is_finished_is_closed(
    node: Node, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """Nobody can hold descriptors that VMs need (S24)."""
    monkeypatch.setattr(operator_server, "PATIENCE_SECONDS", 0.1)
    with connect(node, sent) as client:
        last = b"".join(iter(lambda: client.recv(4096), b""))  # ends when the other side has closed
    assert last == b"" or last.startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /livez HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost : x\r\n\r\n",
        b"what is this\r\n\r\n",
        b"CONNECT /livez HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["no host", "two hosts", "two ways to end", "two lengths", "a blank in a name", "no request", "to a proxy"],
)
def test_a_request_that_two_readers_could_take_for_different_ones_is_refused(node: Node, sent: bytes) -> None:
    """And its connection is closed."""
    with connect(node, sent) as client:
        last = b"".join(iter(lambda: client.recv(4096), b""))
    assert last.startswith(b"HTTP/1.1 400 ")


def test_a_head_without_an_end_is_refused_before_it_fills_the_memory(node: Node) -> None:
    """It comes in pieces, each in time."""
    said = b""
    with connect(node, b"GET /livez HTTP/1.1\r\nHost: x\r\n") as client:
        while not said and client.send(b"X-More: " + b"x" * 1000 + b"\r\n"):
            client.settimeout(0.02)
            with suppress(TimeoutError):
                said = client.recv(4096)
    assert said.startswith(b"HTTP/1.1 400 ")


def test_requests_that_are_sent_before_they_are_answered_are_answered_in_order(node: Node) -> None:
    """A body between them is read as a body, whatever it looks like."""
    token = node.service.token.encode()
    body = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
    post = b"POST /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\nContent-Length: %d\r\n\r\n%b"
    end = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with connect(node, post % (token, len(body), body) + end) as client:
        said = b"".join(iter(lambda: client.recv(4096), b""))
    assert re.findall(rb"HTTP/1\.1 (\d+) ", said) == [b"400", b"200"]


def test_only_some_requests_that_are_sent_before_they_are_answered_are_read(node: Node) -> None:
    """One read has thousands of them, and each would be kept until its turn; the last answer says the end (S24)."""
    with connect(node, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * 50) as client:
        said = b"".join(iter(lambda: client.recv(4096), b""))
    answers = re.findall(rb"HTTP/1\.1 (\d+) ", said)
    assert answers == [b"200"] * (1 + operator_server.MOST_WAITING)
    assert said.count(b"connection: close") == 1
    assert b"connection: close" in said[said.rindex(b"HTTP/1.1 ") :]


def test_what_is_sent_wrongly_behind_a_request_is_not_its_answer(node: Node) -> None:
    """Who read the refusal of the second as an answer to the first would take what was done for undone (S6)."""
    with connect(node, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nwhat is this\r\n\r\n") as client:
        said = b"".join(iter(lambda: client.recv(4096), b""))
    assert re.findall(rb"HTTP/1\.1 (\d+) ", said) == [b"200"]


@pytest.mark.parametrize(("fields", "status"), [(operator_server.MOST_HEADERS, b"200"), (20_000, b"400")])
def test_a_head_with_very_many_fields_is_refused(node: Node, fields: int, status: bytes) -> None:
    """Thirty such heads in one turn of the loop would keep VMs waiting for a second (S29)."""
    head = b"GET /livez HTTP/1.1\r\nConnection: close\r\nHost: x\r\n" + b"a:b\r\n" * (fields - 2) + b"\r\n"
    with connect(node, head) as client:
        assert client.recv(4096).split()[1] == status


@pytest.mark.parametrize("sent", [b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /livez", b"what is this\r\n\r\n"])
def test_a_connection_that_is_over_leaves_nothing_for_the_collector(node: Node, sent: bytes) -> None:
    """It comes once a minute, and somebody who connects again and again would have taken gigabytes by then (S24)."""
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            connect(node, sent).close()
        wait_until(lambda: not [each for each in gc.get_objects() if type(each) is PatientOnlySoLong])
    finally:
        gc.enable()


def test_what_is_no_request_leaves_no_line_in_the_log(node: Node) -> None:
    """Else anybody could fill the disk; the client is told."""
    with capture_logs() as lines, connect(node, b"what is this\r\n\r\n") as client:
        assert client.recv(4096).startswith(b"HTTP/1.1 400 ")
    assert [line for line in lines if line.get("library") == "uvicorn.error"] == []


def test_an_answer_comes_as_one_and_the_head_of_a_long_one_does_not_wait_for_its_body(node: Node) -> None:
    """Small answers are one packet; a feed on which nothing happens says at once that it is there."""
    ask = "GET {} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n"
    position = node.operator("GET", "/v1/fleet").json()["position"]
    with connect(node, ask.format("/v1/me", node.service.token).encode()) as client:
        assert client.recv(65536).endswith(b"}")
    with connect(node, ask.format(f"/v1/feed?after={position}", node.service.token).encode()) as client:
        assert client.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("is_split", [False, True], ids=["in one packet", "the body in its own packet"])
def test_a_request_that_wishes_for_another_protocol_keeps_its_body(node: Node, is_split: bool) -> None:
    """Java's client sends `Upgrade: h2c` by default; the body is not the next request, and what follows is answered."""
    token, body = node.service.token.encode(), b'{"type":"Freeze","resources":["nobody"]}'
    post = b"POST /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\nContent-Length: %d\r\n"
    head = post % (token, len(body)) + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    end = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    packets = [head, body, end] if is_split else [head + body + end]
    with connect(node) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for packet in packets:
            client.sendall(packet)
        said = b"".join(iter(lambda: client.recv(4096), b""))
    assert re.findall(rb"HTTP/1\.1 (\d+) ", said) == [b"404", b"200"]
    assert b"nobody" in said


def test_more_connections_than_it_is_meant_for_are_dropped(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd at the operator's port does not keep VMs from asking, and silence locks nobody out: the oldest go."""
    monkeypatch.setattr(acceptor, "MOST_CONNECTIONS", 3)
    clients = [connect(node) for _ in range(8)]
    assert node.operator("GET", "/readyz").status == 200
    closed = [client for client in clients[:5] if _is_closed(client)]
    assert len(closed) == 5
    assert node.events("me") == []
    for client in clients:
        client.close()


@pytest.mark.parametrize("path", ["/openapi.json", "/v1/vms?limit=1000", "/v1/audit?limit=1000", "/v1/feed?after=0"])
def test_an_answer_that_nobody_reads_is_ended(node: Node, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Whatever it is: it keeps a place, and the bytes that were made for it (S24)."""
    monkeypatch.setattr(operator_server, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(acceptor, "SEND_BUFFER", 4096)
    long = "x" * 70
    vms = "".join(f'[[vms]]\nname = "{long}{n}"\naddress = "127.9.{n // 250}.{n % 250 + 1}"\n' for n in range(3_000))
    node.apply(vms)
    asked = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {node.service.token}\r\n\r\n"
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(20)
        client.connect(node.service.operator_address)
        client.sendall(asked.encode())
        reset = select.poll()
        reset.register(client, 0)  # errors and the end are always told
        assert reset.poll(20_000)


def test_a_reader_who_is_slow_but_reads_gets_all_of_it(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only who makes no progress is ended."""
    monkeypatch.setattr(operator_server, "PATIENCE_SECONDS", 0.2)
    ask = "GET /openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with connect(node, ask.encode()) as client:
        said = b""
        while some := client.recv(8192):
            said += some
            time.sleep(0.02)
    assert said.endswith(b"}")


def test_a_form_with_more_fields_than_any_is_refused(node: Node) -> None:
    """Its separators are counted before anything of it is decoded (S24)."""
    form = "&".join(f"field{n}=x" for n in range(25)).encode()
    head = b"POST /sign-in HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    with connect(node, head % len(form) + form) as client:
        said = b"".join(iter(lambda: client.recv(4096), b""))
    assert said.startswith(b"HTTP/1.1 400 ")
    assert b"more than 20 fields" in said


def test_connections_of_followers_are_counted_for_themselves(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node has up to 1,000 followers, each with two connections; operators and balancers still reach it."""
    monkeypatch.setattr(acceptor, "MOST_CONNECTIONS", 3)
    token = node.operate("/v1/tokens", {"name": "shadow", "role": "follower"})["token"]
    wanted = f"GET /v1/follow/snapshot HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    followers = []
    for _ in range(8):
        followers.append(connect(node, wanted))
        assert followers[-1].recv(12) == b"HTTP/1.1 200"
    assert node.operator("GET", "/readyz").status == 200
    for client in followers:
        client.settimeout(0.05)
        with pytest.raises(TimeoutError):  # nobody was closed
            while client.recv(65536):
                pass
        client.close()


def test_a_body_larger_than_anybody_needs_is_refused(node: Node) -> None:
    """Two megabytes of JSON are too much for a request."""
    answer = node.operator("POST", "/v1/events", b" " * (2 * 1024 * 1024))
    assert (answer.status, bool(answer.json()["hint"])) == (413, True)


def test_an_approval_that_is_held_back_is_seen_by_the_operator(node: Node) -> None:
    """G01: the second domain waits for the first, but its approval is there."""
    node.events("web-0")
    first, second = node.schedule("Reboot", "web-0"), node.schedule("Reboot", "web-1")
    for event_id in (first, second):
        node.operate(f"/v1/events/{event_id}/approve")
    event = node.operate(f"/v1/events/{second}", method="GET")
    assert (event["phase"], event["approved_by"]) == ("scheduled", "operator")


def _is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True
