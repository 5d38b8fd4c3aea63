"""Commands at nodes that do not lead, or do not know yet that they do not: each is done once, by the leader (N09)."""

from duenotice.domain.commands import EnableScope
from tests.unit.domain.build import id_of
from tests.unit.engine.cluster_rig import LEASE, Cluster, Node, ask, settle, three
from tests.unit.engine.rig import approval, in_loop, reboot, shown

SCHEDULED, STARTED = [(id_of(1), "scheduled")], [(id_of(1), "started")]


async def stale(cluster: Cluster) -> Node:
    """A node that led, and does not know yet that another does: it was cut off, and reaches the store again."""
    old = cluster.leader
    await ask(old, EnableScope("alone"))
    await settle()
    old.line.is_cut = old.line.is_deaf = True
    await cluster.until(lambda: any(node.engine.leads for node in cluster.nodes if node is not old), 2 * LEASE)
    old.line.is_cut = False
    assert old.engine.leads
    return old


@in_loop
async def test_a_command_that_was_not_stored_because_another_node_leads_is_done_by_that_node() -> None:
    """N09: nothing of it was done, so it is passed on, and nobody needs a second try."""
    async with three() as cluster:
        old = await stale(cluster)
        done = ask(old, reboot("alone"))
        await cluster.until(done.done)
        (raised,) = await done
        assert [shown(node.engine, "alone") for node in cluster.nodes] == [SCHEDULED] * 3
        assert raised.position <= cluster.journal.last_position()


@in_loop
async def test_what_a_node_refuses_that_leads_no_more_is_asked_of_the_node_that_does() -> None:
    """Its state is old: what is approved may be there."""
    async with three() as cluster:
        old = await stale(cluster)
        (new,) = [node for node in cluster.nodes if node.engine.leads and node is not old]
        old.line.is_cut = True
        raised = ask(new, reboot("alone"))
        await cluster.until(raised.done)
        old.line.is_cut = False
        approved = ask(old, approval("alone"))
        await cluster.until(approved.done)
        await approved
        assert shown(new.engine, "alone") == STARTED
