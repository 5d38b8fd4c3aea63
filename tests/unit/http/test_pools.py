"""Connections that are kept open between requests, blocking and on asyncio: when one is used again, and when not."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from duenotice.clock import monotonic
from duenotice.http.async_transport import StreamPool
from duenotice.http.flow import MOST_IDLE, ConnectionClosed, Exchange
from duenotice.http.http1 import Request, Response
from duenotice.http.transport import SocketPool

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Ask = Callable[..., Response]


class Server:
    """Answers `each` requests on a connection and hangs up at the one after that, without an answer."""

    def __init__(self, each: int) -> None:
        self.requests: list[int] = []
        """The number of the connection on which each request came."""
        self._each, self._listening = each, socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1", int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client, number), daemon=True).start()
            number += 1

    def _serve(self, client: socket.socket, number: int) -> None:
        with client:
            for _ in range(self._each):
                if not client.recv(65536):
                    return
                self.requests.append(number)
                client.sendall(OK)
            if client.recv(65536):
                self.requests.append(number)

    def close(self) -> None:
        """Accept no more."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@contextmanager
def pool(kind: str, each: int) -> Iterator[tuple[Server, Ask, Callable[[], int]]]:
    """A server, how to ask it, and how many connections are kept."""
    server = Server(each)
    loop = asyncio.new_event_loop()
    made: Any = (SocketPool if kind == "blocking" else StreamPool)(server.address, "h")

    def done(result: Response | Coroutine[Any, Any, Response] | None) -> Any:
        return loop.run_until_complete(result) if asyncio.iscoroutine(result) else result

    def ask(method: str = "GET", repeatable: bool = True) -> Response:
        answer: Response = done(made.exchange(Exchange(Request(method, "/"), monotonic() + 30.0, repeatable)))
        return answer

    try:
        yield server, ask, lambda: len(made._idle)
    finally:
        done(made.close())
        loop.close()
        server.close()


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
class TestPools:
    """The same for both."""

    def test_a_connection_is_used_again(self, kind: str) -> None:
        with pool(kind, 9) as (server, ask, kept):
            assert [ask().body for _ in range(3)] == [b"ok"] * 3
            assert (server.requests, kept()) == ([0, 0, 0], 1)

    def test_what_may_be_repeated_is_sent_again_when_a_kept_connection_ends(self, kind: str) -> None:
        with pool(kind, 1) as (server, ask, _):
            assert [ask().body for _ in range(2)] == [b"ok"] * 2
            assert server.requests == [0, 0, 1]

    def test_what_may_not_be_repeated_is_sent_once_on_a_new_connection(self, kind: str) -> None:
        """Else nobody could tell whether it was done on the kept one."""
        with pool(kind, 1) as (server, ask, kept):
            ask()
            assert ask("POST", repeatable=False).body == b"ok"
            assert (server.requests, kept()) == ([0, 1], MOST_IDLE)

    def test_a_new_connection_that_ends_is_an_error_for_all(self, kind: str) -> None:
        with pool(kind, 0) as (server, ask, kept):
            with pytest.raises(ConnectionClosed, match="ended before an answer"):
                ask()
            assert (server.requests, kept()) == ([0], 0)

    def test_only_a_few_are_kept(self, kind: str) -> None:
        with pool(kind, 9) as (server, ask, kept):
            for _ in range(MOST_IDLE + 1):
                ask(repeatable=False)
            assert (server.requests, kept()) == ([0, 1, 2], MOST_IDLE)
