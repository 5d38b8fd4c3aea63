"""One node with two processes beside one with one: what a poll costs."""

from pathlib import Path
from time import monotonic

from benchmarks.support.console import step
from benchmarks.support.crowd import Crowd, check_ok
from benchmarks.support.fleets import alone
from benchmarks.support.http import poll
from benchmarks.support.machine import CannotMeasure
from benchmarks.support.node import Node
from benchmarks.support.process import children, cpu_seconds
from benchmarks.support.results import Duel, Row, at_most, figure
from benchmarks.support.yard import Yard

VMS = 1000
CONNECTIONS = 256
LIMIT = 1.1
PATIENCE = 30.0


def measure(yard: Yard) -> list[Row]:
    """The same crowd asks a node of one process and a node of two; all are on one core, so it is about their cost."""
    addresses = [address for _, address in alone(VMS // 10 - 1, VMS)]
    sources = [addresses[number % len(addresses)] for number in range(CONNECTIONS)]
    fleet = yard.fleet_file(VMS)
    with (
        Node(yard.folder("one"), fleet) as one,
        Node(yard.folder("two"), fleet, "--workers=2") as two,
        Crowd() as crowd,
    ):
        _wait_for(two)
        at_one, at_two = crowd.join(one.metadata, sources, poll()), crowd.join(two.metadata, sources, poll())
        both = [two.pid, *children(two.pid)]
        turns = [
            (_cost(crowd, at_two, both, yard.seconds), _cost(crowd, at_one, [one.pid], yard.seconds))
            for _ in range(yard.rounds)
        ]
    duel = Duel(*zip(*turns, strict=True))
    for number, (ours, theirs) in enumerate(turns, 1):
        step(f"round {number}: two workers {figure(ours)} µs, one {figure(theirs)} µs: {ours / theirs:.2f}×")
    return [
        at_most("CPU a poll with two workers, beside one", duel, LIMIT, "µs"),
        Row("polls of two workers beside one, if each had a core of its own", "", "", 2 * duel.speed),
    ]


def _wait_for(node: Node) -> None:
    """Until both have begun to answer."""
    until = monotonic() + PATIENCE
    while _serving(node) < 2:
        if monotonic() > until:
            raise CannotMeasure("The second worker does not serve.")


def _serving(node: Node) -> int:
    """How many processes of a node have begun to answer."""
    found = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[3] == "0A" and int(row[1].partition(":")[2], 16) == node.metadata.port for row in found)


def _cost(crowd: Crowd, members: list[int], processes: list[int], seconds: float) -> float:
    """Microseconds of processor time a poll, over all processes."""
    before, asked = sum(map(cpu_seconds, processes)), 0
    until = monotonic() + seconds
    while monotonic() < until:
        check_ok(crowd.ask(members, poll()))
        asked += len(members)
    return (sum(map(cpu_seconds, processes)) - before) / asked * 1e6
