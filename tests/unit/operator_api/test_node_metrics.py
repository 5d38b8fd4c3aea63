"""What a node among several tells Prometheus."""

import re

from prometheus_client.core import Metric

from duenotice.clock import MICROS
from duenotice.domain.commands import EnableScope
from duenotice.operator_api.node_metrics import node_checks, node_metrics
from tests.unit.engine import cluster_rig
from tests.unit.engine.cluster_rig import LEASE, ask, settle, three
from tests.unit.engine.rig import in_loop, reboot


def told(node: cluster_rig.Node, cluster: cluster_rig.Cluster) -> dict[str, float]:
    """Each value by its name and labels."""
    return values(list(node_metrics(node.engine, cluster.micros)))


def values(metrics: list[Metric]) -> dict[str, float]:
    samples = [sample for metric in metrics for sample in metric.samples]
    return {" ".join((sample.name, *sample.labels.values())): sample.value for sample in samples}


@in_loop
async def test_one_node_says_that_it_leads_and_all_count_the_same_changes() -> None:
    async with three() as cluster:
        numbers = [told(node, cluster) for node in cluster.nodes]
        assert sorted(each["duenotice_node_leads"] for each in numbers) == [0, 0, 1]
        assert {each["duenotice_leader_changes_total"] for each in numbers} == {1}
        assert {(each["duenotice_nodes leads"], each["duenotice_nodes follows"]) for each in numbers} == {(1, 2)}
        leader, others = cluster.leader, cluster.others
        leader.is_dead = leader.line.is_cut = True
        await cluster.pass_time(2 * LEASE)
        assert {told(node, cluster)["duenotice_leader_changes_total"] for node in others} == {2}


@in_loop
async def test_a_change_that_waits_for_a_node_is_lag_everywhere_else() -> None:
    """In records, and in seconds since it was stored; when all show it, there is none."""
    async with three() as cluster:
        leader, deaf = cluster.leader, cluster.others[0]
        await ask(leader, EnableScope("alone"))
        await settle()
        assert [told(node, cluster)["duenotice_node_lag_records"] for node in cluster.nodes] == [0, 0, 0]
        deaf.line.is_deaf = deaf.line.is_cut = True
        done = ask(leader, reboot("alone"))
        await cluster.pass_time(MICROS)
        numbers = told(leader, cluster)
        assert numbers["duenotice_node_lag_records"] >= 1
        assert 0.9 <= numbers["duenotice_node_lag_seconds"] <= 1.1
        assert told(deaf, cluster)["duenotice_node_lag_records"] == 0
        deaf.line.is_deaf = deaf.line.is_cut = False
        await cluster.until(done.done)
        await settle()
        assert [told(node, cluster)["duenotice_node_lag_seconds"] for node in cluster.nodes] == [0, 0, 0]


@in_loop
async def test_the_age_of_the_lease_grows_while_a_node_is_cut_off() -> None:
    async with three() as cluster:
        node = cluster.others[0]
        assert told(node, cluster)["duenotice_node_lease_age_seconds"] < 1
        node.line.is_cut = True
        await cluster.pass_time(4 * MICROS)
        numbers = told(node, cluster)
        assert 3.5 <= numbers["duenotice_node_lease_age_seconds"] <= 4.6
        assert (numbers["duenotice_node_lease_seconds"], numbers["duenotice_nodes silent"]) == (6, 3)


@in_loop
async def test_the_checks_of_a_node_say_when_it_has_last_reached_the_database_and_who_leads() -> None:
    """A load balancer looks at the status; these lines are for the person who looks why."""
    async with three() as cluster:
        node, leader = cluster.others[0], cluster.leader
        database, leads = node_checks(node.engine, cluster.micros)
        assert re.fullmatch(r"\[\+\]database ok: the last beat was 0\.\d s ago", database)
        assert leads == f"[+]leader ok: {leader.name} leads, under epoch 1"
        node.line.is_cut = True
        await cluster.pass_time(4 * MICROS)
        database, _ = node_checks(node.engine, cluster.micros)
        assert re.fullmatch(r"\[-\]database the last beat was [34]\.\d s ago", database)
        node.engine.seat.leader = None
        assert node_checks(node.engine, cluster.micros)[1] == "[-]leader nobody leads: nothing can be changed"
