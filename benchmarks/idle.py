"""What a connection weighs that is open and quiet: the server's own memory before and after 10,000 more of them.

Loading a fleet leaves free memory behind, which the first few thousand connections fill without the process
growing. So those come first and are not counted; otherwise a connection would seem a third lighter than it is.
"""

from collections.abc import Sequence

from benchmarks.support.console import step
from benchmarks.support.crowd import Crowd
from benchmarks.support.fleets import POLLER, set_members
from benchmarks.support.http import poll
from benchmarks.support.node import Node
from benchmarks.support.process import own_bytes
from benchmarks.support.results import Row, within
from benchmarks.support.yard import FLEET, Yard

LIMIT = 1.6
FILL = 5_000


def measure(yard: Yard) -> list[Row]:
    """Connections that have each made one request, each from a VM of its own, and all from one VM."""
    members = [address for _, address in set_members(FLEET)]
    return [
        within("idle connection, each from a VM of its own", _kilobytes_each(yard, members), LIMIT, "KB"),
        within("idle connection, all from one VM", _kilobytes_each(yard, [POLLER] * len(members)), LIMIT, "KB"),
    ]


def _kilobytes_each(yard: Yard, sources: Sequence[str]) -> float:
    # A server that has had more connections would give their memory to these: it must be a fresh one.
    with Node(yard.data_dir()) as node, Crowd() as crowd:
        crowd.join(node.metadata, [POLLER] * FILL, poll())
        before = own_bytes(node.pid)
        crowd.join(node.metadata, sources, poll())
        after = own_bytes(node.pid)
    step(f"{before / 1e6:.1f} MB with {FILL:,}, {after / 1e6:.1f} MB with {len(sources):,} more")
    return (after - before) / len(sources) / 1000
