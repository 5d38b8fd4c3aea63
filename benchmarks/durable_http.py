"""Commands that survive a power cut, as an operator's program sends them: one after another on one connection."""

import re
import socket
from contextlib import closing
from time import perf_counter
from typing import NamedTuple

from benchmarks.support.bare_sync import BareFile, bare_file
from benchmarks.support.console import step
from benchmarks.support.fleets import alone
from benchmarks.support.http import SECONDS, post, whole
from benchmarks.support.machine import CannotMeasure
from benchmarks.support.node import Node
from benchmarks.support.process import cpu_seconds
from benchmarks.support.results import Duel, Row, at_most, figure, p50, p99
from benchmarks.support.yard import FLEET, Yard

LIMIT = 2.5
_EVENT_ID = re.compile(rb'"id":"([0-9A-F-]{36})"')


class Round(NamedTuple):
    """Milliseconds each answer and each bare write took; and of a command the processor time, in microseconds."""

    ours: list[float]
    bare: list[float]
    cpu: float


def over_http(yard: Yard) -> list[Row]:
    """Schedule an event, cancel it, and again; the reference takes turns with that, on the load's core."""
    writes = 200 if yard.quick else 1000
    with Node(yard.data_dir()) as node, bare_file(yard.folder("bare-http"), writes * yard.rounds) as bare:
        operator = _Operator(node)
        with closing(operator):
            operator.schedule_and_cancel(writes)  # warm up
            rounds = [_round(operator, bare, writes, number) for number in range(1, yard.rounds + 1)]
    middle = Duel([p50(each.ours) for each in rounds], [p50(each.bare) for each in rounds])
    tail = Duel([p99(each.ours) for each in rounds], [p99(each.bare) for each in rounds])
    ours, bare_ms = (f"{figure(p50(side))} ms" for side in middle)
    return [
        at_most("p99 of a durable command over HTTP beside a bare fdatasync", tail, LIMIT, "ms"),
        Row("p50 of a durable command over HTTP beside a bare fdatasync", ours, bare_ms, middle.cost),
        Row("processor time of a durable command over HTTP", f"{figure(p50([each.cpu for each in rounds]))} µs"),
    ]


def _round(operator: "_Operator", bare: BareFile, writes: int, number: int) -> Round:
    # Whoever begins may have it easier: take turns in that too.
    first = bare.write(writes) if number % 2 == 0 else None
    before = operator.cpu()
    ours = operator.schedule_and_cancel(writes)
    cpu = (operator.cpu() - before) / writes * 1e6
    done = Round(ours, first or bare.write(writes), cpu)
    step(
        f"round {number} over HTTP: p99 {p99(done.ours):.2f} ms, bare {p99(done.bare):.2f} ms; "
        f"p50 {p50(done.ours):.2f} ms, bare {p50(done.bare):.2f} ms"
    )
    return done


class _Operator:
    """One program with one connection, whose VM listens."""

    def __init__(self, node: Node) -> None:
        self._pid, self._token = node.pid, node.token
        self._line = socket.create_connection(node.operator, SECONDS)
        self._line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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
        request, answer = post(path, self._token, body), b""
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
            raise CannotMeasure(f"{path} was answered {answer!r}")
        return answer
