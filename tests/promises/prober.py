"""Polls one VM's document every 20 ms from a process of its own, and tells how long the slowest poll took.

A poll is timed from the moment it should have been sent, so that one that had to wait behind a slow one counts its wait
too. Run as a program it is that process, with nothing but the standard library; `Prober` is how others use it.
"""

import gc
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PERIOD = 0.02
POLLER = "127.0.0.1"
"""The address of the VM that polls; no operation may touch that VM."""

REQUEST = (
    b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: 169.254.169.254\r\nMetadata: true\r\n\r\n"
)
_OK = b"HTTP/1.1 200 "


@dataclass(frozen=True)
class Polls:
    """What a prober saw; seconds, and moments of `time.monotonic`, which is the same for all processes."""

    count: int = 0
    slowest: float = 0.0
    slowest_due: float = 0.0
    """When the slowest poll was to be sent."""

    own_delay: float = 0.0
    """How much of the slowest was the prober's own: it was sent late although nothing was being waited for."""

    typical: float = 0.0
    """The median."""

    unanswered: bool = False
    """Whether the slowest had no answer when we stopped waiting: then it took at least so long."""

    trouble: str = ""
    """Why polling ended early, if it did."""


@dataclass
class Watch:
    """What a `with prober.watching()` block gives: `polls` is there when the block is over.

    For a poll that is still under way then, `grace` seconds are waited.
    """

    grace: float = 10.0
    begun: float = field(default_factory=time.monotonic)
    polls: Polls = field(default_factory=Polls)


class Prober:
    """The polling process, seen from outside; `with` ends it.

    Where VMs may not ask so often, several can poll in turn, each on a connection of its own.
    """

    def __init__(self, address: tuple[str, int], *sources: str) -> None:
        command = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), address[0], str(address[1])]
        command += sources or (POLLER,)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def __enter__(self) -> "Prober":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @contextmanager
    def watching(self, tail: float = 0.1) -> Iterator[Watch]:
        """Poll while the block runs, and `tail` seconds longer."""
        self._say("begin")
        assert self._hear() == "polling"
        watch = Watch()
        try:
            yield watch
        finally:
            self._say(f"end {tail} {watch.grace}")
            watch.polls = Polls(**self._hear())

    def idle(self, seconds: float) -> Polls:
        """What polls cost when nothing goes on."""
        with self.watching(tail=seconds) as watch:
            pass
        return watch.polls

    def kill(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


class _Ears:
    """The other side's words, one line at a time, and whether there is one."""

    def __init__(self) -> None:
        self._rest = b""

    def fileno(self) -> int:
        return sys.stdin.fileno()

    def word(self) -> list[str]:
        """The next line; ends the program when the other side has gone."""
        while b"\n" not in self._rest:
            some = os.read(self.fileno(), 4096)
            if not some:
                sys.exit(0)
            self._rest += some
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode().split()


class _Poller:
    """One round of polls on connections that stay open, one for each VM."""

    def __init__(self, server: tuple[str, int], sources: list[str], ears: _Ears) -> None:
        self._server, self._sources, self._ears = server, sources, ears
        self._connections: list[socket.socket | None] = [None for _ in sources]
        self._turn = 0
        self._end = self._patience = float("inf")

    def round(self) -> Polls:
        """Poll until told to end."""
        self._end = self._patience = float("inf")
        waits: list[float] = []
        slowest, slowest_due, own_delay, unanswered, trouble = 0.0, 0.0, 0.0, False, ""
        due = free = time.monotonic()
        while due < self._end and not trouble and not unanswered:
            if not self._sleep_until(due):
                break
            sent = time.monotonic()
            try:
                unanswered = not self._poll()
            except OSError as error:
                trouble = str(error) or type(error).__name__
            answered = time.monotonic()
            waits.append(answered - due)
            if waits[-1] > slowest:
                slowest, slowest_due, own_delay = waits[-1], due, max(0.0, sent - max(due, free))
            due, free = due + PERIOD, answered
        typical = sorted(waits)[len(waits) // 2] if waits else 0.0
        return Polls(len(waits), slowest, slowest_due, own_delay, typical, unanswered, trouble)

    def _sleep_until(self, due: float) -> bool:
        """Whether it is time to poll; false when it is over before that."""
        while (left := min(due, self._end) - time.monotonic()) > 0:
            if select.select([self._ears], [], [], left)[0]:
                self._listen()
        return due < self._end

    def _listen(self) -> None:
        _, tail, grace = self._ears.word()
        self._end = time.monotonic() + float(tail)
        self._patience = self._end + float(grace)

    def _poll(self) -> bool:
        """Whether an answer came before we were told to wait no longer."""
        connection = self._connect()
        connection.sendall(REQUEST)
        answer = b""
        while not _is_whole(answer):
            waiting_for: list[Any] = [connection] if self._end < float("inf") else [connection, self._ears]
            left = None if self._patience == float("inf") else max(0.0, self._patience - time.monotonic())
            ready = select.select(waiting_for, [], [], left)[0]
            if self._ears in ready:
                self._listen()
            elif not ready:
                self.disconnect()
                return False
            if connection in ready:
                answer += self._receive(connection)
        if not answer.startswith(_OK):
            raise OSError(f"a poll was answered {answer[:200]!r}")
        return True

    def _connect(self) -> socket.socket:
        self._turn = (self._turn + 1) % len(self._sources)
        connection = self._connections[self._turn]
        if connection is None:
            source = (self._sources[self._turn], 0)
            connection = self._connections[self._turn] = socket.create_connection(self._server, 10.0, source)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _receive(self, connection: socket.socket) -> bytes:
        some = connection.recv(65536)
        if not some:
            self.disconnect()
            raise OSError("the server closed the connection")
        return some

    def disconnect(self) -> None:
        """The next poll begins with a new connection."""
        connection, self._connections[self._turn] = self._connections[self._turn], None
        if connection is not None:
            connection.close()


def _is_whole(answer: bytes) -> bool:
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    lengths = [line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return len(body) >= int(lengths[0] if lengths else 0)


def _run(host: str, port: str, *sources: str) -> None:
    ears = _Ears()
    poller = _Poller((host, int(port)), list(sources), ears)
    gc.disable()  # a pause of ours would look like one of theirs
    while True:
        if ears.word() == ["begin"]:  # an "end" may come late, when a round has ended by itself
            _tell("polling")
            _tell(poller.round().__dict__)


def _tell(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _run(*sys.argv[1:])
