"""Any number of rounds by hand: `.venv/bin/python -m tests.cluster --rounds 200 [--seed N]`."""

import secrets
import tempfile
from pathlib import Path

import click

from tests.cluster.rounds import run


@click.command()
@click.option("--rounds", default=200, help="how often something happens to a node")
@click.option("--seed", type=int, help="chooses the same rounds again")
def main(rounds: int, seed: int | None) -> None:
    """Kill, stop, cut off and restart three nodes, and see that what VMs read is one history."""
    with tempfile.TemporaryDirectory(prefix="duenotice-cluster-") as folder:
        run(Path(folder), rounds, secrets.randbits(32) if seed is None else seed, click.echo)


main()
