"""What worlds have found stays found: the shortest histories that once broke a promise, action by action.

They name their actions, not only their seed: what a seed draws changes when the table of faults grows.
"""

from typing import NamedTuple

import pytest

from simulator.faults import Action
from simulator.runs import lived
from simulator.world import Shape


class Kept(NamedTuple):
    """A history, and what it once broke."""

    broke: str
    seed: int
    shape: Shape
    actions: tuple[tuple[int, float, str], ...]


KEPT = [
    Kept(
        "S2: the call that lets all nodes show an event took a part of its notice",
        5001,
        Shape(nodes=3, vms=10, seconds=330.0, actions=36, lease=60.0, agents=3),
        (
            (1, 56.18216728326655, "fleet-applied"),
            (2, 87.8497866407133, "store-fails-over"),
            (7, 254.04177268819396, "store-answer-lost"),
            (8, 260.53161844998885, "user-operation"),
            (9, 308.56229214285054, "plan"),
        ),
    ),
    Kept(
        "S24: a leader that had stored something and did not reach the store any more went round without a pause",
        7001,
        Shape(nodes=3, vms=10, seconds=270.0, actions=15, lease=60.0),
        (
            (10, 165.697001361181, "store-one-way-partition"),
            (11, 191.368973844427, "store-fails-over"),
            (12, 218.0995098845622, "plan"),
            (13, 228.9897748040232, "plan"),
        ),
    ),
    Kept(
        "S2: a slow disk at the start took from an event that was stored and that nobody had been told of",
        14023,
        Shape(nodes=1, vms=6, seconds=240.0, actions=3),
        ((1, 60.0, "crash-after-commit"), (2, 61.0, "schedule"), (3, 62.0, "disk-slow")),
    ),
]


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.broke.partition(":")[0])
def test_what_was_broken_once_holds(kept: Kept) -> None:
    outcome = lived(kept.seed, kept.shape, [Action(*action) for action in kept.actions])
    assert not outcome.violations, f"{kept.broke}: {outcome.violations}"
