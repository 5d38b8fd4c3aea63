"""The system's calls on accepted sockets, by number; and how we are told which of them have something.

A tap and a simulated network have their own `Sockets`. Where there is no epoll (macOS), the loop itself watches.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

READABLE, WRITABLE, ENDED, LOST, ONCE = 0x1, 0x4, 0x2000, 0x8 | 0x10, 1 << 31
"""EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLERR and EPOLLHUP, EPOLLET: plain numbers, as Python works long on names for
them, and some systems do not have the names."""

PIECE, MOST_THROWN_AWAY = 65536, 4
"""How much at once, and how often, is thrown away before a socket is closed."""

_AT_ONCE = int(getattr(socket, "MSG_DONTWAIT", 0))
_WITH_THE_END = int(getattr(socket, "MSG_MORE", 0)) | _AT_ONCE


class Poller(Protocol):
    """Tells which sockets have something, as `select.epoll` does."""

    def register(self, fd: int, eventmask: int = ..., /) -> None:
        """Tell of one more."""

    def modify(self, fd: int, eventmask: int, /) -> None:
        """Tell of other things; what is there already is told at once."""

    def unregister(self, fd: int, /) -> None:
        """Tell nothing more."""


class LoopPoller:
    """The same where there is no epoll: the loop watches each socket, and tells again and again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[list[tuple[int, int]]], None]) -> None:
        self._loop, self._tell = loop, tell

    def register(self, fd: int, eventmask: int = 0, /) -> None:
        self.modify(fd, eventmask)

    def modify(self, fd: int, eventmask: int, /) -> None:
        for wanted, add, remove in (
            (READABLE, self._loop.add_reader, self._loop.remove_reader),
            (WRITABLE, self._loop.add_writer, self._loop.remove_writer),
        ):
            if eventmask & wanted:
                add(fd, self._tell, [(fd, wanted)])
            else:
                remove(fd)

    def unregister(self, fd: int, /) -> None:
        self._loop.remove_reader(fd)
        self._loop.remove_writer(fd)


class SocketCache(dict[int, socket.SocketType]):
    """`cache[fd]` is a socket of Python for a connection that was just accepted.

    The kernel gives the lowest free number to a new connection, so the same few come again and again. To make a socket
    for each connection costs a call of the kernel, which is not needed to read and write. A number is closed with
    `os.close`: who closed the socket would lose it.
    """

    __slots__ = ("_kind",)

    def __init__(self, kind: tuple[int, int, int]) -> None:
        super().__init__()
        self._kind = kind

    def __missing__(self, fd: int) -> socket.SocketType:
        made = self[fd] = socket.SocketType(*self._kind, fd)
        return made

    def __del__(self) -> None:
        """By now the numbers belong to others: they must not be closed with the sockets."""
        for handle in self.values():
            handle.detach()


class Sockets:
    """Accepted sockets. `read` and `write` are for those that are kept, which do not block."""

    read: Callable[[int, int], bytes] = staticmethod(os.read)
    write: Callable[[int, Any], int] = staticmethod(os.write)

    def __init__(self, kind: tuple[int, int, int]) -> None:
        self._cache = SocketCache(kind)

    def receive(self, fd: int, size: int) -> bytes | None:
        """What a new connection brought; None when nothing has come yet, and nothing at its end."""
        try:
            return self._cache[fd].recv(size, _AT_ONCE)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def send(self, fd: int, data: bytes, last: bool) -> int:
        """How much of an answer the kernel took; what is the last goes out with the end, in one packet.

        Who is gone gets it all.
        """
        try:
            return self._cache[fd].send(data, _WITH_THE_END if last else _AT_ONCE)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    def keep(self, fd: int) -> None:
        """It lasts: from now on it does not block."""
        os.set_blocking(fd, False)

    def shut(self, fd: int) -> None:
        """Nothing more is sent; the client may still send."""
        try:  # noqa: SIM105 - takes a tenth of the time of `suppress`
            self._cache[fd].shutdown(socket.SHUT_WR)
        except OSError:  # it is gone
            pass

    def throw_away(self, fd: int) -> None:
        """Read what has come, as far as it goes: to close with unread bytes would take the last answer with it."""
        with suppress(OSError):
            for _ in range(MOST_THROWN_AWAY):
                if len(os.read(fd, PIECE)) < PIECE:
                    return

    def close(self, fd: int) -> None:
        """It is over."""
        os.close(fd)
