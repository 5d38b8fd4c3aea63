"""All VMs of a fleet of 100,000 are listed, again and again: what the polls of others feel of it."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.support.console import step
from benchmarks.support.http import exchange, get
from benchmarks.support.machine import CannotMeasure
from benchmarks.support.node import Node
from benchmarks.support.results import Duel, Row, at_most, figure, p50
from benchmarks.support.wrk import run_wrk
from benchmarks.support.yard import FLEET, Yard

CONNECTIONS = 64
PAGE = 1000
LIMIT = 2.0
LEAST = 0.1
_NEXT = re.compile(rb'"next":(?:null|"([^"]+)")}$')
"""All that is looked at of a page: whoever reads it must not take the core that the polls come from."""


def measure(yard: Yard) -> list[Row]:
    """Polls with and without a listing, in turns."""
    with Node(yard.data_dir()) as node:
        run_wrk(node.metadata, CONNECTIONS, 1)  # warm up
        rounds = [_round(node, yard.seconds, number) for number in range(1, yard.rounds + 1)]
    listed, quiet, lists = zip(*rounds, strict=True)
    if min(lists) < LEAST:
        raise CannotMeasure(f"Only {min(lists):.2f} lists were read in a round: that is no load.")
    return [
        at_most(f"p99 of a poll while {FLEET:,} VMs are listed, beside idle", Duel(listed, quiet), LIMIT, "µs"),
        Row("whole lists read in a round", figure(p50(lists))),
    ]


def _round(node: Node, seconds: int, number: int) -> tuple[float, float, float]:
    # Whoever begins may have it easier: take turns in that too.
    if number % 2:
        quiet, (listed, lists) = _quiet(node, seconds), _listed(node, seconds)
    else:
        (listed, lists), quiet = _listed(node, seconds), _quiet(node, seconds)
    step(f"round {number}: p99 {figure(listed)} µs while {lists:.1f} lists are read, {figure(quiet)} µs without")
    return listed, quiet, lists


def _quiet(node: Node, seconds: int) -> float:
    return run_wrk(node.metadata, CONNECTIONS, seconds).p99


def _listed(node: Node, seconds: int) -> tuple[float, float]:
    with _lister(node) as cursors:
        p99 = run_wrk(node.metadata, CONNECTIONS, seconds).p99
    return p99, len(cursors) * PAGE / FLEET


@contextmanager
def _lister(node: Node) -> Iterator[list[str]]:
    """Reads page after page, and from the beginning when it is through; where each ended."""
    cursors = [""]
    over = threading.Event()
    thread = threading.Thread(target=_list_until, args=(node, over, cursors))
    thread.start()
    try:
        yield cursors
    finally:
        over.set()
        thread.join()


def _list_until(node: Node, over: threading.Event, cursors: list[str]) -> None:
    while not over.is_set():
        answer = exchange(node.operator, get(f"/v1/vms?limit={PAGE}&cursor={cursors[-1]}", node.token))
        found = _NEXT.search(answer, len(answer) - 200)
        assert found is not None, answer[:500]
        cursors.append((found[1] or b"").decode())
