"""A connection for threads: whole answers, answers as they come, and never longer than it may take."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from duenotice.clock import monotonic
from duenotice.http.http1 import ProtocolError, Request
from duenotice.http.transport import SocketConnection, connect

GET = Request("GET", "/thing", {"Authorization": "Bearer x"})
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def soon() -> float:
    return monotonic() + 5.0


@contextmanager
def server(*answers: bytes, stays: bool = True) -> Iterator[tuple[SocketConnection, list[bytes]]]:
    """Gives one answer after the other on one connection, and says what it was asked."""
    asked: list[bytes] = []
    over = threading.Event()

    def serve() -> None:
        client, _ = listening.accept()
        with client:
            for answer in answers:
                asked.append(client.recv(65536))
                client.sendall(answer)
            over.wait(30 if stays else 0)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        address = "127.0.0.1", listening.getsockname()[1]
        connection = SocketConnection(connect(address, soon()), "127.0.0.1:1", 5.0)
        try:
            yield connection, asked
        finally:
            over.set()
            connection.close()
            thread.join()


def test_one_connection_serves_one_request_after_the_other() -> None:
    with server(OK, OK) as (connection, asked):
        found = [connection.exchange(GET, soon()) for _ in range(2)]
    assert [(each.status, each.body, each.reusable) for each in found] == [(200, b"hello", True)] * 2
    assert asked[0].startswith(b"GET /thing HTTP/1.1\r\nHost: 127.0.0.1:1\r\n")
    assert asked[0].endswith(b":1\r\nAuthorization: Bearer x\r\n\r\n")


def test_the_body_comes_in_pieces_to_its_end() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with server(head + b"3\r\none\r\n" + b"3\r\ntwo\r\n0\r\n\r\n") as (connection, _):
        assert connection.open(GET, soon()).status == 200
        assert b"".join(iter(lambda: connection.read(soon()), b"")) == b"onetwo"


def test_what_was_right_is_told_before_what_is_wrong() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with server(head + b"3\r\none\r\nzz\r\n") as (connection, _):
        connection.open(GET, soon())
        assert connection.read(soon()) == b"one"
        with pytest.raises(ProtocolError, match="size of a chunk"):
            connection.read(soon())


@pytest.mark.parametrize("answer", [b"", OK[:-2]])
def test_an_answer_that_does_not_come_whole_in_time_is_none(answer: bytes) -> None:
    with server(answer) as (connection, _), pytest.raises(TimeoutError):
        connection.exchange(GET, monotonic() + 0.05)


def test_an_answer_that_is_cut_off_is_none() -> None:
    with server(OK[:-2], stays=False) as (connection, _), pytest.raises(ProtocolError, match="ends halfway"):
        connection.exchange(GET, soon())


def test_more_than_the_largest_is_refused_before_it_comes() -> None:
    long = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    with server(long) as (connection, _), pytest.raises(ProtocolError, match="larger than 1000 bytes"):
        connection.exchange(GET, soon(), 1000)


def test_another_thread_can_end_it() -> None:
    with server(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") as (connection, _):
        connection.open(GET, soon())
        threading.Timer(0.01, connection.interrupt).start()
        with pytest.raises(ProtocolError, match="ends halfway"):
            connection.read(soon())
