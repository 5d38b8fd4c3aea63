"""Any number of rounds by hand: `.venv/bin/python -m tests.cluster --rounds 200 [--seed N]`.

What one dead member delays, as a table: `.venv/bin/python -m tests.cluster --dead [--rounds 20]` (S30).
"""

import secrets
import tempfile
from pathlib import Path

import click

from tests.cluster.dead_members import measure
from tests.cluster.rounds import run


@click.command()
@click.option("--rounds", type=int, help="how often something happens to a node: 200, with --dead 20")
@click.option("--seed", type=int, help="chooses the same rounds again")
@click.option("--dead", is_flag=True, help="measure what one dead member delays, at default settings")
def main(rounds: int | None, seed: int | None, dead: bool) -> None:
    """Kill, stop, cut off and restart three nodes, and see that what VMs read is one history."""
    with tempfile.TemporaryDirectory(prefix="duenotice-cluster-") as folder:
        if dead:
            measure(Path(folder), 20 if rounds is None else rounds, click.echo)
        else:
            number = 200 if rounds is None else rounds
            run(Path(folder), number, secrets.randbits(32) if seed is None else seed, click.echo)


main()
