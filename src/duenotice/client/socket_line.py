"""A connection over a plain or a TLS socket, for programs without an event loop: carries talks and decides nothing."""

import math
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, assert_never

from duenotice.client.endpoint import Address
from duenotice.client.exchange import Close, Connect, Receive, Send, Show, Sleep, Step, T, Talk
from duenotice.client.line import PIECE, left

if TYPE_CHECKING:
    from ssl import SSLContext


class SocketLine:
    """A connection that does what a talk says, and waits for it."""

    def __init__(
        self,
        address: Address,
        source: tuple[str, int] | None = None,
        tls: "SSLContext | None" = None,
        connect_within: float = math.inf,
    ) -> None:
        self._address, self._connect_within = address, connect_within
        self._source = source
        self._tls = tls
        self._socket: socket.socket | None = None

    def carry(self, talk: Talk[T]) -> Show | T:
        """Carry a talk to its end, or to the next document it shows."""
        reply, failure = None, None
        while True:
            try:
                step = talk.send(reply) if failure is None else talk.throw(failure)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Show):
                return step
            try:
                reply, failure = self._do(step), None
            except OSError as error:
                failure = error

    def _do(self, step: Step) -> Any:
        match step:
            case Connect(deadline, reuse):
                return self._connect(deadline, reuse)
            case Send(data, deadline):
                return self._open(deadline).sendall(data)
            case Receive(deadline):
                return self._open(deadline).recv(PIECE)
            case Close():
                return self.close()
            case Sleep(seconds):
                return time.sleep(seconds)
            case Show():
                return None
            case _:
                assert_never(step)

    def _connect(self, deadline: float, reuse: bool) -> bool:
        if reuse and self._is_quiet():
            return True
        self.close()
        seconds = left(deadline)
        try:
            self._socket = socket.create_connection(self._address, min(seconds, self._connect_within), self._source)
        except TimeoutError:
            if seconds <= self._connect_within:
                raise
            # Not the time for an answer: a machine that is gone does not even refuse.
            raise ConnectionError(f"no connection within {self._connect_within:g} s") from None
        if self._tls is not None:
            self._socket.settimeout(left(deadline))
            self._socket = self._tls.wrap_socket(self._socket, server_hostname=self._address.host)
        return False

    def _is_quiet(self) -> bool:
        """Whether the connection is open and quiet: it has not ended, and no unexpected bytes have come."""
        if self._socket is None:
            return False
        self._socket.settimeout(0)
        try:
            self._socket.recv(1)
        except OSError as error:
            return isinstance(error, self._nothing_there())
        return False

    def _nothing_there(self) -> type[OSError]:
        """What a socket says when it is open and has nothing for us."""
        if self._tls is None:
            return BlockingIOError
        from ssl import SSLWantReadError  # the program that made the context has loaded it

        return SSLWantReadError

    def _open(self, deadline: float) -> socket.socket:
        if (connected := self._socket) is None:
            raise ConnectionError("not connected")
        connected.settimeout(left(deadline))
        return connected

    def cut(self) -> None:
        """Close it, and wake another thread that waits for more: closing a socket alone does not."""
        if (connected := self._socket) is not None:
            with suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)
        self.close()

    def close(self) -> None:
        connected, self._socket = self._socket, None
        if connected is not None:
            connected.close()
