"""A new connection for every poll: processor time a request beside nginx.

Every request is a connection of its own for both servers. Both close first nearly always, so what lingers
(TIME_WAIT) is on the server's side and the client does not run out of ports.
"""

from benchmarks.support.duels import against_nginx
from benchmarks.support.node import Node
from benchmarks.support.results import Row, at_least
from benchmarks.support.yard import Yard

CONNECTIONS = 64


def measure(yard: Yard) -> list[Row]:
    """Connect, poll, close, again and again."""
    with Node(yard.data_dir()) as node:
        cpu, _ = against_nginx(yard, node, "newconn", CONNECTIONS, "Connection: close")
    return [at_least("CPU a request, each on a new connection", cpu, 0.6, "µs")]
