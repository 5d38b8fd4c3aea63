"""The biggest things that can happen to a million VMs: the slowest poll of a VM that has no part in them."""

from itertools import count

from benchmarks.scale import MILLION
from benchmarks.support.console import step
from benchmarks.support.node import Node
from benchmarks.support.results import Row, figure
from benchmarks.support.yard import Yard
from tests.promises.stalls.fleet import Size, only_the_poller
from tests.promises.stalls.moment import LIMIT, Moment
from tests.promises.stalls.serving import SETTINGS
from tests.promises.stalls.stories import told
from tests.promises.stalls.world import World

LONGEST = 300.0
"""Seconds that one operation may take before its node is given up."""

STORIES = {
    "a_plan_for_all": ("dry run of a maintenance", "begin a maintenance", "outlook by a viewer"),
    "one_by_one": ("dry run with at_once=1", "outlook by a viewer"),
    "many_selectors": ("dry run with",),
    "a_host_fails": ("VMs fails", "GET /v1/states with", "host-failure events end"),
    "the_host_of_a_set_gets_worse": ("the notices of a degraded host run out",),
    "vms_leave": ("scale ", "fleet file that drops", "fleet file that adds"),
}
"""Which of their operations have a row of their own, by words of their names; the others share one."""


def measure(yard: Yard) -> list[Row]:
    """Tell the stories that once took seconds or minutes, all on one node."""
    size = Size(MILLION) if not yard.quick else Size(5_000, 1_000, 500, 250, 5_000, 1_000, 200)
    fleet, numbers = yard.folder("poller.toml"), count(1)
    fleet.write_text(only_the_poller())
    flags = [f"--{name}" if value is True else f"--{name}={value}" for name, value in SETTINGS.items()]
    world = World(size, lambda: Node(yard.folder(f"stalls-{next(numbers)}"), fleet, *flags), LONGEST, say=step)
    try:
        told_of = {name: told(world, name) for name in STORIES}
    finally:
        world.close()
    return [_row(moment) for name, moments in told_of.items() for moment in _by_themselves(name, moments)]


def _by_themselves(name: str, moments: list[Moment]) -> list[Moment]:
    """Those with a row of their own, and the slowest of the others."""
    own = [moment for moment in moments if any(words in moment.what for words in STORIES[name])]
    others = [moment for moment in moments if moment not in own]
    slowest = max(others, key=lambda moment: (not moment.fine, moment.slowest), default=None)
    return [*own, slowest._replace(what=f"slowest of {len(others)} more: {slowest.what}")] if slowest else own


def _row(moment: Moment) -> Row:
    least = "> " if moment.polls.unanswered or not moment.done else ""
    took = f"{least}{figure(moment.slowest * 1e3)} ms"
    return Row(moment.what, took, target=f"≤ {LIMIT * 1e3:g} ms (goal 50)", ok=moment.fine)
