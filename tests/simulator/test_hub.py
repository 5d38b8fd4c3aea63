"""Whom a change waits for: worlds from fresh seeds, which are printed."""

import sys

from simulator.hub import play
from tests.support.seed import SEED


def test_a_change_waits_for_those_that_show_what_is_older_and_for_no_others() -> None:
    """Whatever is killed, stopped, lost or late, and while VMs move (S27, S30)."""
    sys.stdout.write(f"DUENOTICE_SEED={SEED}\n")
    worlds = {seed: play(seed) for seed in range(SEED, SEED + 5)}
    wrong = [f"python -m simulator.hub --seed {seed}: {world.wrong}" for seed, world in worlds.items() if world.wrong]
    assert not wrong
    assert min(world.polls for world in worlds.values()) > 10_000
