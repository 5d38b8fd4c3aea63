"""What more VMs cost: start, memory and a poll's processor time for 1k, 10k, 100k and 1M of them."""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from benchmarks.support.console import step
from benchmarks.support.crowd import Crowd
from benchmarks.support.fleets import spread
from benchmarks.support.http import poll
from benchmarks.support.machine import SERVER_CORE, CannotMeasure, pinned
from benchmarks.support.node import Node
from benchmarks.support.process import cpu_seconds, peak_bytes, resident_bytes
from benchmarks.support.results import Row, p50, within
from benchmarks.support.yard import FLEET, Yard

POLLERS = 500
MILLION = 1_000_000
ROUNDS = 3
MEMORY = {FLEET: 110, MILLION: 550}
"""Megabytes that a fleet may take."""

START = 2.0
"""Seconds from exec to the first answered poll, from a snapshot of a million."""

NOISE = 1.25
"""How far above a flat or a straight line counts as noise."""


class Point(NamedTuple):
    """One size on the curve."""

    vms: int
    start_seconds: float
    start_cpu: float
    load_seconds: float
    resident: int
    peak: int
    get_microseconds: float


def measure(yard: Yard) -> list[Row]:
    """Start each size from its snapshot, weigh it, poll it from VMs all over the fleet."""
    sizes = (1_000, FLEET) if yard.quick else (1_000, 10_000, FLEET, MILLION)
    gets = _polled(yard, sizes)
    points = [_point(yard, size, gets[size]) for size in sizes]
    return [*map(_shown, points), *_targets(points), _with_fleet_file(yard)]


def _polled(yard: Yard, sizes: Sequence[int]) -> dict[int, float]:
    """Processor time of a poll for each size; they take turns, so that what else the machine does hits all alike."""
    with ExitStack() as stack:
        nodes = {size: stack.enter_context(Node(yard.data_dir(size))) for size in sizes}
        rounds = [
            {size: _get_microseconds(node, spread(POLLERS, size), yard.seconds) for size, node in nodes.items()}
            for _ in range(ROUNDS)
        ]
    return {size: p50([figures[size] for figures in rounds]) for size in sizes}


def _point(yard: Yard, size: int, get: float) -> Point:
    data_dir = yard.data_dir(size)
    load_seconds = _load_seconds(data_dir)
    starts = [_start(data_dir) for _ in range(ROUNDS - 1)]
    with Node(data_dir) as node:
        if node.vms != size:
            raise CannotMeasure(f"The snapshot gave {node.vms:,} VMs instead of {size:,}.")
        resident, peak = resident_bytes(node.pid), peak_bytes(node.pid)
    starts.append((node.started_in, node.start_cpu))
    seconds, cpu = (p50(figures) for figures in zip(*starts, strict=True))
    point = Point(size, seconds, cpu, load_seconds, resident, peak, get)
    step(f"{size:,} VMs: {_shown(point).ours}")
    return point


def _start(data_dir: Path) -> tuple[float, float]:
    with Node(data_dir) as node:
        return node.started_in, node.start_cpu


def _load_seconds(data_dir: Path) -> float:
    """How long the journal alone takes to become a state, in a process of its own."""
    command = pinned(SERVER_CORE, [sys.executable, "-m", "benchmarks.support.loading", str(data_dir)])
    return float(subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout)


def _get_microseconds(node: Node, sources: Sequence[str], seconds: int) -> float:
    """Processor time of a poll by VMs spread over the whole fleet."""
    with Crowd() as crowd:
        vms = crowd.join(node.metadata, sources, poll())
        until = monotonic() + seconds
        before, polls = cpu_seconds(node.pid), 0
        while monotonic() < until:
            crowd.ask(vms, poll())
            polls += len(vms)
        return (cpu_seconds(node.pid) - before) / polls * 1e6


def _shown(point: Point) -> Row:
    figures = (
        f"start {point.start_seconds:.2f} s (CPU {point.start_cpu:.2f} s, journal {point.load_seconds:.2f} s)",
        f"{point.resident / 1e6:.0f} MB (peak {point.peak / 1e6:.0f} MB)",
        f"GET {point.get_microseconds:.1f} µs",
    )
    return Row(f"{point.vms:,} VMs", ", ".join(figures))


def _targets(points: Sequence[Point]) -> list[Row]:
    gets = [point.get_microseconds for point in points]
    weighed = [
        within(f"memory, {point.vms:,} VMs", point.resident / 1e6, MEMORY[point.vms], "MB")
        for point in points
        if point.vms in MEMORY
    ]
    flat = _bounded("GET flat: dearest size beside the cheapest", max(gets) / min(gets), NOISE)
    return [*weighed, *(_million(points) if points[-1].vms == MILLION else ()), flat]


def _million(points: Sequence[Point]) -> list[Row]:
    """What only the largest fleet tells."""
    return [
        within(f"start from snapshot, {MILLION:,} VMs", points[-1].start_seconds, START, "s"),
        _straight("start's CPU", [(point.vms, point.start_cpu) for point in points]),
        _straight("memory", [(point.vms, point.resident) for point in points]),
    ]


def _straight(what: str, curve: Sequence[tuple[int, float]]) -> Row:
    """So many times the VMs may cost so many times as much, not more; a square would show as several times."""
    *_, (b, at_b), (c, at_c) = curve
    what = f"{what} linear: {c:,} VMs beside {c / b:g} times {b:,}"
    return _bounded(what, at_c / (at_b * c / b), NOISE)


def _bounded(what: str, ratio: float, limit: float) -> Row:
    return Row(what, "", "", ratio, f"≤ {limit:g}×", ratio <= limit)


def _with_fleet_file(yard: Yard) -> Row:
    """The same start when the unchanged fleet file is named again, which has to be read to know that."""
    with Node(yard.data_dir(), yard.fleet_file()) as node:
        return Row(f"start with an unchanged fleet file of {FLEET:,} VMs", f"{node.started_in:.2f} s")
