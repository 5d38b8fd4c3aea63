"""Connections without a kernel in between: what clients have sent, and what a listener did with their sockets."""

import itertools
from typing import Any

from duenotice.metadata_api.connection import Connection
from duenotice.metadata_api.context import ServerContext
from duenotice.metadata_api.listener import Listener
from duenotice.metadata_api.sockets import ENDED, READABLE, WRITABLE, Sockets


class FarEnd:
    """A client."""

    def __init__(self) -> None:
        self.unread, self.sent, self.ends = b"", list[bytes](), list[str]()
        self.has_ended = self.reads = False
        self.takes = True
        """Whether the kernel takes what is sent to it."""
        self.wanted = 0


class FarEnds(Sockets):
    """Sockets by number, and the poller that tells of them."""

    def __init__(self, door: ServerContext) -> None:
        self.clients: dict[int, FarEnd] = {}
        self.read, self.write = self._read, self._write
        self.listener = Listener(door, self, poller=self)

    def connect(self, address: str) -> tuple[Connection, FarEnd]:
        """A client that has connected and sent nothing yet."""
        fd = next(fd for fd in itertools.count() if fd not in self.clients)
        client = self.clients[fd] = FarEnd()
        self.listener.begin(fd, address)
        connection = self.listener._connections[fd]
        assert connection is not None
        return connection, client

    def come(self, connection: Connection, client: FarEnd, data: bytes) -> None:
        """The client sends this; if it is not read now, it stays in the kernel."""
        client.unread += data
        self._tell(connection, client)

    def end(self, connection: Connection, client: FarEnd) -> None:
        """The client sends nothing more."""
        client.has_ended = True
        self._tell(connection, client)

    def block(self, connection: Connection, client: FarEnd, size: int) -> None:
        """The kernel takes no more, and so many bytes are left to send."""
        client.takes = False
        connection.left_unsent(bytes(size))

    def unblock(self, connection: Connection, client: FarEnd) -> None:
        """The client has read all."""
        client.takes = True
        if client.wanted & WRITABLE:
            self.listener.hear([(connection.fd, WRITABLE)])

    def _tell(self, connection: Connection, client: FarEnd) -> None:
        if client.wanted & READABLE and connection.fd >= 0 and (client.unread or client.has_ended):
            self.listener.hear([(connection.fd, READABLE | (ENDED if client.has_ended else 0))])

    def receive(self, fd: int, size: int) -> bytes | None:
        return None

    def _read(self, fd: int, size: int) -> bytes:
        client = self.clients[fd]
        if not client.unread and not client.has_ended:
            raise BlockingIOError
        data, client.unread = client.unread[:size], client.unread[size:]
        return data

    def _write(self, fd: int, data: Any) -> int:
        client = self.clients[fd]
        assert not client.ends, "sent something after the end"
        if not client.takes:
            raise BlockingIOError
        client.sent.append(bytes(data))
        return len(data)

    def send(self, fd: int, data: bytes, last: bool) -> int:
        return self._write(fd, data)

    def keep(self, fd: int) -> None:
        """Nothing blocks."""

    def shut(self, fd: int) -> None:
        self.clients[fd].ends.append("half")

    def throw_away(self, fd: int) -> None:
        self.clients[fd].unread = b""

    def close(self, fd: int) -> None:
        self.clients.pop(fd).ends.append("close")

    def register(self, fd: int, eventmask: int = 0, /) -> None:
        self.modify(fd, eventmask)

    def modify(self, fd: int, eventmask: int, /) -> None:
        client, connection = self.clients[fd], self.listener._connections[fd]
        was, client.wanted = client.wanted, eventmask
        if connection is not None and eventmask & READABLE and not was & READABLE:
            connection.context.loop.call_soon(self._tell, connection, client)

    def unregister(self, fd: int, /) -> None:
        self.clients[fd].wanted = 0
