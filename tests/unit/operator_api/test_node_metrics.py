"""What a node among several tells Prometheus."""

import re

import pytest
from prometheus_client.core import Metric

from duenotice.clock import MICROS
from duenotice.domain.commands import EnableScope
from duenotice.engine.followers import Followers
from duenotice.engine.members import Deposed
from duenotice.operator_api.node_metrics import node_checks, node_metrics
from duenotice.operator_api.node_troubles import troubles
from duenotice.operator_api.way_to_leader import WayToLeader
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


def checks(node: cluster_rig.Node, cluster: cluster_rig.Cluster, way: WayToLeader | None = None) -> list[str]:
    """What the probe of a node tells a person."""
    followers = Followers(0)
    found = list(troubles(node.engine, followers, {}, way, cluster.micros))
    return node_checks(node.engine, found, cluster.micros)


@in_loop
async def test_the_checks_of_a_node_say_when_it_has_last_reached_the_database_and_who_leads() -> None:
    """A load balancer looks at the status; these lines are for the person who looks why."""
    async with three() as cluster:
        node, leader = cluster.others[0], cluster.leader
        database, leads = checks(node, cluster)
        assert re.fullmatch(r"\[\+\]database ok: the last beat was 0\.\d s ago", database)
        assert leads == f"[+]leader ok: {leader.name} leads, under epoch 1"
        node.engine.seat.leader = None
        assert checks(node, cluster)[1].startswith(
            "[-]leader No node leads: VMs are answered, but nothing can be changed"
        )


@in_loop
async def test_a_node_that_is_cut_off_names_the_database_and_says_nothing_of_others() -> None:
    """N23: since when, why, and what to do; that somebody leads is not known here."""
    async with three() as cluster:
        node = cluster.others[0]
        node.line.is_cut = True
        await cluster.pass_time(4 * MICROS)
        database, leads = checks(node, cluster)
        said = "The database cannot be used by this node: the store cannot be reached"
        assert re.fullmatch(rf"\[-\]database {said} \(for [34]\.\d s\) .*", database)
        assert leads == "[-]leader is not known: this node does not reach the database"


@in_loop
async def test_a_node_that_is_silent_and_holds_back_a_change_is_named() -> None:
    """N23: at the leader and at the others."""
    async with three() as cluster:
        leader, dead = cluster.leader, cluster.others[0]
        await ask(leader, EnableScope("alone"))
        await settle()
        dead.is_dead = dead.line.is_cut = dead.line.is_deaf = True
        done = ask(leader, reboot("alone"))
        await cluster.pass_time(3 * MICROS)
        (line,) = [line for line in checks(leader, cluster) if line.startswith("[-]")]
        assert line.startswith(f"[-]nodes The node {dead.name} does not answer. A change waits for it. (for ")
        await cluster.until(done.done)


@in_loop
async def test_a_leader_that_cannot_be_reached_is_named_with_the_reason() -> None:
    """N23: as soon as something was to be passed on; another leader is not blamed for it."""
    async with three() as cluster:
        node, leader = cluster.others[0], cluster.leader
        way, member = WayToLeader(), node.engine.seat.leader
        assert member is not None
        with pytest.raises(Deposed):
            await way.sent(member._replace(url="http://127.0.0.1:1"), "/v1/nodes", "GET", b"", {})
        (line,) = [line for line in checks(node, cluster, way) if line.startswith("[-]")]
        assert line.startswith(f"[-]leader This node does not reach {leader.name}, which leads, at {member.url}: ")
        assert way.trouble_with(member._replace(life="another")) == ""
