"""Keep-alive polls, 64 and 1,000 connections: processor time a request and p99 beside nginx."""

from benchmarks.support.console import step
from benchmarks.support.duels import BY_DEFAULT, against_nginx
from benchmarks.support.node import Node
from benchmarks.support.results import Row, at_least, at_most
from benchmarks.support.yard import Yard

CONNECTIONS = (64, 1000)
CPU, P99 = 1.0, 1.2


def measure(yard: Yard) -> list[Row]:
    """Poll a quiet VM's document over connections that stay open; how they come plays no part, so one nginx does."""
    rows: list[Row] = []
    with Node(yard.data_dir()) as node:
        for connections in CONNECTIONS:
            step(f"{connections} connections")
            cpu, p99 = against_nginx(yard, node, [BY_DEFAULT], connections)[BY_DEFAULT]
            rows.append(at_least(f"CPU a request, {connections:,} connections", cpu, CPU, "µs"))
            rows.append(at_most(f"p99, {connections:,} connections", p99, P99, "µs"))
    return rows
