"""What a tap makes of the bytes of a connection."""

from datetime import UTC, datetime

from duenotice.clock import Instant
from duenotice.testkit.request_log import RequestLog

HEAD = b"HEAD /metadata/scheduledevents HTTP/1.1\r\nHost: here\r\n\r\n"
GET = b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: here\r\nMetadata: true\r\n\r\n"


def request_log() -> RequestLog:
    return RequestLog(lambda: Instant(datetime(2030, 1, 1, tzinfo=UTC), 0), lambda address: "me")


def test_an_answer_to_head_has_a_length_and_no_body_and_the_next_is_its_own() -> None:
    """Before, the answer that came next was taken for that body, and the connection broke."""
    tap = request_log()
    line = tap.opened("127.0.0.1")
    line.received(HEAD + GET)
    line.sent(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 19\r\n\r\n")
    line.sent(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    assert [(each.method, each.status, each.answer) for each in tap.exchanges] == [
        ("HEAD", 405, b""),
        ("GET", 200, b"{}"),
    ]


def test_an_answer_in_pieces_counts_when_it_is_whole() -> None:
    tap = request_log()
    line = tap.opened("127.0.0.1")
    line.received(GET)
    line.sent(b"HTTP/1.1 200 OK\r\nContent-Le")
    line.sent(b"ngth: 2\r\n\r\n{")
    assert tap.exchanges[0].status == 0
    line.sent(b"}")
    assert (tap.exchanges[0].status, tap.exchanges[0].answer) == (200, b"{}")
