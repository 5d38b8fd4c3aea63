"""VMs that make noise: connections of some addresses that ask as much as they can, from a process of their own.

Run as a program it is that process, with nothing but the standard library; `Noise` is how others use it. It waits for
each answer before it asks again, and connects again when it is closed.
"""

import os
import select
import socket
import struct
import subprocess
import sys
from itertools import count, cycle
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import NamedTuple

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
ANYBODY, TWENTY = "anybody", "twenty"
"""Instead of an address: each connection comes from another one; connections come from 20 addresses in turn."""

RESET_AT_THE_END = struct.pack("ii", 1, 0)
"""Else the kernel would keep the ports of thousands of connections for a minute."""

PIECES_AT_ONCE = 16


def _request(method: str, target: str, *lines: str) -> bytes:
    head = [f"{method} {target} HTTP/1.1", "Host: 169.254.169.254", "Metadata: true", *lines]
    return "\r\n".join(head).encode() + b"\r\n\r\n"


APPROVALS = b'{"StartRequests":[%b]}' % b",".join([b'{"EventId":"602D9444-D2CD-49C7-8624-8643E7171297"}'] * 1000)

KINDS: dict[str, bytes] = {
    "polls": _request("GET", EVENTS),
    "polls that differ": _request("GET", EVENTS, "X-Number: %d"),
    "700 parameters": _request("GET", EVENTS + "".join(f"&p{n:03}=%41" for n in range(700))),
    "500 parameters that differ": _request("GET", EVENTS + "&n=%d" + "&a" * 500),
    "a head in pieces of one byte": _request("GET", EVENTS, *("A: b" for _ in range(100))),
    "12 kB of header lines": _request("GET", EVENTS, *("A: b" for _ in range(2000))),
    "5,000 entity tags": _request("GET", EVENTS, "If-None-Match: " + "1," * 5000),
    "64 kB in pieces of one byte": _request("POST", EVENTS, "Content-Length: 65536") + b"x" * 65536,
    "64 kB in chunks of one byte": _request("POST", EVENTS, "Transfer-Encoding: chunked") + b"1\r\nx\r\n" * 10_000,
    "bodies that are too large": _request("POST", EVENTS, "Content-Length: 1000000") + b"x" * 200_000,
    "approvals of 1,000 events": _request("POST", EVENTS, f"Content-Length: {len(APPROVALS)}") + APPROVALS,
    "what is no HTTP": b"\x16\x03\x01\x02\x00" * 1000,
    "nothing": b"",
}
"""What is asked, by name; `%d` is a number that grows."""

AT_OPERATORS: dict[str, bytes] = {
    "probes, each on a new connection": b"GET /readyz?verbose HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "sign-in, each on a new connection": b"GET /sign-in HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
}
"""The same at the operator's port."""

ALL_IN_TURN = "all of these in turn"


class Made(NamedTuple):
    """What noise came to: whole answers, connections that ended without one, connections made."""

    answers: int
    ends: int
    connections: int

    @property
    def requests(self) -> int:
        """How often something was asked."""
        return self.answers + self.ends


class Noise:
    """The process, seen from outside: noise from `with` to its end; `made` is there after that."""

    def __init__(self, server: tuple[str, int], kind: str, source: str, connections: int) -> None:
        assert kind in KINDS or kind in AT_OPERATORS or kind == ALL_IN_TURN
        self._command = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), server[0], str(server[1])]
        self._command += [kind, source, str(connections)]
        self.made = Made(0, 0, 0)

    def __enter__(self) -> "Noise":
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "noise\n"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            said, _ = self._process.communicate(timeout=30)
        finally:
            self._process.kill()
        self.made = Made(*map(int, said.split()))


class _Caller:
    """One connection: what it still has to send, and what it has read of an answer."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.answer = connection, b""

    def ask(self, kind: str, number: int) -> None:
        """Begin to send one more request."""
        self.piece = 1 if kind.endswith("pieces of one byte") else 1 << 20
        self.left, self.answer = memoryview((KINDS | AT_OPERATORS)[kind].replace(b"%d", b"%d" % number)), b""


class _Callers:
    """All connections of this process."""

    def __init__(self, server: tuple[str, int], kind: str, source: str) -> None:
        self._server, self._source = server, source
        self._kinds = cycle(KINDS if kind == ALL_IN_TURN else (kind,))
        self._epoll = select.epoll()
        self._callers: dict[int, _Caller] = {}
        self._numbers, self._addresses = count(), count()
        self.answers = self.ends = self.connections = 0

    def connect(self) -> None:
        """One more, or one again."""
        connection = socket.socket()
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_THE_END)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.bind((self._next_source(), 0))
        connection.connect_ex(self._server)
        caller = self._callers[connection.fileno()] = _Caller(connection)
        caller.ask(next(self._kinds), next(self._numbers))
        self._epoll.register(connection.fileno(), select.EPOLLIN | select.EPOLLOUT)
        self.connections += 1

    def go_on(self) -> None:
        """Send and read what can be sent and read."""
        for number, what in self._epoll.poll(0.1):
            caller = self._callers[number]
            try:
                if what & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                    self._read(caller)
                elif what & select.EPOLLOUT:
                    self._send(caller)
            except BlockingIOError:
                pass
            except OSError:
                self._again(caller)

    def _send(self, caller: _Caller) -> None:
        for _ in range(PIECES_AT_ONCE):
            if not caller.left:
                self._epoll.modify(caller.connection.fileno(), select.EPOLLIN)
                return
            caller.left = caller.left[caller.connection.send(caller.left[: caller.piece]) :]

    def _read(self, caller: _Caller) -> None:
        data = caller.connection.recv(65536)
        caller.answer += data
        if not data or b"\r\nConnection: close\r\n" in caller.answer:
            self._again(caller)
        elif caller.answer.endswith(b"}"):
            self.answers += 1
            caller.ask(next(self._kinds), next(self._numbers))
            self._epoll.modify(caller.connection.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def _again(self, caller: _Caller) -> None:
        self.answers += bool(caller.answer)
        self.ends += not caller.answer
        del self._callers[caller.connection.fileno()]
        caller.connection.close()
        self.connect()

    def _next_source(self) -> str:
        if self._source not in (ANYBODY, TWENTY):
            return self._source
        number = next(self._addresses)
        if self._source == TWENTY:
            return f"127.201.0.{number % 20 + 1}"
        return f"127.200.{number >> 8 & 255}.{number & 255}"


def _run(host: str, port: str, kind: str, source: str, connections: str) -> None:
    callers = _Callers((host, int(port)), kind, source)
    for _ in range(int(connections)):
        callers.connect()
    sys.stdout.write("noise\n")
    sys.stdout.flush()
    looked = monotonic()
    while monotonic() - looked < 0.1 or not select.select([sys.stdin], [], [], 0)[0]:
        if monotonic() - looked >= 0.1:
            looked = monotonic()
        callers.go_on()
    sys.stdout.write(f"{callers.answers} {callers.ends} {callers.connections}\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    _run(*sys.argv[1:])
