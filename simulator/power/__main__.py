"""Power cuts by hand: `.venv/bin/python -m simulator.power --images 10000 [--seed N]`."""

import secrets
import sys
from time import process_time

import click

from simulator.power.campaign import campaign


@click.command()
@click.option("--images", default=2000, help="how many images to open; one disk has up to a thousand")
@click.option("--seed", type=int, help="the first disk; the same seed makes the same images")
@click.option("--deaf", multiple=True, help="ignore the syncs of files that end like this, to see that it is noticed")
def main(images: int, seed: int | None, deaf: tuple[str, ...]) -> None:
    """Cut the power of nodes under load, and see that nothing answered is lost."""
    seed = secrets.randbits(32) if seed is None else seed
    began = process_time()
    tally = campaign(seed, images, deaf)
    print(
        f"seeds {seed} to {tally.seed}: {tally.lives} lives, {tally.acts} writes and syncs, "
        f"{tally.images} images opened in {process_time() - began:.1f} s of CPU, {len(tally.wrong)} wrong"
    )
    if tally.wrong:
        print(*tally.wrong, sep="\n")
        sys.exit(f"The same again: python -m simulator.power --images 1 --seed {tally.seed}")


main()
