"""All parts of the simulator behind one call: a seed in, what was done and what was wrong out."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

LONGEST = 600.0
"""Seconds after which something that has a process of its own counts as one that hangs."""


class Round(NamedTuple):
    """What one seed gave; `replay` is the command that does it again."""

    replay: str
    violations: tuple[str, ...] = ()
    virtual_seconds: float = 0.0
    faults: int = 0
    acts: int = 0
    images: int = 0
    requests: int = 0
    kills: int = 0
    stories: int = 0


# A tier is imported when it is first used: a process of `make soak` runs one, and each costs a while to load.


def _lived(replay: str, violations: Sequence[str], seconds: float, counts: Mapping[str, int]) -> Round:
    """A round of a world: what went wrong in it, and what people did in it, each as often as it came true."""
    from simulator.faults import TABLE

    acts = sum(count for name, count in counts.items() if name in TABLE and not TABLE[name].is_fault)
    return Round(replay, tuple(violations), seconds, sum(counts.values()) - acts, acts)


def world(seed: int) -> Round:
    """A world: one node or several, VMs, agents, operators, faults."""
    from simulator.runs import run

    outcome = run(seed)
    return _lived(f"python -m simulator --seed {seed}", outcome.violations, outcome.virtual_seconds, outcome.faults)


def short_world(seed: int, nodes: int = 1, driver: str = "", followers: int = 0) -> Round:
    """A small world in which much happens in a short time."""
    from simulator.runs import SMALL_WORLDS, run, short_shape

    name = next(name for name, kind in SMALL_WORLDS.items() if kind == (nodes, driver, followers))
    outcome = run(seed, shape=short_shape(seed, nodes, driver, followers))
    replay = f"python -m simulator --seed {seed} --shape {name}"
    return _lived(replay, outcome.violations, outcome.virtual_seconds, outcome.faults)


def short_cluster(seed: int) -> Round:
    """The same with three nodes."""
    return short_world(seed, nodes=3)


def short_drivers(seed: int) -> Round:
    """The same with a driver that carries out impacts."""
    return short_world(seed, driver=("webhook", "command")[seed % 2])


def short_followers(seed: int) -> Round:
    """The same with two followers, of one node or of three."""
    return short_world(seed, nodes=(1, 3)[seed % 2], followers=2)


def hub(seed: int) -> Round:
    """A node and those that read from it, alone."""
    from simulator.hub import SECONDS, play

    played = play(seed)
    return Round(f"python -m simulator.hub --seed {seed}", played.wrong, SECONDS)


def scenes(seed: int) -> Round:
    """A scripted situation: one after the other, and then again with other dice."""
    from simulator.scenes import SCENES
    from simulator.stage import play

    name = list(SCENES)[(seed - 1) % len(SCENES)]
    violations, seconds = play(seed, SCENES[name])
    replay = f"python -m simulator.scenes {name} --seed {seed}"
    return Round(replay, tuple(f"{name} {each}" for each in violations), seconds)


def agents(seed: int) -> Round:
    """A world of a real agent and a scripted service."""
    from simulator.agents_world import play

    result = play(seed)
    wrong = tuple(f"{each.promise}: {each.what}" for each in result.violations)
    return _lived(f"python -m simulator.agents_world {seed} --cut", wrong, result.seconds, result.counts)


def changing(seed: int) -> Round:
    """A real agent, and events that change while its handlers are at work."""
    from simulator.agents_world import changes, play

    result = play(seed, changes(seed))
    wrong = tuple(f"{each.promise}: {each.what}" for each in result.violations)
    return _lived(f"python -m simulator.agents_world {seed} --changing --cut", wrong, result.seconds, result.counts)


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


KILLS = 3


def kills(seed: int) -> Round:
    """A real server under load, killed with -9."""
    command = [sys.executable, "-m", "tests.crash", "--rounds", str(KILLS), "--seed", str(seed)]
    return _outside(command, {}, kills=KILLS)


EXAMPLES = "100"
STORIES = (
    "tests/promises/test_machine.py",
    "tests/promises/test_maintenances.py",
    "tests/promises/test_fleet_changes.py",
    "tests/promises/test_previews.py",
    "tests/unit/agent/test_promises.py",
)


def stories(seed: int) -> Round:
    """Random stories of Hypothesis, one file of them."""
    file = STORIES[seed % len(STORIES)]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", file, f"--hypothesis-seed={seed}"]
    return _outside(command, {"DUENOTICE_EXAMPLES": EXAMPLES}, stories=int(EXAMPLES))


def _outside(command: list[str], settings: dict[str, str], **done: int) -> Round:
    """Something that has a process of its own; it has found something when it fails."""
    words = [*(f"{name}={value}" for name, value in settings.items()), "python", *command[1:]]
    ran = subprocess.run(
        command, env={**os.environ, **settings}, capture_output=True, text=True, timeout=LONGEST, check=False
    )
    said = "" if ran.returncode == 0 else "\n".join([*ran.stdout.splitlines()[-20:], *ran.stderr.splitlines()[-5:]])
    return Round(" ".join(words), (said,) if said else (), **done)


TIERS: dict[str, Callable[[int], Round]] = {
    "world": world,
    "cluster": short_cluster,
    "drivers": short_drivers,
    "followers": short_followers,
    "hub": hub,
    "scenes": scenes,
    "agents": agents,
    "changing": changing,
    "power": power,
    "http": http,
    "kills": kills,
    "stories": stories,
}

SHORT: dict[str, Callable[[int], Round]] = {"world": short_world}
"""Instead of the others, where many seeds are worth more than long lives."""

ENOUGH = {"scenes": 25}
"""Seeds after which a tier has shown all that it can: each scene once."""
