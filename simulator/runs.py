"""Runs worlds: one seed, one outcome; a seed that fails is cut down to the fewest actions that still fail."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from random import Random
from typing import Any

from msgspec import Struct

from simulator.border import real_seconds, world_of
from simulator.border import run as run_in
from simulator.drivers import KINDS as DRIVERS
from simulator.faults import Action, Faults, drawn
from simulator.transcripts import DIGESTS_ONLY, Digests, Recording
from simulator.world import Shape, World


class Outcome(Struct, frozen=True):
    """What came of one world."""

    seed: int
    virtual_seconds: float
    real_seconds: float
    actions: int
    faults: dict[str, int]
    documents: int
    records: int
    answers: dict[str, int]
    violations: tuple[str, ...]
    digests: Digests

    @property
    def speed(self) -> float:
        """Virtual seconds in a second."""
        return self.virtual_seconds / max(1e-9, self.real_seconds)


def shape_of(seed: int, hours: float | None = None) -> Shape:
    """How large the world of a seed is."""
    dice = Random(f"{seed}/shape")
    seconds = (hours if hours is not None else dice.choice((0.5, 1, 2, 4))) * 3600
    vms = dice.choice((3, 10, 20, 20, 24))
    actions = max(3, round(seconds / dice.choice((30, 60, 120))))
    nodes, lease = dice.choice((1, 1, 2, 3, 3)), dice.choice((6.0, 30.0, 60.0, 60.0))
    return Shape(nodes, vms, seconds, actions, lease, dice.choice((0, 1, 3)), dice.choice(("", "", *DRIVERS)))


def short_shape(seed: int, nodes: int = 1, driver: str = "", followers: int = 0) -> Shape:
    """A small world in which much happens in a short time."""
    return Shape(nodes, (6, 12, 20)[seed % 3], 1500.0, 100, 60.0, 0, driver, followers)


def _small(kind: tuple[int, str, int], seed: int) -> Shape:
    return short_shape(seed, *kind)


def small_worlds() -> dict[str, tuple[int, str, int]]:
    """The nodes, the driver and the followers of all kinds of small worlds: `cluster-webhook` has three nodes."""
    found = {}
    for size, nodes in (("short", 1), ("cluster", 3)):
        for driver in ("", *DRIVERS):
            for followers in (0, 2):
                words = [size, driver, "followers" if followers else ""]
                found["-".join(word for word in words if word)] = nodes, driver, followers
    return found


def twenty(seed: int) -> Shape:
    """Two hours of 20 VMs and 3 agents with one node: what the speed of the simulator is told of."""
    return Shape(nodes=1, vms=20, seconds=7200.0, actions=120, lease=60.0, agents=3)


SMALL_WORLDS = small_worlds()
SHAPES: dict[str, Callable[[int], Shape]] = {
    "any": shape_of,
    "twenty": twenty,
    **{name: partial(_small, kind) for name, kind in SMALL_WORLDS.items()},
}
"""Which worlds there are, by their names on the command line."""


def actions_of(seed: int, shape: Shape, without: Collection[str] = ()) -> list[Action]:
    """All that is done in the world of a seed."""
    return drawn(Random(f"{seed}/actions"), shape.seconds, shape.actions, shape.has, without)


def run(
    seed: int,
    hours: float | None = None,
    without: Collection[str] = (),
    keep: Collection[int] | None = None,
    trace: bool = False,
    shape: Shape | None = None,
    recording: Recording = DIGESTS_ONLY,
) -> Outcome:
    """One world from its beginning to its end, or to the first broken promise."""
    shape = shape or shape_of(seed, hours)
    actions = actions_of(seed, shape, without)
    chosen = [action for action in actions if keep is None or action.number in keep]
    return lived(seed, shape, chosen, without, trace, recording)


def lived(
    seed: int,
    shape: Shape,
    actions: Sequence[Action],
    without: Collection[str] = (),
    trace: bool = False,
    recording: Recording = DIGESTS_ONLY,
) -> Outcome:
    """What comes of a world in which this is done."""
    begun, faults = real_seconds(), Faults(without)
    with world_of(seed) as loop:
        world = World(seed, shape, loop, faults, trace, recording)
        failure = _failure(lambda: run_in(loop, world.live(actions)))
        violations = (*world.violations, *failure)
        for vm in world.agents:
            vm.write_down_files()
        return Outcome(
            seed,
            loop.time(),
            real_seconds() - begun,
            len(actions),
            dict(sorted(faults.counts.items())),
            world.observatory.documents,
            len(world.observatory.log),
            {str(status): count for status, count in sorted(world.judge.answers.items())},
            violations,
            world.transcripts.digests,
        )


def _failure(work: Callable[[], Any]) -> tuple[str, ...]:
    try:
        work()
    except Exception as error:
        return (f"the simulator failed: {error!r}",)
    return ()


def cut_down(
    seed: int,
    shape: Shape,
    without: Collection[str] = (),
    seconds: float = 45.0,
    actions: Sequence[Action] | None = None,
) -> tuple[list[Action], Outcome]:
    """The fewest actions that still break the same promise, as far as they are found in that time (delta debugging)."""
    kept = actions_of(seed, shape, without) if actions is None else list(actions)
    until = real_seconds() + seconds
    outcome = lived(seed, shape, kept, without)
    # What comes after the moment in which it broke has nothing to do with it.
    kept = [action for action in kept if action.at <= outcome.virtual_seconds]
    wanted, parts = _kind(outcome), 2
    while len(kept) > 1 and real_seconds() < until:
        size = max(1, len(kept) // parts)
        for begin in range(0, len(kept), size):
            rest = kept[:begin] + kept[begin + size :]
            tried = lived(seed, shape, rest, without)
            if _kind(tried) == wanted:
                kept, outcome, parts = rest, tried, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), parts * 2)
    return kept, outcome


def _kind(outcome: Outcome) -> str:
    """Which promise was broken: the word that the first violation begins with."""
    first = outcome.violations[0] if outcome.violations else ""
    return first.partition(": ")[2].partition(":")[0]
