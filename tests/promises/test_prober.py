"""The prober sees what a VM would feel, also when it is kept from asking."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.promises.prober import REQUEST, Prober

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
STANDSTILL = 0.3


@contextmanager
def answering(how: Callable[[int], bytes]) -> Iterator[tuple[str, int]]:
    """A server that gives poll number n the answer `how(n)`; none closes the connection."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            number = 0
            while connection.recv(len(REQUEST)):
                answer = how(number)
                number += 1
                if not answer:
                    return
                connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.getsockname()
    finally:
        thread.join()
        server.close()


def stands_still_at(number: int) -> Callable[[int], bytes]:
    """An answer each time, late for one."""

    def answer(asked: int) -> bytes:
        time.sleep(STANDSTILL if asked == number else 0.0)
        return OK

    return answer


@pytest.mark.serial
def test_a_standstill_is_seen_with_its_length_and_its_time() -> None:
    """Also those who would have asked meanwhile have waited: more than one poll is slow."""
    with answering(stands_still_at(5)) as server, Prober(server) as prober:
        with prober.watching(tail=STANDSTILL) as watch:
            pass
        polls = watch.polls
    assert STANDSTILL <= polls.slowest < STANDSTILL + 0.1
    assert 0.09 <= polls.slowest_due - watch.begun < 0.2
    assert polls.typical > polls.slowest / 4
    assert polls.count == pytest.approx(15, abs=1)
    assert (polls.trouble, polls.unanswered) == ("", False)


@pytest.mark.serial
def test_polls_that_are_answered_at_once_are_fast() -> None:
    """What the prober itself adds is little."""
    with answering(lambda _: OK) as server, Prober(server) as prober:
        assert prober.idle(0.2).typical < 0.01


def test_a_poll_without_an_answer_took_at_least_so_long() -> None:
    """Nobody waits for ever."""
    over = threading.Event()

    def never(_: int) -> bytes:
        over.wait()
        return b""

    with answering(never) as server, Prober(server) as prober:
        with prober.watching(tail=0.0) as watch:
            watch.grace = 0.2
            time.sleep(0.1)
        over.set()
    assert watch.polls.unanswered
    assert watch.polls.slowest >= watch.grace


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (b"", "the server closed the connection"),
        (b"HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n", "a poll was answered b'HTTP/1.1 429 Slow"),
    ],
)
def test_what_is_no_document_is_trouble(answer: bytes, trouble: str) -> None:
    """A fast refusal must not look like a fast poll."""
    with answering(lambda _: answer) as server, Prober(server) as prober:
        assert prober.idle(0.1).trouble.startswith(trouble)
