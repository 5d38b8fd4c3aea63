"""The heaviest calls on a fleet of a million VMs: the slowest poll of a VM that has no part in them.

`make stalls` does it with everything that the operator's API can do; these are the calls that have a target.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from time import monotonic, sleep
from typing import Any

from benchmarks.scale import MILLION
from benchmarks.support.console import step
from benchmarks.support.node import Node
from benchmarks.support.results import Row, figure
from benchmarks.support.yard import Yard
from duenotice.engine.engine import SNAPSHOT_EVERY
from tests.promises.stalls import fleet
from tests.promises.stalls.fleet import Size
from tests.promises.stalls.moment import Moment
from tests.promises.stalls.serving import SETTINGS
from tests.promises.stalls.world import World

LIMIT = 50.0
PATIENCE = 300.0
"""Seconds that one operation may take before its node is given up."""

PAGE = 1000
LISTING = 15.0
"""Seconds: all pages do the same, and there are a thousand."""

_NEXT = re.compile(rb'"next":(?:null|"([^"]+)")}$')
"""All that is looked at of a page: whoever reads it must not take the core that the polls come from."""


def measure(yard: Yard) -> list[Row]:
    """The same calls in each round, all on one node; the median round counts."""
    size = Size(MILLION) if not yard.quick else Size(100_000)
    rounds = 1 if yard.quick else 3
    data_dir, first = yard.folder("stalls"), yard.folder("poller.toml")
    first.write_text(fleet.only_the_poller())
    flags = [f"--{name}" if value is True else f"--{name}={value}" for name, value in SETTINGS.items()]
    world = World(size, lambda: Node(data_dir, first, *flags), PATIENCE, tries=1, say=step)
    try:
        world.open()
        seen = [_round(world, data_dir) for _ in range(rounds)]
    finally:
        world.close()
    return [_row(moments) for moments in zip(*seen, strict=True)]


def _round(world: World, data_dir: Path) -> list[Moment]:
    world.moments = []
    _fleets(world)
    _reads(world)
    _maintenance(world)
    _snapshot(world, data_dir)
    return world.moments


def _fleets(world: World) -> None:
    """They come and go, as a file and by a number."""
    scale, spare = "/v1/scale-sets/{name}/scale", world.size.spare
    world.apply(fleet.only_the_poller())
    world.put_fleet(f"apply a fleet file of {world.size.vms:,} VMs", world.whole())
    for what, capacity in ((f"add {spare:,} VMs to a scale set", spare), (f"remove {spare:,} VMs of a scale set", 0)):
        world.call(what, "POST", scale, {"capacity": capacity}, of={"name": fleet.SPARE})
    world.do("POST", f"/v1/scale-sets/{fleet.SPARE}/scale", {"capacity": spare})


def _reads(world: World) -> None:
    """Of the whole fleet, or a good part of it."""
    plan = {"on": [f"scale-set={fleet.SPARE}"], "type": "Reboot"}
    what = f"preview a maintenance on {world.size.spare:,} VMs"
    world.call(what, "POST", "/v1/maintenances", plan, query="dry_run=true", expect=(200, 503))
    vms = world.size.vms + world.size.spare
    with world.measured(f"list all {vms:,} VMs, {PAGE:,} on a page, for {LISTING:g} s at most") as said:
        said.append(f"{sum(1 for _ in _pages(world, monotonic() + LISTING)):,} pages")
    world.call("scrape the metrics", "GET", "/metrics")


def _pages(world: World, until: float) -> Iterator[bytes]:
    cursor = b""
    while monotonic() < until:
        answer = world.do("GET", f"/v1/vms?limit={PAGE}&cursor={cursor.decode()}")
        yield answer.body
        found = _NEXT.search(answer.body, len(answer.body) - 200)
        assert found is not None, answer.body[:500]
        if not (cursor := found[1] or b""):
            return


def _maintenance(world: World) -> None:
    """All VMs are on their own, so all get their events in the same moment."""
    plan: dict[str, Any] = {"on": ["tag=all=yes"], "type": "Reboot"}
    what = f"start a maintenance of {world.size.one_by_one:,} VMs at once"
    made = world.call(what, "POST", "/v1/maintenances", plan).json()
    world.do("POST", f"/v1/maintenances/{made['id']}/cancel")
    world.do("POST", "/v1/clock/advance", {"by": "1h"})


def _snapshot(world: World, data_dir: Path) -> None:
    """As many records come as it takes, and then we look on until it is there."""
    host, before = str(world.get("/v1/vms/farm-1")["host"]), _written(data_dir)
    with world.measured(f"write a snapshot, after {SNAPSHOT_EVERY:,} records") as said:
        until = monotonic() + PATIENCE
        while _written(data_dir) == before:
            assert monotonic() < until, "no snapshot is written"
            if world.get("/v1/fleet")["position"] < before + SNAPSHOT_EVERY:
                world.do("POST", f"/v1/hosts/{host}/degrade", {"notice": "1h"})
                world.do("POST", f"/v1/hosts/{host}/repair")
            sleep(0.1)
        said.append("written")


def _written(data_dir: Path) -> int:
    """The position of the newest snapshot."""
    with closing(sqlite3.connect(f"file:{data_dir}/journal.db?mode=ro", uri=True)) as journal:
        return int(journal.execute("SELECT max(position) FROM snapshots").fetchone()[0] or 0)


def _row(moments: tuple[Moment, ...]) -> Row:
    """Ours is the median round; somebody who was not answered at all is a miss in any round."""
    slowest = [moment.slowest * 1e3 for moment in moments]
    answered = all(moment.done and not moment.polls.unanswered and not moment.polls.trouble for moment in moments)
    ours = f"{'' if answered else '> '}{figure(median(slowest))} ms (worst round {figure(max(slowest))} ms)"
    return Row(moments[0].what, ours, target=f"≤ {LIMIT:g} ms", ok=answered and median(slowest) <= LIMIT)
