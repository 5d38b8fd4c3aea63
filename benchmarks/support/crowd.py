"""Many VMs in one process: a connection each from its own address, all read through one epoll."""

import select
import socket
import time
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from benchmarks.support.http import SECONDS, Address, whole
from benchmarks.support.machine import CannotMeasure

_AT_ONCE = 1000
"""Connections opened before the server must have answered them: fewer than its backlog."""

_PORT_LATER = getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24)


class Heard(NamedTuple):
    """An answer and when it was whole, in monotonic seconds."""

    answer: bytes
    at: float


class Crowd:
    """Connections by file number; `with` closes them all."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._members: dict[int, socket.socket] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self._members.values():
            member.close()
        self._epoll.close()

    def connect(self, server: Address, source: str = "127.0.0.1") -> int:
        """One more connection."""
        member = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._members[member.fileno()] = member
        member.setsockopt(socket.IPPROTO_IP, _PORT_LATER, 1)
        member.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        member.bind((source, 0))
        member.connect(server)
        member.setblocking(False)
        self._epoll.register(member, select.EPOLLIN)
        return member.fileno()

    def join(self, server: Address, sources: Sequence[str], request: bytes) -> list[int]:
        """A connection from each address, each of which makes a request and must get 200."""
        joined: list[int] = []
        for begin in range(0, len(sources), _AT_ONCE):
            new = [self.connect(server, source) for source in sources[begin : begin + _AT_ONCE]]
            check_ok(self.ask(new, request))
            joined += new
        return joined

    def send(self, members: Sequence[int], request: bytes) -> None:
        """All of them ask the same."""
        for member in members:
            self._members[member].send(request)

    def ask(self, members: Sequence[int], request: bytes) -> dict[int, Heard]:
        """All of them ask the same and get an answer."""
        self.send(members, request)
        return self.hear(len(members))

    def hear(self, count: int, every: float = 0.0) -> dict[int, Heard]:
        """Wait until that many have a whole answer.

        With `every`, look only after so many seconds: else the server wakes this process with each answer. That is
        work which it would not have if its VMs were on other machines.
        """
        heard: dict[int, Heard] = {}
        parts: dict[int, bytes] = {}
        until = time.monotonic() + SECONDS
        while len(heard) < count:
            if every:
                time.sleep(every)
            ready = self._epoll.poll(0.0 if every else max(0.0, until - time.monotonic()), count)
            if not ready and time.monotonic() >= until:
                raise CannotMeasure(f"{count - len(heard)} of {count} got no answer within {SECONDS:g} seconds.")
            for member, _ in ready:
                data = parts.pop(member, b"") + self._receive(member)
                if whole(data):
                    heard[member] = Heard(data, time.monotonic())
                else:
                    parts[member] = data
        return heard

    def _receive(self, member: int) -> bytes:
        data = self._members[member].recv(65536)
        if not data:
            raise CannotMeasure("The server closed a connection that should stay open.")
        return data


def check_ok(heard: dict[int, Heard], part: bytes = b"") -> None:
    """Everybody must have got 200, with this in it."""
    for answer, _ in heard.values():
        if not answer.startswith(b"HTTP/1.1 200 ") or part not in answer:
            raise CannotMeasure(f"Expected 200 with {part!r}, got {answer!r}.")
