"""A new connection for every poll: processor time a request and p99 beside nginx, by default and `deferred`.

Every request is a connection of its own for all servers. They close first nearly always, so what lingers
(TIME_WAIT) is on the server's side and the client does not run out of ports. wrk has one address; polls from 1,000
come from a client of ours, which is slower, so that fewer connections wait at a time.

`curl` and `requests` do not ask the server to close: they hang up when they have their answer. That is a row too.
"""

from benchmarks.support.console import step
from benchmarks.support.duels import BY_DEFAULT, CONNECTIONS, DEFERRED, against_nginx
from benchmarks.support.fleets import alone
from benchmarks.support.node import Node
from benchmarks.support.results import Row, at_least, at_most
from benchmarks.support.yard import FLEET, Yard

ADDRESSES = 1000
TARGETS = {BY_DEFAULT: 1.3, DEFERRED: 0.95}
"""How many times as cheap as each."""

HUNG_UP = 1.0
"""The same when the client closes."""

P99 = 1.2


def measure(yard: Yard) -> list[Row]:
    """Connect, poll, close, again and again."""
    many = [address for _, address in alone(ADDRESSES, FLEET)]
    with Node(yard.data_dir()) as node:
        return [
            *_rows(yard, node, "1 address", []),
            *_rows(yard, node, f"{ADDRESSES:,} addresses", many),
            _row_of_curl(yard, node, many),
        ]


def _rows(yard: Yard, node: Node, from_: str, sources: list[str]) -> list[Row]:
    step(from_)
    found = against_nginx(yard, node, list(TARGETS), CONNECTIONS, "Connection: close", sources=sources)
    rows: list[Row] = []
    for kind, (cpu, p99) in found.items():
        rows.append(at_least(f"CPU a request on a new connection, {from_}, {kind}", cpu, TARGETS[kind], "µs"))
        rows.append(at_most(f"p99 on a new connection, {from_}, {kind}", p99, P99, "µs"))
    return rows


def _row_of_curl(yard: Yard, node: Node, sources: list[str]) -> Row:
    step("the client hangs up")
    cpu, _ = against_nginx(yard, node, [BY_DEFAULT], CONNECTIONS, sources=sources)[BY_DEFAULT]
    return at_least(f"CPU a request on a new connection that the client closes, {BY_DEFAULT}", cpu, HUNG_UP, "µs")
