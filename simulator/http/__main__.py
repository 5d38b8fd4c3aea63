"""Second opinions by hand: `.venv/bin/python -m simulator.http --streams 1000000 [--seed N]`."""

import secrets
import sys
from time import process_time

import click

from simulator.http.campaign import campaign


@click.command()
@click.option("--streams", default=20_000, help="how many streams of bytes to read; each has one to three requests")
@click.option("--seed", type=int, help="the first stream; the same seed makes the same bytes")
def main(streams: int, seed: int | None) -> None:
    """Read generated requests as we do, as h11 does and as httptools does, and see that they mean the same."""
    seed = secrets.randbits(32) if seed is None else seed
    began = process_time()
    compared = campaign(seed, streams)
    spent = process_time() - began
    print(
        f"seeds {seed} to {compared.seed}: {compared.streams} streams, {compared.accepted} requests accepted, "
        f"{compared.streams / spent:.0f} streams/s of CPU, {len(compared.wrong)} wrong"
    )
    for what, count in compared.known.most_common():
        print(f"{count} times a known difference: {what}")
    if compared.wrong:
        print(*compared.wrong, sep="\n")
        sys.exit(f"The same again: python -m simulator.http --streams 1 --seed {compared.seed}")


main()
