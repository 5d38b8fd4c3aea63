"""`python -m tests.promises.stalls`: tell the stories at any size, and show the slowest poll during each operation."""

import sys
import tempfile
from pathlib import Path

import click

from tests.promises.stalls.fleet import Size
from tests.promises.stalls.moment import LIMIT, Moment
from tests.promises.stalls.serving import starter
from tests.promises.stalls.stories import STORIES, told
from tests.promises.stalls.world import World

ROOT = Path(__file__).resolve().parents[3]


@click.command()
@click.option("--vms", default=1_000_000, show_default=True, help="VMs of the one big scale set")
@click.option("--parts", default=1.0, show_default=True, help="times what else is in the fleet: 20,000, 5,000, …")
@click.option("--only", type=click.Choice(list(STORIES)), multiple=True, help="this story alone; may be repeated")
@click.option("--patience", default=600.0, show_default=True, help="seconds that one operation may take")
@click.option("--tries", default=3, show_default=True, help="how often a slow operation is done; the best counts")
def main(vms: int, parts: float, only: tuple[str, ...], patience: float, tries: int) -> None:
    """No poll of another VM may take longer than 250 ms, whatever goes on (S26)."""
    usual = Size(vms)
    size = Size(vms, *(int(number * parts) for number in usual[1:]))
    (ROOT / ".run").mkdir(exist_ok=True)
    moments: list[Moment] = []
    with tempfile.TemporaryDirectory(prefix="stalls-", dir=ROOT / ".run") as folder:
        world = World(size, starter(Path(folder)), patience, tries, click.echo)
        try:
            for name in only or STORIES:
                click.secho(f"\n{name.replace('_', ' ')}", bold=True)
                moments += told(world, name)
        finally:
            world.close()
    slow = [moment for moment in moments if not moment.fine]
    click.echo(f"\n{len(moments)} operations; slower than {LIMIT * 1e3:.0f} ms for another VM: {len(slow)}")
    for moment in slow:
        click.secho(str(moment), fg="red")
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
