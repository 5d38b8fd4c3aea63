"""Any number of power cuts: a seed makes a disk, whose nodes live until a cut, each on what the last cut has left."""

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from simulator.power.disk import Disk, Image
from simulator.power.judge import Judge, Witness
from simulator.power.story import Life, live

CUTS = 250
"""Cuts of one life that are looked at."""
LIVES = 4
"""Lives of one disk, each beginning on an image that the one before has left."""


class Tally(NamedTuple):
    """How much was looked at; what was wrong, and the seed of the disk that shows it."""

    lives: int = 0
    acts: int = 0
    images: int = 0
    wrong: tuple[str, ...] = ()
    seed: int = 0


@contextmanager
def room() -> Iterator[Path]:
    """A directory in memory, where there is such a place: what is proved is the order of things, not the disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="duenotice-power-", dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


def campaign(seed: int, images: int, deaf: tuple[str, ...] = ()) -> Tally:
    """The disks of this seed and those after it, until at least so many images were opened, or one is wrong."""
    tally = Tally()
    with room() as place:
        while tally.images < images and not tally.wrong:
            one = lives_of(place, seed, deaf)
            tally = Tally(tally.lives + one.lives, tally.acts + one.acts, tally.images + one.images, one.wrong, seed)
            seed += 1
    return tally


def lives_of(place: Path, seed: int, deaf: tuple[str, ...] = ()) -> Tally:
    """One disk, with all images of it that are looked at."""
    chance = random.Random(seed)
    before, witness, tally = Image(), Witness(), Tally(seed=seed)
    for _ in range(LIVES):
        life = live(place / "life", before, chance, deaf)
        images, wrong, left = _cuts(life, witness, Judge(place / "image"), chance)
        tally = Tally(tally.lives + 1, tally.acts + len(life.acts), tally.images + images, wrong, seed)
        if wrong:
            break
        before, witness = left
    return tally


def _cuts(
    life: Life, witness: Witness, judge: Judge, chance: random.Random
) -> tuple[int, tuple[str, ...], tuple[Image, Witness]]:
    """How many images were opened, what was wrong with one, and what the next life begins with."""
    cuts = sorted(chance.randrange(len(life.acts) + 1) for _ in range(CUTS))
    disk, done, known, goes_on = Disk(life.before), 0, set[bytes](), chance.randrange(CUTS)
    left = life.before, witness
    for number, cut in enumerate(cuts):
        for act in life.acts[done:cut]:
            disk.do(act)
            witness.hear(act)
        done, image = cut, disk.image(chance)
        if (digest := _digest(image, witness)) not in known or number == goes_on:
            known.add(digest)
            found = judge.judge(image, witness)
            if found.wrong:
                return len(known), tuple(found.wrong), left
            if number == goes_on:
                left = image, witness.go_on_from(found.records)
    return len(known), (), left


def _digest(image: Image, witness: Witness) -> bytes:
    digest = blake2b(f"{witness.durable} {witness.seen}".encode(), digest_size=16)
    for path, content in image.items():
        digest.update(path.encode() + b"\0" + (content or b""))
    return digest.digest()
