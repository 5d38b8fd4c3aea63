"""All parts of the simulator behind one call: a seed in, what was done and what was wrong out."""

from collections.abc import Callable
from typing import NamedTuple


class Round(NamedTuple):
    """What one seed gave; `replay` is the command that does it again."""

    replay: str
    violations: tuple[str, ...] = ()
    virtual_seconds: float = 0.0
    faults: int = 0
    images: int = 0
    requests: int = 0


# A tier is imported when it is first used: a process of `make soak` runs one, and each costs a while to load.


def world(seed: int) -> Round:
    """A world of one node."""
    from simulator.runs import run

    outcome = run(seed)
    faults = sum(outcome.faults.values())
    return Round(f"python -m simulator --seed {seed}", outcome.violations, outcome.virtual_seconds, faults)


def agents(seed: int) -> Round:
    """A world of a real agent and a scripted service."""
    from simulator.agents_world import play

    result = play(seed)
    wrong = tuple(f"{each.promise}: {each.what}" for each in result.violations)
    return Round(f"python -m simulator.agents_world {seed}", wrong, result.seconds, sum(result.counts.values()))


def power(seed: int) -> Round:
    """The lives of a disk, and images of its power cuts."""
    from simulator.power.campaign import lives_of, room

    with room() as place:
        tally = lives_of(place, seed)
    return Round(f"python -m simulator.power --images 1 --seed {seed}", tally.wrong, images=tally.images)


STREAMS = 1000
"""Streams of one round of the second opinion."""


def http(seed: int) -> Round:
    """Requests through three readers."""
    from simulator.http.campaign import campaign

    compared = campaign(seed * STREAMS, STREAMS)
    replay = f"python -m simulator.http --streams 1 --seed {compared.seed}"
    return Round(replay, tuple(compared.wrong), requests=compared.streams)


TIERS: dict[str, Callable[[int], Round]] = {
    "world": world,
    "cluster": world,
    "agents": agents,
    "power": power,
    "http": http,
}
