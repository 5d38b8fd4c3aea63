"""What HTTP asks of a server: versions, keep-alive, Expect, HEAD, absolute targets, headers, sizes (A11, C06)."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import pytest

from tests.protocol.raw import LAST_POLL, NOTHING, PATH, POLL, Client, ask, request
from tests.protocol.world import STRANGER, World

APPROVAL_BODY = b'{"StartRequests":[{"EventId":"00000000-0000-0000-0000-000000000000"}]}'
GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def test_an_answer_has_every_header_that_clients_look_for(world: World) -> None:
    headers = ask(world).headers
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert (headers["content-length"], headers["etag"]) == ("37", '"0"')
    assert re.fullmatch(r"IMDS/\d+\.\d+\.\d+\.\d+", headers["server"])
    assert abs((parsedate_to_datetime(headers["date"]) - datetime.now(UTC)).total_seconds()) < 5
    assert GUID.fullmatch(headers["x-ms-request-id"])
    assert "connection" not in headers


def test_no_two_answers_have_the_same_request_id(world: World) -> None:
    with Client(world) as client:
        client.send((POLL + request("GET", "/nowhere")) * 3000)
        ids = {client.reply().headers["x-ms-request-id"] for _ in range(6000)}
    assert len(ids) == 6000


def test_errors_too_have_date_server_and_request_id(world: World) -> None:
    for raw in (b"nonsense\r\n\r\n", request("GET", "/nowhere"), request("PUT")):
        assert {"date", "server", "x-ms-request-id", "content-length"} <= ask(world, raw).headers.keys()


def test_a_connection_stays_open_for_the_next_request(world: World) -> None:
    with Client(world) as client:
        assert [client.ask().body for _ in range(3)] == [NOTHING] * 3


@pytest.mark.parametrize("value", ["close", "Close", "x, close", "keep-alive, CLOSE"])
def test_connection_close_is_said_and_done(world: World, value: str) -> None:
    with Client(world) as client:
        reply = client.ask(request("GET", PATH, f"Connection: {value}"))
        assert (reply.body, reply.headers["connection"]) == (NOTHING, "close")
        assert client.is_closed()


def test_http_1_0_is_closed_after_its_answer(world: World) -> None:
    with Client(world) as client:
        reply = client.ask(f"GET {PATH} HTTP/1.0\r\nMetadata: true\r\n\r\n".encode())
        assert (reply.body, reply.headers["connection"]) == (NOTHING, "close")
        assert client.is_closed()


def test_http_1_0_may_ask_to_be_kept_open_and_is_told_so(world: World) -> None:
    with Client(world) as client:
        for _ in range(2):
            reply = client.ask(request("GET", PATH, "Connection: Keep-Alive", version="1.0"))
            assert (reply.body, reply.headers["connection"]) == (NOTHING, "keep-alive")


@pytest.mark.parametrize("target", ["http://169.254.169.254", "HTTP://any.where:8080", "http://[::1]"])
def test_an_absolute_target_works_like_its_path(world: World, target: str) -> None:
    assert ask(world, request("GET", target + PATH)).body == NOTHING
    assert ask(world, request("GET", target)).status == 404


def test_expect_100_continue_is_invited_before_the_body_is_sent(world: World) -> None:
    with Client(world) as client:
        whole = request("POST", PATH, "Expect: 100-Continue", body=APPROVAL_BODY)
        head, body = whole[: -len(APPROVAL_BODY)], whole[-len(APPROVAL_BODY) :]
        assert client.ask(head) == (100, {}, b"")
        assert client.ask(body).status == 400
        assert client.ask().body == NOTHING


def test_a_body_in_chunks_is_invited_once(world: World) -> None:
    with Client(world) as client:
        client.send(request("POST", PATH, "Expect: 100-continue", "Transfer-Encoding: chunked"))
        assert client.reply().status == 100
        for chunk in (b'5\r\n{"Sta\r\n', b"41\r\n" + APPROVAL_BODY[5:] + b"\r\n"):
            client.send(chunk)
            assert client.is_silent(0.05)
        assert client.ask(b"0\r\n\r\n").status == 400


def test_expect_100_continue_needs_no_invitation_when_the_body_is_there(world: World) -> None:
    with Client(world) as client:
        assert client.ask(request("POST", PATH, "Expect: 100-continue", body=APPROVAL_BODY)).status == 400
        assert client.ask().body == NOTHING


def test_expect_100_continue_is_answered_at_once_when_the_request_is_refused_anyway(world: World) -> None:
    with Client(world) as client:
        reply = client.ask(request("POST", "/nowhere", "Expect: 100-continue", "Content-Length: 10"))
        assert (reply.status, reply.headers["connection"]) == (404, "close")
        assert client.is_closed()


def test_expect_100_continue_without_a_body_is_just_a_request(world: World) -> None:
    assert ask(world, request("GET", PATH, "Expect: 100-continue")).body == NOTHING


def test_another_expectation_is_refused(world: World) -> None:
    assert ask(world, request("GET", PATH, "Expect: 200-ok")).status == 417


def test_an_answer_to_head_has_no_body(world: World) -> None:
    with Client(world) as client:
        client.send(request("HEAD") + request("HEAD", "/nowhere") + POLL)
        assert [client.reply(to_head=True).status, client.reply(to_head=True).status] == [405, 404]
        assert client.reply().body == NOTHING


@pytest.mark.parametrize(
    ("path", "allowed"),
    [(PATH, "GET, POST"), ("/metadata/instance?api-version=2021-02-01", "GET"), ("/metadata/versions", "GET")],
)
def test_another_method_is_told_which_ones_there_are(world: World, path: str, allowed: str) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get"):
        reply = ask(world, request(method, path))
        assert (reply.status, reply.headers["allow"]) == (405, allowed)


def test_a_body_of_64_kib_is_read(world: World) -> None:
    with Client(world) as client:
        assert client.ask(request("POST", body=b" " * 65536)).status == 400
        assert client.ask().body == NOTHING


def test_a_larger_body_is_refused_before_it_is_sent(world: World) -> None:
    for expect in ((), ("Expect: 100-continue",)):
        with Client(world) as client:
            reply = client.ask(request("POST", PATH, *expect, "Content-Length: 65537"))
            assert (reply.status, reply.headers["connection"]) == (413, "close")
            assert client.is_closed()


def test_a_larger_body_in_chunks_is_refused_when_it_gets_too_large(world: World) -> None:
    chunks = (b"8000\r\n" + b" " * 0x8000 + b"\r\n") * 2
    with Client(world) as client:
        client.send(request("POST", PATH, "Transfer-Encoding: chunked") + chunks)
        assert client.is_silent(0.05)
        assert client.ask(b"1\r\n").status == 413


def test_a_body_in_thousands_of_chunks_is_refused(world: World) -> None:
    assert ask(world, request("POST", PATH, "Transfer-Encoding: chunked") + b"1\r\n \r\n" * 10_000).status == 413


@pytest.mark.parametrize("digits", [20, 5000])
def test_an_absurd_length_is_too_large_and_not_a_crash(world: World, digits: int) -> None:
    assert ask(world, request("POST", PATH, f"Content-Length: {'9' * digits}")).status == 413


def test_headers_of_16_kib_are_read_and_larger_ones_refused(world: World) -> None:
    base = len(request("GET", PATH, "X: "))
    assert ask(world, request("GET", PATH, "X: " + "a" * (16384 - base))).body == NOTHING
    assert ask(world, request("GET", PATH, "X: " + "a" * (16385 - base))).status == 431


def test_headers_without_end_are_refused_when_they_get_too_large(world: World) -> None:
    with Client(world) as client:
        assert client.ask(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 4000).status == 431
        assert client.is_closed()


def test_the_answer_to_a_client_that_goes_on_sending_arrives_all_the_same(world: World) -> None:
    """Closing at once would reset the connection and throw the answer away."""
    for _ in range(20):
        with Client(world) as client:
            client.send(b"nonsense\r\n\r\n" + b"x" * 200_000)
            assert client.reply().status == 400


def test_who_asks_to_close_gets_the_answer_that_every_other_question_gets(world: World) -> None:
    assert ask(world, LAST_POLL, STRANGER).status == 404
