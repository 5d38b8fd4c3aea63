"""Commands that survive a power cut, as an operator's program sends them: one after another on one connection.

The bare fdatasync beside them runs on the server's core, while the server has nothing to do. A disk tells one core that
it is done: where all its interrupts come to the second core, a sync takes 64 µs there and 89 µs on the first.

The bare app is a server that does nothing but the sync, in a thread: what is above it is ours, the rest is Python's.
"""

import re
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from benchmarks.support.bare_sync import BareFile, bare_file
from benchmarks.support.children import Child
from benchmarks.support.console import step
from benchmarks.support.fleets import alone
from benchmarks.support.http import SECONDS, Address, post, whole
from benchmarks.support.machine import SERVER_CORE, CannotMeasure, on_core, pinned
from benchmarks.support.node import Node
from benchmarks.support.process import cpu_seconds
from benchmarks.support.results import Duel, Row, at_most, figure, p50, p99
from benchmarks.support.yard import FLEET, Yard

LIMIT = 2.0
"""Of a bare app. A limit beside the bare fdatasync would be one for uvicorn: the bare app alone is at 1.9 to 2.5."""
_EVENT_ID = re.compile(rb'"id":"([0-9A-F-]{36})"')


class Round(NamedTuple):
    """Milliseconds each answer took, each bare write and each answer of a bare app; and microseconds of processor time
    of a command."""

    ours: list[float]
    bare: list[float]
    app: list[float]
    cpu: float


def over_http(yard: Yard) -> list[Row]:
    """Schedule an event, cancel it, and again; the references take turns with that, on the same core."""
    writes = 200 if yard.quick else 1000
    with (
        Node(yard.data_dir()) as node,
        _BareApp(yard.folder("bare-app")) as app,
        bare_file(yard.folder("bare-http"), writes) as bare,
        closing(_Operator(node)) as operator,
        closing(_Line(app.address)) as line,
    ):
        operator.schedule_and_cancel(writes)  # warm up
        line.ask_often(writes)
        rounds = [_round(operator, line, bare, writes, number) for number in range(1, yard.rounds + 1)]
    return _rows(rounds)


def _rows(rounds: Sequence[Round]) -> list[Row]:
    ours, bare, app = ([p50(samples) for samples in side] for side in _sides(rounds))
    tails = [[p99(samples) for samples in side] for side in _sides(rounds)]
    beside_app = Duel(tails[0], tails[2])
    return [
        at_most("p99 of a durable command over HTTP beside a bare app that syncs", beside_app, LIMIT, "ms"),
        _compared("p50 of a durable command over HTTP beside a bare app that syncs", Duel(ours, app)),
        _compared("p99 of a durable command over HTTP beside a bare fdatasync", Duel(*tails[:2])),
        _compared("p50 of a durable command over HTTP beside a bare fdatasync", Duel(ours, bare)),
        _compared("p99 of a bare app that syncs beside a bare fdatasync", Duel(tails[2], tails[1])),
        Row("processor time of a durable command over HTTP", f"{figure(p50([each.cpu for each in rounds]))} µs"),
    ]


def _sides(rounds: Sequence[Round]) -> tuple[list[list[float]], ...]:
    return [each.ours for each in rounds], [each.bare for each in rounds], [each.app for each in rounds]


def _compared(what: str, duel: Duel) -> Row:
    ours, reference = (f"{figure(p50(side))} ms" for side in duel)
    return Row(what, ours, reference, duel.cost)


def _round(operator: "_Operator", line: "_Line", bare: BareFile, writes: int, number: int) -> Round:
    cpu, taken = 0.0, dict[str, list[float]]()

    def alone() -> list[float]:
        with on_core(SERVER_CORE):
            return bare.write(writes)

    def asked() -> list[float]:
        nonlocal cpu
        before = operator.cpu()
        taken = operator.schedule_and_cancel(writes)
        cpu = (operator.cpu() - before) / writes * 1e6
        return taken

    turns: list[tuple[str, Callable[[], list[float]]]] = [
        ("ours", asked),
        ("bare", alone),
        ("app", lambda: line.ask_often(writes)),
    ]
    first = number % len(turns)  # whoever begins may have it easier: take turns in that too
    for name, turn in turns[first:] + turns[:first]:
        taken[name] = turn()
    done = Round(taken["ours"], taken["bare"], taken["app"], cpu)
    step(
        f"round {number} over HTTP: p99 {p99(done.ours):.2f} ms, bare {p99(done.bare):.2f} ms, app "
        f"{p99(done.app):.2f} ms; p50 {p50(done.ours):.2f} ms, bare {p50(done.bare):.2f} ms, app {p50(done.app):.2f} ms"
    )
    return done


class _BareApp(Child):
    """A bare app, on the server's core."""

    def __init__(self, place: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.support.bare_app", str(place)]
        super().__init__(pinned(SERVER_CORE, command), place.with_suffix(".log"))
        host, _, port = self.output.readline().decode().strip().partition(":")
        if not port:
            self.kill()
            raise self.failed("ended before it listened")
        self.address = Address(host, int(port))


class _Line:
    """One connection, on which one request follows the other."""

    def __init__(self, server: Address) -> None:
        self._line = socket.create_connection(server, SECONDS)
        self._line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def ask_often(self, times: int) -> list[float]:
        """The same again and again; how many milliseconds each took."""
        taken: list[float] = []
        request = post("/v1/events", "none", b'{"type":"Freeze","resources":["alone-0"]}')
        for _ in range(times):
            self.ask(request, b"201", taken)
        return taken

    def ask(self, request: bytes, status: bytes, taken: list[float] | None = None) -> bytes:
        """The answer to a request; how long it took is noted in `taken`."""
        answer = b""
        began = perf_counter()
        self._line.sendall(request)
        while not whole(answer):
            some = self._line.recv(65536)
            if not some:
                raise CannotMeasure(f"The server closed the connection after {answer!r}")
            answer += some
        if taken is not None:
            taken.append((perf_counter() - began) * 1e3)
        if not answer.startswith(b"HTTP/1.1 " + status):
            raise CannotMeasure(f"{request!r} was answered {answer!r}")
        return answer


class _Operator:
    """One program with one connection, whose VM listens."""

    def __init__(self, node: Node) -> None:
        self._pid, self._token, self._line = node.pid, node.token, _Line(node.operator)
        (self._vm, _), *_ = alone(1, FLEET)
        self._ask(f"/v1/vms/{self._vm}/listen", b"", b"200")

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def cpu(self) -> float:
        """Seconds that the server has used."""
        return cpu_seconds(self._pid)

    def schedule_and_cancel(self, commands: int) -> list[float]:
        """How many milliseconds each took."""
        taken: list[float] = []
        asked = f'{{"type":"Freeze","resources":["{self._vm}"]}}'.encode()
        for _ in range(commands // 2):
            made = self._ask("/v1/events", asked, b"201", taken)
            found = _EVENT_ID.search(made)
            if found is None:
                raise CannotMeasure(f"The server raised no event: {made!r}")
            self._ask(f"/v1/events/{found[1].decode()}/cancel", b"", b"200", taken)
        return taken

    def _ask(self, path: str, body: bytes, status: bytes, taken: list[float] | None = None) -> bytes:
        return self._line.ask(post(path, self._token, body), status, taken)
