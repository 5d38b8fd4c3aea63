"""Prints the three digests of 40 worlds of all shapes, for `tools/compare.py`: JSON, a line for each world.

python -m simulator.digests                             # all of them
python -m simulator.digests --world short/2 --entries   # one, with all entries of its transcripts
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

import duenotice
from simulator import agents_world
from simulator.border import real_seconds
from simulator.renames import read
from simulator.runs import SHAPES, run
from simulator.transcripts import Digests, Entry, Recording

FORMAT = 1
"""What the entries of transcripts look like. Digests of two formats cannot be compared: count on when one changes."""

SEEDS: dict[str, tuple[int, ...]] = {
    "any": (13, 31, 96),
    "twenty": (3,),
    "short": (2, 3),
    "short-followers": (2, 3),
    "short-webhook": (2, 3),
    "short-webhook-followers": (2, 3),
    "short-command": (2, 3),
    "short-command-followers": (3, 4),
    "cluster": (2, 3),
    "cluster-followers": (3, 5),
    "cluster-webhook": (2, 3),
    "cluster-webhook-followers": (3, 5),
    "cluster-command": (2, 3),
    "cluster-command-followers": (2, 3),
    "agents": (1, 2, 3, 4, 5, 6),
    "changing": (1, 2, 3, 4, 5, 6),
}
"""The seeds of each shape; `agents` and `changing` are one agent each, with a scripted service."""


class Told(Struct, frozen=True):
    """The digests of a world, how many entries they are of, and the promises that it has broken."""

    world: str
    digests: Digests
    entries: dict[str, int]
    violations: tuple[str, ...]
    seconds: float


class Header(Struct, frozen=True):
    """The first line: what the lines after it are, and whose sources have run."""

    format: int
    source: str


class Ended(NamedTuple):
    """A world that has come to its end."""

    digests: Digests
    violations: tuple[str, ...]


def _world(shape: str, seed: int, recording: Recording) -> Ended:
    outcome = run(seed, shape=SHAPES[shape](seed), recording=recording)
    return Ended(outcome.digests, outcome.violations)


def _agent(seed: int, changing: bool, recording: Recording) -> Ended:
    result = agents_world.play(seed, agents_world.changes(seed) if changing else None, recording=recording)
    return Ended(result.digests, tuple(f"{each.promise}: {each.what}" for each in result.violations))


def _player(shape: str, seed: int) -> Callable[[Recording], Ended]:
    if shape in SHAPES:
        return partial(_world, shape, seed)
    return partial(_agent, seed, shape == "changing")


WORLDS = {f"{shape}/{seed}": _player(shape, seed) for shape, seeds in SEEDS.items() for seed in seeds}


def main() -> int:
    """Print them; 2 when the table of renames contradicts itself."""
    asked = _arguments()
    try:
        renames = read(asked.renames) if asked.renames else None
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(_json(Header(FORMAT, str(Path(duenotice.__file__).parents[1]))))
    for name in asked.world or WORLDS:
        kept, begun = list[Entry](), real_seconds()
        recording = Recording(kept=kept) if renames is None else Recording(renames, kept)
        ended = WORLDS[name](recording)
        if recording.renames.problems:
            print(recording.renames.problems[0], file=sys.stderr)
            return 2
        counts = {each: sum(entry.transcript == each for entry in kept) for each in Digests.__struct_fields__}
        seconds = round(real_seconds() - begun, 2)
        print(_json(Told(name, ended.digests, counts, ended.violations, seconds)), flush=True)
        for entry in kept if asked.entries else ():
            print(_json(entry))
    return 0


def _json(line: Struct) -> str:
    return msgspec.json.encode(line).decode()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", action="append", choices=list(WORLDS), metavar="SHAPE/SEED", help="only this one")
    parser.add_argument("--renames", type=Path, metavar="FILE", help="the table of renames")
    parser.add_argument("--entries", action="store_true", help="print all entries behind the digests of a world")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
