"""Any number of rounds by hand: `.venv/bin/python -m tests.crash --rounds 1000 [--seed N]`."""

import secrets

import click

from tests.crash.loop import run


@click.command()
@click.option("--rounds", default=50, help="how often to kill the server")
@click.option("--seed", type=int, help="chooses the same kinds of rounds and moments again")
def main(rounds: int, seed: int | None) -> None:
    """Kill the server with -9 under write load and see that nothing answered is lost."""
    run(rounds, secrets.randbits(32) if seed is None else seed, click.echo)


main()
