"""No operator's call, commit or due moment delays another VM's poll by more than 250 ms, at 100,000 VMs (S26)."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.promises.stalls.fleet import Size
from tests.promises.stalls.moment import LIMIT
from tests.promises.stalls.serving import starter
from tests.promises.stalls.stories import CANNOT_BE_BIG, STORIES, told
from tests.promises.stalls.world import World
from tests.support.node import Node

pytestmark = pytest.mark.serial
SIZE = Size(herd=87_999, farm=10_000, one_by_one=3_000, flock=2_000, told=5_000, selectors=1_000)
"""100,000 VMs; what else there is of is smaller than in `make stalls`, yet large enough to see what grows too fast."""

PATIENCE = 60.0

DAILY = ("fleet_files", "a_plan_for_all", "a_host_fails", "vms_leave", "the_past_is_read")
"""What is as large as the fleet: apply, maintenance, failure, removal and reading; the others are marked `soak`."""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """One node with 100,000 VMs for all stories, and another one after a story that went wrong."""
    assert SIZE.vms == 100_000
    with tempfile.TemporaryDirectory(prefix="stalls-") as folder:
        world = World(SIZE, starter(Path(folder)), PATIENCE)
        yield world
        world.close()


def test_every_call_of_the_api_is_in_a_story_or_cannot_be_big() -> None:
    """A new call must be put into a story, or someone must say why it needs none."""
    with Node() as node:
        paths = node.operate("/openapi.json", method="GET")["paths"]
    calls = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    measured = {route for story in STORIES.values() for route in story.routes}
    assert calls - measured == set(CANNOT_BE_BIG)
    assert measured - calls == set()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name", [name if name in DAILY else pytest.param(name, marks=pytest.mark.soak) for name in STORIES]
)
def test_nobody_waits_while_others_are_worked_on(world: World, name: str) -> None:
    """A VM that has nothing to do with it polls every 20 ms; what was slow is done again, and the best counts."""
    slow = [moment for moment in told(world, name) if not moment.fine]
    idle = (
        f"allowed are {LIMIT * 1e3:.0f} ms; with nothing going on the slowest took {world.baseline.slowest * 1e3:.0f}"
    )
    assert not slow, "\n".join(("", *map(str, slow), idle))
