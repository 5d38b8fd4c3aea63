"""What a node among several tells monitoring: whether it leads, how far behind it is, how old its lease is. Pure."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from duenotice.clock import seconds
from duenotice.engine.node_engine import NodeEngine
from duenotice.engine.seat import Seat
from duenotice.operator_api.metric_table import MEMBER_STATES, REFUSALS, counts, family
from duenotice.operator_api.node_list import SILENT_SHARE, silence_of, state_of


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
    age = _lease_age(seat, now)
    lease = seconds(standing.terms.lease)
    yield family("duenotice_node_lease_seconds", lease)
    yield family("duenotice_node_lease_age_seconds", age)
    yield from _refusals(engine)


def node_checks(engine: NodeEngine, now: int) -> list[str]:
    """The lines of a node for `/readyz?verbose`: whether it reaches the database, and who leads.

    Without a leader VMs are still answered, so that alone does not take a node out of a load balancer.
    """
    seat, age = engine.seat, _lease_age(engine.seat, now)
    beat = f"the last beat was {age:.1f} s ago" if seat.standing.right_until else "no beat has worked yet"
    is_late = age > seconds(seat.standing.terms.lease) / SILENT_SHARE
    leader = "" if seat.leader is None else seat.leader.node
    found = engine.store_trouble
    if found is not None:
        beat = f"{beat}: {found.error.message} {found.error.hint}"
    return [
        f"[-]database {beat}" if is_late or found is not None else f"[+]database ok: {beat}",
        f"[+]leader ok: {leader} leads, under epoch {seat.standing.epoch}"
        if leader
        else "[-]leader nobody leads: nothing can be changed",
    ]


def _lease_age(seat: Seat, now: int) -> float:
    return seconds(max(0, now - (seat.standing.right_until - seat.standing.terms.right)))


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
