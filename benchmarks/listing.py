"""All VMs of a fleet of 100,000 are listed, again and again: what the polls of others feel of it."""

import json
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


def measure(yard: Yard) -> list[Row]:
    """Polls with and without a listing, in turns; only whole lists count, and how many there were is told."""
    with Node(yard.data_dir()) as node:
        run_wrk(node.metadata, CONNECTIONS, 1)  # warm up
        rounds = [_round(node, yard.seconds, number) for number in range(1, 2 * yard.rounds + 2)]
    listed, quiet, lists = zip(*rounds, strict=True)
    if min(lists) < 0.5:
        raise CannotMeasure(f"Only {min(lists):.1f} lists were read in a round: polls leave no time for them.")
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
    with _lister(node) as pages:
        p99 = run_wrk(node.metadata, CONNECTIONS, seconds).p99
    return p99, len(pages) * PAGE / FLEET


@contextmanager
def _lister(node: Node) -> Iterator[list[int]]:
    """Reads page after page, and from the beginning when it is through; how many VMs each had."""
    pages: list[int] = []
    over = threading.Event()
    thread = threading.Thread(target=_list_until, args=(node, over, pages))
    thread.start()
    try:
        yield pages
    finally:
        over.set()
        thread.join()


def _list_until(node: Node, over: threading.Event, pages: list[int]) -> None:
    cursor = ""
    while not over.is_set():
        answer = exchange(node.operator, get(f"/v1/vms?limit={PAGE}&cursor={cursor}", node.token))
        page = json.loads(answer.partition(b"\r\n\r\n")[2])
        pages.append(len(page["items"]))
        cursor = page["next"] or ""
