"""One dead reader delays nobody: a change waits only for those that answer a VM of it, and each once (N17, N19, S30).

Real processes. A lease is long here beside anything that a busy machine takes, so a wait for a lease is seen.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.measured import seconds, told
from tests.followers.dead_readers import (
    OF_H1,
    OF_H2,
    beside_changes_of_a_dead_host,
    crash_loop,
    mute_reader,
    one_of_another_host,
    two_changes,
)
from tests.followers.flock import Flock, flock

LEASE = 4.0
SOON = LEASE / 2
"""What does not wait for a lease is done by then, on any machine; it takes some milliseconds."""
ROUNDS = [2, pytest.param(20, marks=[pytest.mark.soak, pytest.mark.timeout(900)])]


@pytest.fixture
def herd(tmp_path: Path) -> Iterator[Flock]:
    """A node that can be followed; both VMs listen."""
    with flock(tmp_path, lease=LEASE) as made:
        made.node.enable(OF_H1, OF_H2)
        yield made


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_a_dead_follower_of_one_host_delays_no_change_of_another(herd: Flock, how: str, rounds: int) -> None:
    """Nor does it delay a VM of its own for more than a lease; and that is answered all the time by the node."""
    others, own, polls = one_of_another_host(herd, how, rounds, LEASE)
    sys.stdout.write(told(others, own, polls))
    assert max(others.times) < SOON
    assert max(own.times) < LEASE + SOON
    assert max(polls.times) < SOON


def test_while_changes_of_a_dead_host_are_asked_for_each_second_only_the_first_delays_others(herd: Flock) -> None:
    """It is waited for once, and is put out then."""
    own, others = beside_changes_of_a_dead_host(herd, 1, LEASE)
    sys.stdout.write(told(own, others))
    assert max(own.times) < LEASE + SOON
    assert max(others.times) < SOON


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_follower_that_is_killed_again_and_again_delays_no_change_of_another_host(herd: Flock, rounds: int) -> None:
    """A crash loop: each life is waited for by changes of its own VMs alone."""
    row = crash_loop(herd, rounds)
    sys.stdout.write(told(row))
    assert max(row.times) < SOON


def test_who_joins_and_never_beats_delays_nothing(herd: Flock) -> None:
    """It was never given the right to answer, so nobody waits for it, though it answers for the whole fleet (N17)."""
    with ExitStack() as readers:
        for _ in range(5):
            readers.enter_context(mute_reader(herd))
            assert seconds(lambda: two_changes(herd.node, OF_H1)) < SOON
