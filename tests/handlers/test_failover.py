"""End to end: the VM of a database's primary is rebooted, and nothing that a client was promised is lost."""

import contextlib
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from duenotice.domain.records import EventRaised, Record
from duenotice.wire.operator.from_domain import action_of
from tests.agent.machine import Machine, metadata_endpoint
from tests.handlers.contexts import script, wait_until
from tests.handlers.databases import NODES, Cluster, Writer, patroni, psql
from tests.support.node import Node

pytestmark = pytest.mark.machine
SECONDS = 30.0
ADDRESSES = dict(zip(NODES, ("127.0.46.1", "127.0.46.2"), strict=True))
WORK = ("preparing", "prepared", "recovering", "recovered")
FLEET = """
[[availability_sets]]
name = "db"
update_domains = 2
vms = [
  { name = "db-0", address = "127.0.46.1", update_domain = 0 },
  { name = "db-1", address = "127.0.46.2", update_domain = 1 },
]
"""
AGENT = """
[metadata]
endpoint = "{endpoint}"
source_address = "{address}"
[approval]
policy = "{policy}"
"""
HAND_OVER = """
[[rules]]
types = ["Reboot"]
handlers = ["hand-over"]
[handlers.hand-over]
kind = "patroni"
url = "{url}"
timeout = "{timeout}"
"""
HYPERVISOR = """#!/bin/sh
touch {folder}/power-off
until [ -e {folder}/booted ]; do sleep 0.05; done
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with patroni() as whole:
        psql(whole.writable, "CREATE TABLE rows (id int PRIMARY KEY)")
        yield whole


@contextlib.contextmanager
def agents(node: Node, cluster: Cluster, folder: Path, timeout: str = "20s") -> Iterator[dict[str, Machine]]:
    """An agent on each VM."""
    with contextlib.ExitStack() as running:
        machines = {}
        for name, address in ADDRESSES.items():
            more = HAND_OVER.format(url=cluster.url(name), timeout=timeout)
            made = Machine(folder / name, metadata_endpoint(node), address, more=more, config=AGENT)
            machines[name] = running.enter_context(made)
            made.start()
        wait_until(lambda: all('"name-learned"' in machine.log for machine in machines.values()))
        yield machines


def restart(node: Node, vm: str) -> str:
    """The operator restarts a VM; the event's id as agents write it."""
    (event,) = node.operate(f"/v1/vms/{vm}/restart")
    return str(event["id"]).upper()


def history(node: Node, event_id: str) -> dict[str, Record]:
    """What became of an event, from the journal itself: the API shows whole seconds."""
    records = node.run(node.service.engine.history_of(event_id, 1000))
    return {action_of(record): record for record in records}


def announced(was: dict[str, Record]) -> datetime:
    """The NotBefore that was promised first."""
    raised = was["event-raised"].transition
    assert isinstance(raised, EventRaised) and raised.event.not_before
    return raised.event.not_before


def follows_since(cluster: Cluster, name: str) -> datetime:
    """Since when a node has been running as a replica."""
    recovering, since = json.loads(
        psql(cluster.connection(name), "SELECT json_build_array(pg_is_in_recovery(), pg_postmaster_start_time())")
    )
    assert recovering
    return datetime.fromisoformat(since)


def reboot(node: Node, cluster: Cluster, machine: Machine, folder: Path, writer: Writer) -> None:
    """The primary's VM is restarted: it has handed over, and follows, before the event is approved; then it dies."""
    old = cluster.leader()
    (other,) = set(NODES) - {old}
    event_id = restart(node, old)
    machine.until((folder / "power-off").exists)
    followed = follows_since(cluster, old)
    machine.kill()
    cluster.power_off(old)
    writer.go_on()
    was = history(node, event_id)
    approval, promotion = was["event-approved"], cluster.switchovers()[-1]
    assert (promotion.leader, approval.actor) == (other, f"vm/{old}")
    assert promotion.at < followed < approval.at <= was["event-started"].at < announced(was)
    cluster.power_on(old)
    machine.reboot()
    machine.start()
    (folder / "booted").touch()
    machine.until(lambda: machine.is_over(event_id))
    wait_until(cluster.is_whole, SECONDS)
    assert cluster.leader() == other
    steps = [record.kind for record in machine.records if record.event_id == event_id and record.kind in WORK]
    assert steps == list(WORK)
    for mark in ("power-off", "booted"):
        (folder / mark).unlink()


def test_the_primarys_vm_is_rebooted_and_nothing_is_lost(cluster, tmp_path):
    """Twice, since the second time the other leads: a new leader and a follower before the approval, all rows kept."""
    hypervisor = script(tmp_path / "hypervisor", HYPERVISOR.format(folder=tmp_path))
    settings = {"clock": "real", "impact": "command", "impact_command": hypervisor, "impact_timeout": SECONDS}
    wait_until(cluster.is_whole, SECONDS)
    with (
        Node(FLEET, data_dir=str(tmp_path / "data"), **settings) as node,
        agents(node, cluster, tmp_path) as machines,
        Writer(cluster, 1) as writer,
    ):
        leaders = []
        for _ in NODES:
            leaders.append(cluster.leader())
            reboot(node, cluster, machines[leaders[-1]], tmp_path, writer)
        assert sorted(leaders) == sorted(NODES)
    kept = set(map(int, psql(cluster.writable, "SELECT id FROM rows").split()))
    assert set(writer.acknowledged) <= kept


def test_without_a_replica_the_notice_runs_out(cluster, tmp_path):
    """Nobody can take over: the leader stays, nothing is approved, the Reboot comes when it was said to (H04)."""
    wait_until(cluster.is_whole, SECONDS)
    leader = cluster.leader()
    (replica,) = set(NODES) - {leader}
    with Node(FLEET) as node, agents(node, cluster, tmp_path, timeout="2s") as machines:
        cluster.power_off(replica)
        event_id = restart(node, leader)
        machines[leader].until(lambda: "failed" in machines[leader].whats)
        node.advance("14m")
        assert node.statuses(leader) == ["Scheduled"] and cluster.leader() == leader
        node.advance("1m")
        assert node.statuses(leader) == ["Started"]
        assert "event-approved" not in history(node, event_id) and "approved" not in machines[leader].whats
        node.advance("1h")
        machines[leader].until(lambda: machines[leader].is_over(event_id))
