"""What one request at the operator's port may cost: who asks comes first, then how large it is (S24, S29)."""

import gc
import json
import re
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from duenotice.bootstrap import operator_server
from duenotice.bounds import NAMES, SIGNING_IN, SMALL, WHOLE_FLEET
from duenotice.errors import Malformed
from duenotice.operator_api import app, feed
from duenotice.operator_api.app import UNCOUNTED, OperatorApi
from tests.acceptance.conftest import DEMO
from tests.support.node import Node
from tests.support.served import wait_until

SECONDS = 30.0
"""Against hangs."""


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(DEMO, allow_faults=True) as running:
        yield running


def connect(node: Node) -> socket.socket:
    return socket.create_connection(node.service.operator_address, timeout=SECONDS)


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: x", *lines, "", "")).encode()


def token(secret: str) -> str:
    return f"Authorization: Bearer {secret}"


def of_role(node: Node, role: str) -> str:
    """A new token."""
    name = f"{role}-{len(node.operate('/v1/tokens', method='GET'))}"
    return str(node.operate("/v1/tokens", {"name": name, "role": role})["token"])


def answered(node: Node, sent: bytes) -> bytes:
    """All that comes back until the other side has said all."""
    with connect(node) as client:
        client.sendall(sent)
        return b"".join(iter(lambda: client.recv(65536), b""))


def paths(node: Node) -> list[tuple[str, str, int]]:
    """A request for each call that has a body, and the bound of its row."""
    calls = OperatorApi(node.service.engine, node.service.ticker).calls
    return [(call.method, re.sub(r"{\w+}", "x", call.path), call.bounds.body) for call in calls if call.method != "GET"]


def test_a_body_that_says_that_it_is_too_large_is_refused_before_a_byte_of_it_is_sent(node: Node) -> None:
    """Each call has its own bound; the answer is the last one of its connection."""
    follower, seen = of_role(node, "follower"), set[int]()
    for method, path, most in paths(node):
        secret = follower if path.startswith("/v1/follow/") else node.token
        said = answered(node, head(method, path, token(secret), f"Content-Length: {most + 1}"))
        assert said.startswith(b"HTTP/1.1 413 "), (method, path, said)
        assert b"connection: close" in said
        assert f"The body is larger than {most} bytes." in said.decode()
        seen.add(most)
    assert {SMALL.body, NAMES.body, WHOLE_FLEET.body} < seen


def test_only_the_fleet_file_may_be_large(node: Node) -> None:
    """What anybody else may send fits many times into the memory that there is."""
    assert {path for _, path, most in paths(node) if most > 1024 * 1024} == {"/v1/fleet"}


def test_a_body_that_does_not_say_its_length_is_read_up_to_the_bound_of_its_call(node: Node) -> None:
    """And no further, although it goes on and on."""
    chunk, sent = b"400\r\n" + b" " * 1024 + b"\r\n", 0
    with connect(node) as client:
        client.sendall(head("PUT", "/v1/vms/me/policy", token(node.token), "Transfer-Encoding: chunked"))
        while not select.select([client], [], [], 0)[0]:
            client.sendall(chunk)
            sent += 1024
        said = client.recv(65536)
    assert said.startswith(b"HTTP/1.1 413 ")
    assert sent < operator_server.MOST_READ_ON + 1024 * 1024


def test_a_body_of_just_the_bound_is_read(node: Node) -> None:
    """More than 64 KiB are decoded off the loop, and give the same."""
    body = json.dumps({"type": "Reboot", "resources": ["nobody"]}).encode().ljust(NAMES.body)
    answer = node.operator("POST", "/v1/events", body)
    assert (answer.status, answer.json()["title"]) == (404, "There is no VM named 'nobody'.")
    answer = node.operator("POST", "/v1/events", body[:-1] + b"x")
    assert (answer.status, answer.json()["title"][:22]) == (400, "The body is not valid:")


@pytest.mark.parametrize(("role", "status"), [("", 401), ("unknown", 401), ("viewer", 403), ("follower", 403)])
def test_who_may_not_ask_is_told_so_before_a_byte_of_the_body_is_sent(node: Node, role: str, status: int) -> None:
    """At every call that changes something."""
    secret = role if role in ("", "unknown") else of_role(node, role)
    for method, path, most in paths(node):
        if path.startswith("/v1/follow/") and role == "follower":
            continue
        key = ["Idempotency-Key: k"] if method == "POST" else []
        said = answered(node, head(method, path, token(secret), *key, f"Content-Length: {most}"))
        assert said.startswith(f"HTTP/1.1 {status} ".encode()), (method, path, said)


def test_one_large_fleet_file_is_read_at_a_time_and_small_ones_do_not_wait(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place is free again when its client has gone; a file that does not say its size counts as large."""
    monkeypatch.setattr(app, "PATIENCE_SECONDS", 0.1)
    large = head("PUT", "/v1/fleet", token(node.token), f"Content-Length: {2 * 1024 * 1024}")
    unknown = head(
        "PUT", "/v1/fleet?dry_run=true", token(node.token), "Transfer-Encoding: chunked", "Connection: close"
    )
    fleet = DEMO.read_bytes()
    with connect(node) as client:
        client.sendall(large + b"#" * 1024 * 1024)
        wait_until(node.service._api._large.locked)
        for sent in (large, unknown):
            said = answered(node, sent)
            assert said.startswith(b"HTTP/1.1 503 ")
            assert b"Another large request is being read." in said
        assert node.operator("PUT", "/v1/fleet?dry_run=true", fleet).status == 200
    wait_until(lambda: not node.service._api._large.locked())
    said = answered(node, unknown + b"%x\r\n%b\r\n0\r\n\r\n" % (len(fleet), fleet))
    assert said.startswith(b"HTTP/1.1 200 ")


def cookie(node: Node, secret: str) -> str:
    """What a browser sends that has signed in."""
    said = answered(node, form("/sign-in", f"token={secret}".encode()))
    return f"Cookie: {re.search(rb'set-cookie: ([^;]+)', said)[1].decode()}"  # type: ignore[index]


def form(path: str, body: bytes, *lines: str) -> bytes:
    length = f"Content-Length: {len(body)}"
    return (
        head("POST", path, length, "Content-Type: application/x-www-form-urlencoded", "Connection: close", *lines)
        + body
    )


PAGES = (
    "/tokens",
    "/fleet-file",
    "/vms",
    "/events",
    "/maintenances",
    "/subscriptions",
    "/clock/speed",
    "/scale-sets/x/scale",
)


def test_a_page_reads_no_form_of_somebody_who_may_not_send_it(node: Node) -> None:
    """The form never comes."""
    viewer = cookie(node, of_role(node, "viewer"))
    for path in PAGES:
        said = answered(node, head("POST", path, viewer, "Content-Length: 1000"))
        assert said.startswith(b"HTTP/1.1 403 "), (path, said[:200])
        assert b"has the role viewer; this needs" in said


def test_a_form_that_is_too_large_is_refused_and_not_taken_for_an_empty_one(node: Node) -> None:
    """The page says how large it may be; that of a fleet file says what to do instead."""
    admin = cookie(node, node.token)
    said = answered(node, head("POST", "/sign-in", f"Content-Length: {SIGNING_IN.body + 1}"))
    assert said.startswith(b"HTTP/1.1 413 ")
    for path, most in (("/subscriptions", SMALL.body), ("/fleet-file", 256 * 1024)):
        said = answered(node, head("POST", path, admin, f"Content-Length: {most + 1}"))
        assert said.startswith(b"HTTP/1.1 413 "), path
        assert f"larger than {most} bytes" in said.decode()
    assert b"duenotice fleet apply" in said


def test_a_client_that_sends_its_body_anyway_reads_why_it_was_refused(node: Node) -> None:
    """What comes is thrown away for a while: if we closed at once, the answer could be lost."""
    with connect(node) as client:
        client.sendall(
            head("PUT", "/v1/vms/me/policy", token(node.token), "Content-Length: 1000000") + b" " * 1_000_000
        )
        assert client.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_our_client_says_why_although_it_was_hung_up_on(node: Node) -> None:
    """Ten times as much as is thrown away: it cannot send all of it, and reads the answer that is there."""
    with node.client() as client, pytest.raises(Malformed, match="larger than 262144 bytes"):
        client.schedule_event("reboot", ["nobody"], description="x" * 20_000_000)


def test_who_sends_for_ever_is_hung_up_on(node: Node) -> None:
    """After two megabytes that nobody wants."""
    sent = 0
    with connect(node) as client, suppress(OSError):
        client.sendall(head("POST", "/v1/events", f"Content-Length: {10**9}"))
        while sent < 100_000_000:
            client.sendall(b" " * 65536)
            sent += 65536
    assert sent < 20_000_000


def test_a_request_with_more_lines_than_any_is_refused(node: Node) -> None:
    """Each line costs as much as a long one."""
    few = [f"X-{n}: y" for n in range(90)]
    assert answered(node, head("GET", "/livez", "Connection: close", *few)).startswith(b"HTTP/1.1 200 ")
    assert answered(node, head("GET", "/livez", *few, *few)).startswith(b"HTTP/1.1 400 ")


def test_a_head_that_comes_in_one_piece_may_be_no_longer_than_one_in_many(node: Node) -> None:
    """16 KiB, its target included."""
    assert answered(node, head("GET", f"/livez?{'x' * 17_000}")).startswith(b"HTTP/1.1 400 ")
    assert answered(node, head("GET", "/livez", f"X-Long: {'x' * 17_000}")).startswith(b"HTTP/1.1 400 ")


def test_a_body_in_pieces_of_one_byte_is_refused(node: Node) -> None:
    """Each piece costs as much as one of a thousand bytes; a large body may have more of them."""
    sent = head("POST", "/v1/events", token(node.token), "Transfer-Encoding: chunked") + b"1\r\n \r\n" * 2_000
    assert answered(node, sent).startswith(b"HTTP/1.1 400 ")
    large = b"400\r\n" + b" " * 1024 + b"\r\n"
    sent = head("POST", "/v1/events", token(node.token), "Transfer-Encoding: chunked", "Connection: close")
    assert b"is not valid" in answered(node, sent + b"1\r\nx\r\n" + b"1\r\n \r\n" * 900 + large * 200 + b"0\r\n\r\n")


def test_of_very_many_requests_that_come_at_once_the_first_are_answered_in_order(node: Node) -> None:
    """Then the connection is closed; none of them gets the answer to another one, or to what is not valid."""
    said = answered(node, head("GET", "/version") + head("GET", "/livez") * 5_000)
    assert re.findall(rb"HTTP/1\.1 (\d+) ", said) == [b"200"] * (1 + operator_server.MOST_WAITING)
    assert re.findall(rb'\r\n\r\n(\{"\w+)', said)[:2] == [b'{"version', b'{"status']
    assert said.lower().count(b"connection: close") == 1
    said = answered(node, head("GET", "/version") + b"this is no request\r\n\r\n")
    assert re.findall(rb"HTTP/1\.1 (\d+) ", said) == [b"200"]


def test_a_request_whose_body_goes_wrong_is_not_done_and_those_before_it_are_answered(node: Node) -> None:
    """A chunk without a size."""
    broken = head("POST", "/v1/events", token(node.token), "Transfer-Encoding: chunked") + b"odd\r\n"
    assert re.findall(rb"HTTP/1\.1 (\d+) ", answered(node, broken)) == [b"400"]
    said = answered(node, head("GET", "/livez") + broken)
    assert re.findall(rb"HTTP/1\.1 (\d+) ", said) == [b"200"]


def test_who_leaves_while_a_request_waits_behind_a_live_feed_ends_the_feed(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told that its client has gone, and there is nothing to log."""
    monkeypatch.setattr(feed, "HEARTBEAT_SECONDS", 0.1)
    readers = node.service._api.feed.readers
    with capture_logs() as lines:
        with connect(node) as client:
            client.sendall(head("GET", "/v1/feed", token(node.token)) + head("GET", "/livez"))
            wait_until(lambda: readers)
        wait_until(lambda: not readers)
    assert lines == []


def test_a_client_that_asks_first_is_told_before_it_sends(node: Node) -> None:
    """100 when the body is wanted; else the refusal."""
    asks, body = "Expect: 100-continue", b'{"type":"Reboot","resources":["nobody"]}'
    with connect(node) as client:
        client.sendall(head("POST", "/v1/events", token(node.token), asks, f"Content-Length: {len(body)}"))
        assert client.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(body)
        said = client.recv(65536)
        assert said.startswith(b"HTTP/1.1 404 ")
        assert b"connection: close" not in said
    said = answered(node, head("POST", "/v1/events", token("no"), asks, f"Content-Length: {len(body)}"))
    assert said.startswith(b"HTTP/1.1 401 ")


def connections() -> int:
    """How many are in memory, open or not."""
    gc.collect()
    return sum(isinstance(each, operator_server.PatientOnlySoLong) for each in gc.get_objects())


@pytest.mark.parametrize("sent", [head("GET", "/livez"), b"odd\r\n\r\n", b"", head("PUT", "/v1/fleet")])
def test_a_connection_that_is_over_leaves_nothing_behind(
    node: Node, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """Somebody could make ten thousand of them in a second, and each had waited for its next timer (S24)."""
    monkeypatch.setattr(operator_server, "PATIENCE_SECONDS", 600.0)
    before = connections()
    for _ in range(100):
        with connect(node) as client:
            client.sendall(sent)
            if sent:
                assert client.recv(9) == b"HTTP/1.1 "
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset it
    wait_until(lambda: connections() < before + 10)


def test_the_mistakes_of_strangers_do_not_fill_the_log(node: Node) -> None:
    """One line for each would be one for each connection of a scanner."""
    with capture_logs() as lines:
        assert answered(node, b"\x16\x03\x01\x02\x00\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert lines == []


def test_a_large_fleet_file_is_applied(node: Node) -> None:
    """It is on disk while it arrives, with its length told or in chunks, and with a key (S24)."""
    text = "".join(f'[[vms]]\nname = "vm-{n}"\naddress = "10.1.{n >> 8}.{n & 255}"\n' for n in range(30_000)).encode()
    assert len(text) > UNCOUNTED
    common = ("Content-Type: application/toml", "Idempotency-Key: one", "Connection: close")
    request = head("PUT", "/v1/fleet", token(node.token), *common, f"Content-Length: {len(text)}")
    first = answered(node, request + text)
    assert (first[:12], b'"vm-29999"' in first) == (b"HTTP/1.1 200", True)
    assert node.operate("/v1/fleet", method="GET")["vms"] == 30_000
    chunked = head("PUT", "/v1/fleet?dry_run=true", token(node.token), *common, "Transfer-Encoding: chunked")
    again = answered(node, b"%b%x\r\n%b\r\n0\r\n\r\n" % (chunked, len(text), text))
    assert (again[:12], b'"changes":0' in again) == (b"HTTP/1.1 200", True)
