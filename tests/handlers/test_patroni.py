"""`patroni` against a real Patroni with etcd and two PostgreSQL servers."""

import asyncio
import contextlib
import time

import pytest

from duenotice.agent.handlers.base import TryAgain
from duenotice.agent.handlers.loading import load
from duenotice.errors import Unavailable
from tests.handlers.contexts import NOTES, cancelled_when, context, prepare_killed, recover, wait_until
from tests.handlers.databases import Cluster, Writer, patroni, psql

pytestmark = pytest.mark.machine
SECONDS = 40.0


@pytest.fixture(scope="module")
def cluster():
    with patroni() as whole:
        psql(whole.writable, "CREATE TABLE rows (id int PRIMARY KEY)")
        yield whole


def _prepare(cluster: Cluster, name: str, notes: NOTES) -> None:
    handler = load("it", "patroni", {"url": cluster.url(name)})
    asyncio.run(handler.prepare(context(notes, seconds=SECONDS)))


def test_the_leader_hands_over_and_no_acknowledged_row_is_lost(cluster):
    """When prepare returns another node leads, this one follows it, and every row a client was promised is there."""
    wait_until(cluster.is_whole, SECONDS)
    old = cluster.leader()
    with Writer(cluster, 1) as writer:
        _prepare(cluster, old, NOTES())
        members = cluster.members()
        new = cluster.leader()
        writer.go_on()
    assert new not in ("", old)
    assert (members[old]["role"], members[old]["state"]) == ("replica", "running")
    assert psql(cluster.connection(new), "SELECT pg_is_in_recovery()") == "f"
    assert psql(cluster.connection(old), "SELECT pg_is_in_recovery()") == "t"
    kept = set(map(int, psql(cluster.connection(new), "SELECT id FROM rows").split()))
    assert set(writer.acknowledged) <= kept


def test_a_replica_has_nothing_to_do(cluster):
    """On the other node the event changes nothing, and nothing is noted."""
    wait_until(cluster.is_whole, SECONDS)
    leader = cluster.leader()
    (replica,) = set(cluster.members()) - {leader}
    notes = NOTES()
    _prepare(cluster, replica, notes)
    assert (cluster.leader(), notes) == (leader, {})


def test_it_can_switch_back(cluster):
    """With `switch_back` recover returns the role, and a second recover does nothing."""
    wait_until(cluster.is_whole, SECONDS)
    old, notes = cluster.leader(), NOTES()
    _prepare(cluster, old, notes)
    wait_until(cluster.is_whole, SECONDS)
    keys = {"url": cluster.url(old), "switch_back": True}
    recover("patroni", notes, **keys)
    assert cluster.leader() == old
    recover("patroni", notes, **keys)
    assert cluster.leader() == old


def test_a_candidate_that_cannot_lead_is_worth_another_try(cluster):
    """Patroni refuses and says why; the leader stays."""
    wait_until(cluster.is_whole, SECONDS)
    leader = cluster.leader()
    handler = load("it", "patroni", {"url": cluster.url(leader), "candidate": "nobody"})
    with pytest.raises(TryAgain, match="nobody is not a replica that streams"):
        asyncio.run(handler.prepare(context({}, seconds=SECONDS)))
    assert cluster.leader() == leader


@pytest.mark.parametrize("written", [False, True])
def test_a_kill_before_the_switchover_leaves_the_leader(cluster, written):
    """Killed at the note: nothing was switched, recover switches nothing, and another prepare does the work."""
    wait_until(cluster.is_whole, SECONDS)
    leader, notes = cluster.leader(), NOTES()
    assert asyncio.run(prepare_killed("patroni", notes, 1, written, url=cluster.url(leader)))
    recover("patroni", notes, url=cluster.url(leader))
    assert cluster.leader() == leader


def test_a_second_prepare_waits_for_what_the_first_began(cluster):
    """Cut in the midst of the switchover, the next prepare returns only when this node follows again."""
    wait_until(cluster.is_whole, SECONDS)
    old, notes = cluster.leader(), NOTES()
    handler = load("it", "patroni", {"url": cluster.url(old)})
    started = time.monotonic()
    asyncio.run(
        cancelled_when(handler.prepare(context(notes, seconds=SECONDS)), lambda: time.monotonic() > started + 0.5)
    )
    assert notes == {"led": old}
    wait_until(lambda: _is_prepared(cluster, old, notes), SECONDS)
    assert cluster.leader() not in ("", old)
    assert cluster.members()[old]["state"] == "running"


def _is_prepared(cluster: Cluster, name: str, notes: NOTES) -> bool:
    with contextlib.suppress(Unavailable):  # as the agent does
        _prepare(cluster, name, notes)
        return True
    return False
