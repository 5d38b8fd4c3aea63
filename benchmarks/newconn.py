"""A new connection for every poll: processor time a request and p99 beside nginx, by default and `deferred`.

Every request is a connection of its own for both servers. Both close first nearly always, so what lingers
(TIME_WAIT) is on the server's side and the client does not run out of ports. wrk has one address; polls from 1,000
come from a client of ours, which is slower, so that fewer connections wait at a time.
"""

from benchmarks.support.console import step
from benchmarks.support.duels import against_nginx
from benchmarks.support.fleets import alone
from benchmarks.support.node import Node
from benchmarks.support.results import Row, at_least, at_most
from benchmarks.support.yard import FLEET, Yard

CONNECTIONS = 64
ADDRESSES = 1000
TARGETS = {False: 1.3, True: 0.95}
"""How many times as cheap as nginx by default, and as nginx with `listen … deferred`."""


def measure(yard: Yard) -> list[Row]:
    """Connect, poll, close, again and again."""
    rows: list[Row] = []
    many = [address for _, address in alone(ADDRESSES, FLEET)]
    with Node(yard.data_dir()) as node:
        for sources in ([], many):
            for deferred, target in TARGETS.items():
                rows += _rows(yard, node, sources, deferred, target)
    return rows


def _rows(yard: Yard, node: Node, sources: list[str], deferred: bool, target: float) -> list[Row]:
    count = len(sources) or 1
    beside = f"{count:,} address{'es' if sources else ''}, nginx {'deferred' if deferred else 'by default'}"
    step(beside)
    name = f"newconn-{count}-{deferred}"
    cpu, p99 = against_nginx(yard, node, name, CONNECTIONS, "Connection: close", sources=sources, deferred=deferred)
    return [
        at_least(f"CPU a request on a new connection, {beside}", cpu, target, "µs"),
        at_most(f"p99 on a new connection, {beside}", p99, 1.2, "µs"),
    ]
