"""What a client makes of answers that are wrong below the document: framing, statuses, slowness, broken connections."""

import gc
import json
import socket
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from duenotice import MetadataError, SeenDocument
from duenotice.client import (
    BadAnswer,
    Gone,
    Redirected,
    Rejected,
    ServerFailed,
    Throttled,
    TimedOut,
    Unreachable,
)
from duenotice.errors import Refused
from duenotice.http.http1 import LARGEST_BODY, LARGEST_HEAD
from tests.support.clients import Client, Connect
from tests.support.evil import CLOSE, HANG, RESET, Answer, EvilServer, chunked, json_answer, reply

BODY = b'{"DocumentIncarnation":3,"Events":[]}'
SEEN = SeenDocument(3, ())
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
GOOD_ANSWER = json_answer(BODY)


def sized(length: object) -> bytes:
    return HEAD + f"Content-Length: {length}\r\n\r\n".encode()


WHOLE: dict[str, Answer] = {
    "plain": GOOD_ANSWER,
    "byte by byte": [bytes([each]) for each in sized(len(BODY)) + BODY],
    "head and body apart": [sized(len(BODY)), 0.01, BODY],
    "no reason phrase": [b"HTTP/1.1 200\r\nContent-Length: 37\r\n\r\n" + BODY],
    "many 1xx before": [b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n", *GOOD_ANSWER],
    "same Content-Length twice": [HEAD + b"Content-Length: 37\r\nContent-Length: 37\r\n\r\n" + BODY],
    "odd but legal headers": [HEAD + b"X-Empty:\r\nx-tab:\t v \r\n!#$%: \xe4\r\ncontent-length:37 \r\n\r\n" + BODY],
    "in one chunk": [CHUNKED + chunked(BODY)],
    "in chunks of one byte": [CHUNKED + chunked(*(bytes([each]) for each in BODY))],
    "chunks with extensions and trailers": [CHUNKED + b"25;a=b\r\n" + BODY + b"\r\n0\r\nX: y\r\n\r\n"],
    "chunk sizes with zeros": [CHUNKED + b"000025\r\n" + BODY + b"\r\n000\r\n\r\n"],
    "until the connection ends": [HEAD + b"\r\n" + BODY, CLOSE],
    "HTTP/1.0": [b"HTTP/1.0 200 OK\r\n\r\n" + BODY, CLOSE],
    "more than was asked for": [*GOOD_ANSWER, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"],
    "long header within bounds": [
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (LARGEST_HEAD - 100) + b"\r\nContent-Length: 37\r\n\r\n" + BODY
    ],
}

BROKEN: dict[str, Answer] = {
    "Content-Length too long": [sized(38) + BODY, CLOSE],
    "Content-Length too short": [sized(36) + BODY],
    "Content-Length negative": [sized(-37) + BODY],
    "Content-Length garbage": [sized("many") + BODY],
    "Content-Length twice, unlike": [HEAD + b"Content-Length: 37\r\nContent-Length: 36\r\n\r\n" + BODY],
    "Content-Length a list": [sized("37, 37") + BODY],
    "Content-Length in other digits": [HEAD + "Content-Length: ٣٧\r\n\r\n".encode() + BODY],
    "Content-Length beyond all use": [sized("9" * 400) + BODY],
    "length and chunks": [HEAD + b"Content-Length: 37\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(BODY)],
    "unknown transfer coding": [HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + chunked(BODY)],
    "chunks cut": [CHUNKED + chunked(BODY)[:-9], CLOSE],
    "chunks without their end": [CHUNKED + chunked(BODY)[:-5], CLOSE],
    "chunk longer than it says": [CHUNKED + b"24\r\n" + BODY + b"\r\n0\r\n\r\n"],
    "chunk size garbage": [CHUNKED + b"zz\r\n" + BODY],
    "chunk size negative": [CHUNKED + b"-25\r\n" + BODY],
    "chunk size huge": [CHUNKED + b"ffffffff\r\n" + BODY],
    "chunk line endless": [CHUNKED + b"25;" + b"x" * 1000],
    "trailers endless": [CHUNKED + b"0\r\n" + b"X: y\r\n" * 5000],
    "body too large": [sized(LARGEST_BODY + 1)],
    "chunks too large": [CHUNKED + b"100000\r\n" + b" " * 0x100000 + b"\r\n1\r\n \r\n0\r\n\r\n"],
    "body without length too large": [HEAD + b"\r\n" + b" " * (LARGEST_BODY + 1), CLOSE],
    "head too large": [HEAD + b"X: " + b"x" * LARGEST_HEAD + b"\r\n\r\n"],
    "headers without end": [HEAD + b"X: y\r\n" * 5000],
    "status line without end": [b"HTTP/1.1 200 " + b"x" * LARGEST_HEAD],
    "1xx without end": [b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" * 2000],
    "switches protocols": [b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n"],
    "HTTP/0.9": [BODY, CLOSE],
    "HTTP/2": [b"HTTP/2 200 OK\r\nContent-Length: 37\r\n\r\n" + BODY],
    "not HTTP": [b"SSH-2.0-OpenSSH_9.2\r\n\r\n", CLOSE],
    "TLS": [b"\x15\x03\x01\x00\x02\x02\x46", CLOSE],
    "status of two digits": [b"HTTP/1.1 20 OK\r\n\r\n"],
    "status 600": [b"HTTP/1.1 600 Odd\r\n\r\n"],
    "folded header": [HEAD + b" folded\r\n\r\n"],
    "header without colon": [HEAD + b"oops\r\n\r\n"],
    "space before the colon": [HEAD + b"Content-Length : 37\r\n\r\n" + BODY],
    "NUL in a header": [HEAD + b"X: a\x00b\r\n\r\n"],
    "line feeds alone": [b"HTTP/1.1 200 OK\nContent-Length: 37\n\n" + BODY, CLOSE],
    "cut in the status line": [b"HTTP/1.1 2", CLOSE],
    "cut in the headers": [HEAD, CLOSE],
    "cut before the body": [sized(37), CLOSE],
    "cut in the body": [sized(37) + BODY[:20], CLOSE],
    "reset in the body": [sized(37) + BODY[:20], 0.05, RESET],
    "reset where the end would do": [HEAD + b"\r\n" + BODY, 0.05, RESET],
    "204": reply(204),
    "201": json_answer(BODY, status=201),
    "206": json_answer(BODY, status=206),
    "304 that nobody asked for": [b"HTTP/1.1 304 Not Modified\r\n\r\n"],
}


@pytest.mark.parametrize("case", WHOLE)
def test_a_whole_answer_is_taken_however_it_comes(connect: Connect, case: str) -> None:
    """And so is the next one, on this connection or another."""
    with EvilServer(WHOLE[case]) as server:
        client = connect(server.endpoint)
        assert [client.document(), client.document()] == [SEEN, SEEN]


@pytest.mark.parametrize("case", BROKEN)
def test_an_answer_that_is_not_whole_is_an_error_and_the_next_one_counts(connect: Connect, case: str) -> None:
    """Afterwards the same client reads a good answer, so nothing wrong is left behind."""
    with EvilServer(BROKEN[case]) as server:
        client = connect(server.endpoint, budget=0)
        with pytest.raises(BadAnswer) as caught:
            client.document()
        assert caught.value.hint
        server.answers = GOOD_ANSWER
        assert client.document() == SEEN


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (json_answer({"error": "Bad request."}, status=400), Rejected),
        (reply(401), Rejected),
        (reply(403), Rejected),
        (reply(404), Rejected),
        (reply(405, b"", "Allow: GET"), Rejected),
        (reply(408), TimedOut),
        (reply(410), Gone),
        (reply(413), Rejected),
        (reply(429), Throttled),
        (reply(431), Rejected),
        (reply(500), ServerFailed),
        (reply(502, b"<html>"), ServerFailed),
        (reply(503), ServerFailed),
        (reply(599), ServerFailed),
        (reply(301, b"", "Location: /elsewhere"), Redirected),
        (reply(302, b"", "Location: http://192.0.2.1/"), Redirected),
        (reply(307, b"", "Location: /metadata/scheduledevents"), Redirected),
        (reply(308), Redirected),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else value[0][9:12].decode(),
)
@pytest.mark.parametrize("verb", ["document", "approve", "instance"])
def test_each_status_is_an_error_of_its_own_whatever_was_asked(
    connect: Connect, verb: str, answer: Answer, error: type[MetadataError]
) -> None:
    """And it carries the status."""
    with EvilServer(answer) as server, pytest.raises(error) as caught:
        ask(connect(server.endpoint, budget=0), verb)
    assert type(caught.value) is error
    assert caught.value.hint
    assert caught.value.status == int(answer[0][9:12])  # type: ignore[index]


PAGE = b"<html><h1>Please sign in</h1></html>"
NOT_OURS: dict[str, Answer] = {
    "a sign-in page": reply(200, PAGE, "Content-Type: text/html"),
    "a sign-in page that says it is JSON": json_answer(PAGE),
    "a way to a sign-in page": reply(302, b"", "Location: http://192.0.2.1/sign-in"),
    "an empty answer in HTTP/1.0": [b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"],
    "half a page": [b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n<html>", CLOSE],
    "nothing but a status of two digits": [b"HTTP/1.1 20 OK\r\n\r\n", CLOSE],
}


@pytest.mark.parametrize("case", NOT_OURS)
def test_an_approval_that_somebody_else_answers_is_not_given(connect: Connect, case: str) -> None:
    """H08: the caller must not believe that the event starts; the next answer that is ours counts."""
    with EvilServer(NOT_OURS[case]) as server:
        client = connect(server.endpoint, budget=0)
        with pytest.raises(BadAnswer) as caught:
            client.approve("F020BA2E")
        assert caught.value.hint
        server.answers = reply(200)
        client.approve("F020BA2E")


@pytest.mark.parametrize("body", [b"", b"{}", b'{"value":"Successfully Approved"}'])
def test_an_approval_is_given_when_the_service_says_nothing_or_some_json(connect: Connect, body: bytes) -> None:
    """C02: an empty body; mocks of others write a little JSON."""
    with EvilServer(reply(200, body)) as server:
        connect(server.endpoint, budget=0).approve("F020BA2E")
        assert [asked.method for asked in server.requests] == ["POST"]


def ask(client: Client, verb: str) -> Any:
    return client.approve("F020BA2E") if verb == "approve" else getattr(client, verb)()


def test_a_redirect_is_never_followed(connect: Connect) -> None:
    """Not even once more to the same place."""
    with EvilServer(GOOD_ANSWER) as elsewhere:
        answer = reply(307, b"", f"Location: {elsewhere.endpoint}/metadata/scheduledevents")
        with EvilServer(answer) as server:
            with pytest.raises(Redirected):
                connect(server.endpoint).document()
            assert len(server.requests) == 1
        assert elsewhere.requests == []


def test_the_words_of_a_refusal_are_passed_on_in_one_line_and_not_too_many(connect: Connect) -> None:
    """They come from outside: no line breaks, no escapes of the terminal, no kilobytes."""
    words = "Bad request.\n\x1b[31mRoot:" + "x" * 5000
    with EvilServer(json_answer({"error": words}, status=400)) as server, pytest.raises(Rejected) as caught:
        connect(server.endpoint).document()
    assert caught.value.message.startswith("The metadata service answered 400: Bad request.  [31mRoot:x")
    assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    "acts",
    [
        [HANG],
        [b"HTTP/1.1 ", HANG],
        [HEAD, HANG],
        [sized(37) + BODY[:36], HANG],
        [each for byte in HEAD + b"X: " + b"y" * 5000 for each in (bytes([byte]), 0.02)],
        [sized(1000), *(each for byte in b" " * 1000 for each in (bytes([byte]), 0.02))],
    ],
    ids=["silent", "in the status line", "in the headers", "one byte short", "dripping headers", "dripping body"],
)
def test_the_deadline_is_for_the_whole_answer_however_it_drips(connect: Connect, acts: Answer) -> None:
    """Bytes that keep coming buy no time."""
    with EvilServer(acts) as server:
        client = connect(server.endpoint, timeout=0.2, budget=0)
        begun = time.monotonic()
        with pytest.raises(TimedOut) as caught:
            client.document()
        assert 0.19 < time.monotonic() - begun < 10
        assert caught.value.hint
        server.answers = GOOD_ANSWER
        assert client.document() == SEEN


@pytest.mark.parametrize(
    ("on_connect", "acts"),
    [([CLOSE], []), ([RESET], []), ([], [CLOSE]), ([], [RESET])],
    ids=["closed at once", "reset at once", "closed after the request", "reset after the request"],
)
def test_a_connection_that_ends_before_an_answer_is_unreachable(
    connect: Connect, on_connect: Answer, acts: Answer
) -> None:
    with EvilServer(acts or GOOD_ANSWER, on_connect) as server, pytest.raises(Unreachable):
        connect(server.endpoint, budget=0).document()


def test_nobody_there_is_unreachable(connect: Connect) -> None:
    """The error says what the machine said, and what to do."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else can take it
        with pytest.raises(Unreachable, match="refused") as caught:
            connect(f"http://127.0.0.1:{bound.getsockname()[1]}", budget=0).document()
    assert "DUENOTICE_METADATA_ENDPOINT" in caught.value.hint


def test_nobody_answering_the_knock_is_a_time_out(connect: Connect) -> None:
    """A full backlog swallows the SYN, as a firewall does."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.create_connection(full.getsockname()), pytest.raises(TimedOut):
            connect(f"http://127.0.0.1:{full.getsockname()[1]}", timeout=0.2, budget=0).document()


def test_an_unknown_host_is_unreachable(connect: Connect) -> None:
    with pytest.raises(Unreachable):
        connect("http://metadata.invalid", budget=0).document()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that is sure to come."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class TestConnections:
    """Kept open, and replaced unnoticed when they are no good any more."""

    def test_one_connection_serves_call_after_call(self, connect: Connect) -> None:
        with EvilServer(GOOD_ANSWER) as server:
            client = connect(server.endpoint)
            for _ in range(5):
                client.document()
            client.approve("F020BA2E")
            assert (server.connections, len(server.requests)) == (1, 6)

    @pytest.mark.parametrize("end", [CLOSE, RESET])
    def test_one_that_ended_meanwhile_is_replaced_at_once(self, connect: Connect, end: str) -> None:
        """No pause, no error, also for an approval."""
        with EvilServer([[*GOOD_ANSWER, end], GOOD_ANSWER]) as server:
            client = connect(server.endpoint, budget=0)
            assert client.document() == SEEN
            wait_until(lambda: server.answered == 1)
            client.approve("F020BA2E")
            assert server.connections == 2

    @pytest.mark.parametrize(
        "answer", [json_answer(BODY, "Connection: close"), [b"HTTP/1.0 200 OK\r\nContent-Length: 37\r\n\r\n" + BODY]]
    )
    def test_one_that_the_service_will_close_is_not_used_again(self, connect: Connect, answer: Answer) -> None:
        with EvilServer(answer) as server:
            client = connect(server.endpoint)
            assert [client.document(), client.document()] == [SEEN, SEEN]
            assert server.connections == 2

    @pytest.mark.parametrize("end", [CLOSE, RESET])
    def test_one_that_ends_when_it_is_asked_again_is_replaced_at_once(self, connect: Connect, end: str) -> None:
        """The end and the request may cross on the way."""
        answers: list[Answer] = [GOOD_ANSWER, [end], GOOD_ANSWER]
        with EvilServer(answers) as server:
            client = connect(server.endpoint, budget=0)
            assert client.document() == SEEN
            client.approve("F020BA2E")
            assert [asked.connection for asked in server.requests] == [1, 1, 2]

    def test_bytes_that_nobody_asked_for_are_not_the_next_answer(self, connect: Connect) -> None:
        """A second answer behind the first would be read as the document of the next call."""
        stale = json_answer({"DocumentIncarnation": 9, "Events": []})
        with EvilServer([[*GOOD_ANSWER, 0.1, *stale], GOOD_ANSWER]) as server:
            client = connect(server.endpoint)
            assert client.document() == SEEN
            wait_until(lambda: server.answered == 1)
            assert client.document() == SEEN

    def test_a_closed_client_says_so(self, connect: Connect) -> None:
        with EvilServer(GOOD_ANSWER) as server:
            client = connect(server.endpoint)
            client.document()
            client.close()
            with pytest.raises(Refused, match="closed"):
                client.document()


def test_no_proxy_and_nothing_else_of_the_environment_counts(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with EvilServer(GOOD_ANSWER) as server:
        assert connect(server.endpoint).document() == SEEN
        assert server.targets == ["/metadata/scheduledevents?api-version=2020-07-01"]


@pytest.mark.soak
def test_memory_stays_flat_over_all_that_is_evil(connect: Connect) -> None:
    """200 rounds of the worst answers leave nothing behind (S24)."""
    worst = [*BROKEN.values(), reply(500, b"x" * 1000), json_answer(b""), json_answer(b"[" * 1000)]
    answers = [worst[number % len(worst)] for number in range(300)]
    with EvilServer(answers) as server:
        client = connect(server.endpoint, budget=0)
        sizes = []
        tracemalloc.start()
        try:
            for _ in range(3):
                for _ in range(100):
                    with pytest.raises(MetadataError):
                        client.document()
                server.requests.clear()
                gc.collect()
                sizes.append(held_by_us())
        finally:
            tracemalloc.stop()
    # The interpreter keeps some small tuples for later, up to 100 kB in all; a leak of one answer a call is far more.
    assert sizes[2] - sizes[1] < 20_000, sizes


def held_by_us() -> int:
    """Bytes that code of ours has taken and not given back."""
    ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/duenotice/*")])
    return sum(trace.size for trace in ours.traces)


def test_what_is_sent_is_what_the_documents_ask_for(connect: Connect) -> None:
    """The header on every request, POST too (A03); JSON as the body (C01)."""
    with EvilServer(reply(200)) as server:
        connect(server.endpoint).approve("A", "B")
        (asked,) = server.requests
    assert (asked.method, asked.target) == ("POST", "/metadata/scheduledevents?api-version=2020-07-01")
    assert json.loads(asked.body) == {"StartRequests": [{"EventId": "A"}, {"EventId": "B"}]}
    assert asked.headers["metadata"] == "true"
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["host"] == server.endpoint.removeprefix("http://")
    assert asked.headers["user-agent"].startswith("duenotice/")
