"""What a node among several tells monitoring: whether it leads, how far behind it is, how old its lease is. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.core import Metric

from duenotice.clock import seconds
from duenotice.engine.engine import Engine
from duenotice.engine.node_engine import NodeEngine
from duenotice.engine.seat import Seat
from duenotice.operator_api.metric_table import MEMBER_STATES, REFUSALS, counts, family
from duenotice.operator_api.node_list import silence_of, state_of
from duenotice.operator_api.node_troubles import Trouble, cut_off, lease_age, line_of


def node_metrics(engine: NodeEngine, now: int) -> Iterator[Metric]:
    """Everything as this node sees it; `now` is its time since boot."""
    seat, standing = engine.seat, engine.seat.standing
    yield family("duenotice_node_leads", engine.leads)
    # An epoch begins with each change, so every node tells the same number, also after a restart.
    yield family("duenotice_leader_changes_total", standing.epoch)
    yield _members(seat, now)
    behind = seconds(now - seat.behind_since) if seat.behind_since else 0
    lag = max(0, standing.known - standing.revealed)
    yield family("duenotice_node_lag_records", lag)
    yield family("duenotice_node_lag_seconds", behind)
    age = seconds(lease_age(seat, now))
    lease = seconds(standing.terms.lease)
    yield family("duenotice_node_lease_seconds", lease)
    yield family("duenotice_node_lease_age_seconds", age)
    yield from _refusals(engine)


def node_checks(engine: Engine, troubles: Sequence[Trouble], now: int) -> list[str]:
    """The lines of `/readyz?verbose` about nodes: what is wrong by name, and what is well (N23).

    Without a leader VMs are still answered, so that alone does not take a node out of a load balancer.
    """
    wrong = [line_of(trouble) for trouble in troubles]
    if not isinstance(engine, NodeEngine):
        return wrong
    about, seat = {trouble.about for trouble in troubles}, engine.seat
    well = []
    if "database" not in about:
        well.append(f"[+]database ok: the last beat was {seconds(lease_age(seat, now)):.1f} s ago")
    if cut_off(seat, now) is not None:
        wrong.append("[-]leader is not known: this node does not reach the database")
    elif "leader" not in about:
        leader = "" if seat.leader is None else seat.leader.node
        well.append(f"[+]leader ok: {leader} leads, under epoch {seat.standing.epoch}")
    return [*well, *wrong]


def _members(seat: Seat, now: int) -> Metric:
    """The nodes that take part, by state."""
    standing, members = seat.standing, () if seat.sight is None else seat.sight.members
    counted = Counter(state_of(standing, member, silence_of(standing, member, now)) for member in members)
    return counts("duenotice_nodes", {(state,): counted[state] for state in MEMBER_STATES})


def _refusals(engine: NodeEngine) -> Iterator[Metric]:
    tally = engine.tally
    yield family("duenotice_vm_polls_held_total", tally.held)
    refused = zip(REFUSALS, (tally.without_right, tally.hidden_too_long), strict=True)
    yield counts("duenotice_vm_requests_refused_total", {(reason,): number for reason, number in refused})
