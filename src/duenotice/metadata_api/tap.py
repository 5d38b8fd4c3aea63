"""Copies every byte of connections, for judging clients; a port without a tap has no cost from it."""

from typing import Any, Protocol

from duenotice.metadata_api.sessions import plain_address
from duenotice.metadata_api.sockets import Sockets


class TappedLine(Protocol):
    """One connection, overheard."""

    def received(self, data: bytes) -> None:
        """The client has sent this."""

    def sent(self, data: bytes) -> None:
        """The client is sent this."""

    def ended(self) -> None:
        """The client will send no more."""

    def closed(self) -> None:
        """The connection is gone."""


class Tap(Protocol):
    """A listener that gets all bytes."""

    def opened(self, address: str) -> TappedLine:
        """A client has connected."""


class TappedSockets(Sockets):
    """Sockets that tell a line what passes over them."""

    def __init__(self, kind: tuple[int, int, int], tap: Tap) -> None:
        super().__init__(kind)
        self._tap = tap
        self._lines: dict[int, TappedLine] = {}
        self.read, self.write = self._read, self._write

    def receive(self, fd: int, size: int) -> bytes | None:
        """Tell first, so that a request is known before its answer."""
        if fd not in self._lines:
            self._lines[fd] = self._tap.opened(self._address(fd))
        data = super().receive(fd, size)
        return data if data is None else self._told(fd, data)

    def _read(self, fd: int, size: int) -> bytes:
        return self._told(fd, Sockets.read(fd, size))

    def _told(self, fd: int, data: bytes) -> bytes:
        line = self._lines[fd]
        line.received(data) if data else line.ended()
        return data

    def _write(self, fd: int, data: Any) -> int:
        sent = Sockets.write(fd, data)
        self._lines[fd].sent(bytes(data[:sent]))
        return sent

    def send(self, fd: int, data: bytes, last: bool) -> int:
        """Tell what was sent."""
        sent = super().send(fd, data, last)
        if fd in self._lines:  # a connection too many is refused unheard
            self._lines[fd].sent(data[:sent])
        return sent

    def close(self, fd: int) -> None:
        """Tell that it is over."""
        super().close(fd)
        if (line := self._lines.pop(fd, None)) is not None:
            line.closed()

    def _address(self, fd: int) -> str:
        try:
            return plain_address(self._cache[fd].getpeername()[0])
        except OSError:  # the client has reset the connection before we took it up
            return ""
