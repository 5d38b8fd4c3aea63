"""One dead node delays a change by a lease, once, and no poll: three nodes on a real PostgreSQL (N17, N19, S30)."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.dead_nodes import (
    AWAY,
    LEASE,
    another_node,
    the_leader,
    the_leader_is_back_at_once,
    without_a_database,
)
from tests.cluster.measured import told
from tests.cluster.trio import FLEET, Trio
from tests.crash.server import Server
from tests.support.postgres import Database

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]

SOON = LEASE / 2
"""What does not wait for a lease is done by then, on any machine; it takes some milliseconds."""
ROUNDS = [1, pytest.param(20, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]


@pytest.fixture(scope="module")
def nodes(postgres_folder: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    """Three nodes, for all stories."""
    folder = tmp_path_factory.mktemp("dead")
    Database(postgres_folder, "postgres").sql("CREATE DATABASE dead TEMPLATE template0 ENCODING 'UTF8'")
    made = Trio(folder, Database(postgres_folder, "dead"), lease=LEASE)
    try:
        made.wait_until_whole()
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_a_dead_node_delays_one_change_by_a_lease_and_no_poll(nodes: Trio, how: str, rounds: int) -> None:
    """The scope that changes is answered at the living nodes all the time, with what was there before."""
    first, later, polls = another_node(nodes, how, rounds)
    sys.stdout.write(told(first, later, polls))
    assert max(first.times) < LEASE + SOON
    assert max(later.times) < SOON
    assert max(polls.times) < SOON


@pytest.mark.parametrize("rounds", ROUNDS)
def test_no_poll_is_refused_when_the_leader_is_killed_with_changes_under_way(nodes: Trio, rounds: int) -> None:
    """One waits longer only if it died inside the hold itself, and never longer than another leader takes (N19)."""
    pauses, polls = the_leader(nodes, rounds)
    sys.stdout.write(told(pauses, polls))
    assert max(polls.times) < 1.5 * LEASE + SOON


def test_a_database_that_is_away_for_a_while_stops_no_poll(nodes: Trio) -> None:
    """Of a scope without a change under way: the right to answer is longer than that."""
    row = without_a_database(nodes, rounds=1)  # where a poll is refused it says so
    sys.stdout.write(told(row))
    assert max(row.times) < AWAY


def test_commands_go_on_as_soon_as_the_leader_is_started_again_on_its_machine(
    postgres_folder: str, tmp_path: Path
) -> None:
    """The next process holds its directory: the last one has surely ended, so nobody waits for its lease (N18)."""
    Database(postgres_folder, "postgres").sql("CREATE DATABASE again TEMPLATE template0 ENCODING 'UTF8'")
    nodes = Trio(tmp_path, Database(postgres_folder, "again"), lease=60)
    try:
        nodes.wait_until_whole()
        row = the_leader_is_back_at_once(nodes, rounds=3)
        sys.stdout.write(told(row))
        assert max(row.times) < 30
    finally:
        nodes.stop()


def test_a_node_that_has_to_be_alone_starts_a_lease_after_another_one_was_killed(
    postgres_folder: str, tmp_path: Path
) -> None:
    """It watches that one for a lease before it begins, and does not wait for the same once more (N04)."""
    database = Database(postgres_folder, "lonely")
    Database(postgres_folder, "postgres").sql("CREATE DATABASE lonely TEMPLATE template0 ENCODING 'UTF8'")
    settings = {"journal": database.url, "clock": "manual", "lease": 6}
    first = Server(tmp_path / "first", FLEET, node="first", **settings)
    first.wait_until_serving()
    first.kill()
    began = time.monotonic()
    second = Server(tmp_path / "second", FLEET, node="second", **settings)
    try:
        second.wait_until_serving()
        took = time.monotonic() - began
        sys.stdout.write(f"a node with a manual clock after another one: {took:.2f} s, lease 6 s\n")
        assert took < 2 * 6
    finally:
        second.kill()
