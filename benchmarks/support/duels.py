"""Servers in turns under the same load, mostly ours and nginx: processor time a request and latency."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
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

BY_DEFAULT, DEFERRED = "nginx by default", "nginx deferred"


class Turn(NamedTuple):
    """What one turn cost, in microseconds."""

    cpu: float
    p99: float


class Outcome(NamedTuple):
    """Both figures, round by round."""

    cpu: Duel
    p99: Duel


Contestant = Callable[[int], Turn]
"""Works for so many seconds."""


def against_nginx(
    yard: Yard, node: Node, kinds: Sequence[str], connections: int, *headers: str, sources: Sequence[str] = ()
) -> dict[str, Outcome]:
    """Let all answer the same requests with the same bytes, in turns; with `sources` from these addresses."""
    request = poll(*headers)
    answer = exchange(node.metadata, request)

    def load(address: Address, seconds: int) -> Load:
        if sources:
            return dial(address, request, sources, connections, seconds)
        return run_wrk(address, connections, seconds, *headers)

    with ExitStack() as stack:
        contestants = {"ours": _contestant(node.pid, partial(load, node.metadata))}
        for kind in kinds:
            nginx = stack.enter_context(Nginx(yard.new_folder("nginx"), request, answer, kind == DEFERRED))
            contestants[kind] = _contestant(nginx.worker, partial(load, nginx.address))
        turns = _turns(contestants, yard.rounds, yard.seconds)
    return {kind: _outcome(turns["ours"], turns[kind]) for kind in kinds}


def taking_turns(yard: Yard, ours: Server, theirs: Server, name: str) -> Duel:
    """Processor time of a keep-alive poll at two servers of ours."""
    both = {"ours": ours, name: theirs}
    contestants = {who: _contestant(pid, partial(run_wrk, at, CONNECTIONS)) for who, (pid, at) in both.items()}
    turns = _turns(contestants, yard.rounds, yard.seconds)
    return _outcome(turns["ours"], turns[name]).cpu


def _turns(contestants: dict[str, Contestant], rounds: int, seconds: int) -> dict[str, list[Turn]]:
    """What each did, round by round, after all have warmed up."""
    for contestant in contestants.values():
        contestant(1)
    turns: dict[str, list[Turn]] = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(rounds):
        first = number % len(names)  # whoever begins may have it easier: take turns in that too
        for name in names[first:] + names[:first]:
            turns[name].append(contestants[name](seconds))
        step(f"round {number + 1}: " + "; ".join(_said(name, turns[name][-1], turns["ours"][-1]) for name in names))
    return turns


def _said(name: str, turn: Turn, ours: Turn) -> str:
    ratio = "" if name == "ours" else f" ({turn.cpu / ours.cpu:.2f}×)"
    return f"{name} {figure(turn.cpu)} µs a request{ratio}, p99 {figure(turn.p99)} µs"


def _outcome(ours: Sequence[Turn], theirs: Sequence[Turn]) -> Outcome:
    return Outcome(
        Duel([turn.cpu for turn in ours], [turn.cpu for turn in theirs]),
        Duel([turn.p99 for turn in ours], [turn.p99 for turn in theirs]),
    )


def _contestant(pid: int, load: Callable[[int], Load]) -> Contestant:
    def turn(seconds: int) -> Turn:
        before = cpu_seconds(pid)
        seen = load(seconds)
        return Turn((cpu_seconds(pid) - before) / seen.requests * 1e6, seen.p99)

    return turn
