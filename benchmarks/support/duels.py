"""Two servers in turns under the same load, mostly ours and nginx: processor time a request and latency."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from benchmarks.support.console import step
from benchmarks.support.dialling import dial
from benchmarks.support.http import Address, exchange, poll
from benchmarks.support.nginx import Nginx
from benchmarks.support.node import Node
from benchmarks.support.process import cpu_seconds
from benchmarks.support.results import Duel, figure
from benchmarks.support.wrk import Load, run_wrk
from benchmarks.support.yard import Yard

CONNECTIONS = 64
Server = tuple[int, Address]
"""A process, and where it answers."""


class Turn(NamedTuple):
    """What one turn cost, in microseconds."""

    cpu: float
    p99: float


class Outcome(NamedTuple):
    """Both figures, round by round."""

    cpu: Duel
    p99: Duel


def against_nginx(
    yard: Yard,
    node: Node,
    name: str,
    connections: int,
    *headers: str,
    sources: Sequence[str] = (),
    deferred: bool = False,
) -> Outcome:
    """Let both answer the same requests with the same bytes, in turns; with `sources` from these addresses."""
    request = poll(*headers)

    def load(address: Address, seconds: int) -> Load:
        if sources:
            return dial(address, request, sources, connections, seconds)
        return run_wrk(address, connections, seconds, *headers)

    with Nginx(yard.folder(f"nginx-{name}"), request, exchange(node.metadata, request), deferred) as nginx:
        ours = _contestant(node.pid, partial(load, node.metadata))
        theirs = _contestant(nginx.worker, partial(load, nginx.address))
        ours(1), theirs(1)  # warm up
        turns = [_round(ours, theirs, yard.seconds, number) for number in range(1, 2 * yard.rounds + 2)]
    mine, reference = zip(*turns, strict=True)
    return Outcome(
        Duel([turn.cpu for turn in mine], [turn.cpu for turn in reference]),
        Duel([turn.p99 for turn in mine], [turn.p99 for turn in reference]),
    )


def taking_turns(yard: Yard, ours: Server, theirs: Server, name: str) -> Duel:
    """Processor time of a keep-alive poll at two servers of ours."""
    (mine, my_address), (other, its_address) = ours, theirs
    first = _contestant(mine, partial(run_wrk, my_address, CONNECTIONS))
    second = _contestant(other, partial(run_wrk, its_address, CONNECTIONS))
    first(1), second(1)  # warm up
    turns = [_round(first, second, yard.seconds, number, name) for number in range(1, yard.rounds + 2)]
    return Duel([mine.cpu for mine, _ in turns], [other.cpu for _, other in turns])


def _round(
    ours: Callable[[int], Turn], theirs: Callable[[int], Turn], seconds: int, number: int, name: str = "nginx"
) -> tuple[Turn, Turn]:
    # Whoever begins may have it easier: take turns in that too.
    if number % 2:
        mine, reference = ours(seconds), theirs(seconds)
    else:
        reference, mine = theirs(seconds), ours(seconds)
    step(
        f"round {number}: {figure(mine.cpu)} µs a request, {name} {figure(reference.cpu)}: "
        f"{reference.cpu / mine.cpu:.2f}×; p99 {figure(mine.p99)} µs, {name} {figure(reference.p99)}"
    )
    return mine, reference


def _contestant(pid: int, load: Callable[[int], Load]) -> Callable[[int], Turn]:
    def turn(seconds: int) -> Turn:
        before = cpu_seconds(pid)
        seen = load(seconds)
        return Turn((cpu_seconds(pid) - before) / seen.requests * 1e6, seen.p99)

    return turn
