"""What can happen to three nodes, each by a name: it begins, lasts for a while, and is over when the function returns.

Each returns what it has seen of its own effect, in words, so that nobody counts faults that were none.
"""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from tests.cluster.places import HUB, NAMES, Network
from tests.cluster.small_disk import SmallDisk
from tests.cluster.trio import LEASE, Trio
from tests.cluster.versions import INSTALLED, next_version, wrong_clock
from tests.support.served import wait_until

HOUR = 3600
Fault = Callable[["Scene", str, Random], str]


class Scene:
    """All that faults may change."""

    def __init__(self, nodes: Trio, place: Network, disk: SmallDisk, folder: Path) -> None:
        self.nodes, self.place, self.disk = nodes, place, disk
        self.next_version, self.newer_records = next_version(folder), next_version(folder, newer_records=True)


def _while_down(length: float) -> None:
    threading.Event().wait(length)


def kill(scene: Scene, name: str, random: Random) -> str:
    """-9, and a new process after a while."""
    scene.nodes.servers[name].kill()
    _while_down(random.uniform(0, 1.5) * LEASE)
    scene.nodes.start(name)
    return "kill -9"


def stand_still(scene: Scene, name: str, random: Random) -> str:
    """SIGSTOP past the lease, then SIGCONT."""
    length = random.uniform(0.5, 2.5) * LEASE
    scene.nodes.servers[name].freeze()
    _while_down(length)
    scene.nodes.servers[name].thaw()
    return f"for {length:.1f} s"


def _cut(scene: Scene, name: str, others: list[str], random: Random, how: str) -> str:
    scene.place.cut(name, *others, how=how)
    _while_down(random.uniform(0.3, 2.5) * LEASE)
    return f"{scene.place.mend(name)} packets"


def database_refuses(scene: Scene, name: str, random: Random) -> str:
    """No way to the database: connections break at once (nftables, reject)."""
    return _cut(scene, name, [HUB], random, "reject with tcp reset")


def database_silent(scene: Scene, name: str, random: Random) -> str:
    """No way to the database, and nobody is told: packets are dropped (nftables, drop)."""
    return _cut(scene, name, [HUB], random, "drop")


def nodes_apart(scene: Scene, name: str, random: Random) -> str:
    """A node reaches the database, but none of the other nodes (nftables, drop)."""
    return _cut(scene, name, [scene.place.nodes[other] for other in NAMES if other != name], random, "drop")


def slow_database(scene: Scene, name: str, random: Random) -> str:
    """Each message takes a while, at all nodes."""
    delay = random.uniform(0.01, 0.05)
    for line in scene.nodes.lines.values():
        line.delay = delay
    _while_down(random.uniform(0.5, 1.5) * LEASE)
    for line in scene.nodes.lines.values():
        line.mend()
    return f"{delay * 1000:.0f} ms a message"


def no_database(scene: Scene, name: str, random: Random) -> str:
    """All nodes are cut off at once."""
    for line in scene.nodes.lines.values():
        line.cut()
    _while_down(random.uniform(0.3, 2.0) * LEASE)
    for line in scene.nodes.lines.values():
        line.mend()
    return "all three"


def full_database(scene: Scene, name: str, random: Random) -> str:
    """The disk of the database has no room; it lasts until the database has noticed, and a bit more."""
    before = scene.disk.refused()
    scene.disk.fill()
    try:
        wait_until(lambda: scene.disk.refused() > before)
        _while_down(random.uniform(0.0, 1.5) * LEASE)
    finally:
        scene.disk.free()
    return f"no room {scene.disk.refused() - before} times"


def lost_answer(scene: Scene, name: str, random: Random) -> str:
    """The database has done an append, and its answer gets lost (N02); at the leader, if another one was meant."""
    line = scene.nodes.lines[scene.nodes.leader()]
    before, line.loses_next_answer = line.lost, True
    wait_until(lambda: line.lost > before)
    return "1 answer"


def restart(scene: Scene, name: str, random: Random) -> str:
    """SIGTERM, and a new process."""
    scene.nodes.servers[name].stop()
    scene.nodes.start(name)
    return "SIGTERM"


def wall_clock_wrong(scene: Scene, name: str, random: Random) -> str:
    """A node comes back with a time of day that is an hour off, and may have to lead. It stays so for some rounds."""
    off = random.choice((-HOUR, HOUR))
    scene.nodes.programs[name] = wrong_clock(off)
    restart(scene, name, random)
    scene.nodes.programs[name] = INSTALLED
    if (leader := scene.nodes.leader()) != name:
        restart(scene, leader, random)
    said = datetime.fromisoformat(scene.nodes.operate(name, "GET", "/v1/clock").json()["now"])
    seen = (said - datetime.now(UTC)).total_seconds()
    return f"{off:+d} s, so {name} says {seen:+.0f} s; then {scene.nodes.leader()} leads"


def rolling_upgrade(scene: Scene, name: str, random: Random) -> str:
    """To the next version of duenotice, one node after the other, and the next time back; both run side by side."""
    is_back = scene.nodes.programs[name] != INSTALLED
    for each in random.sample(NAMES, 3):
        scene.nodes.programs[each] = INSTALLED if is_back else scene.next_version
        restart(scene, each, random)
        scene.nodes.wait_until_whole()
    return "back" if is_back else "to the next version"


def newer_records(scene: Scene, name: str, random: Random) -> str:
    """An upgrade to a version whose records the old one cannot read. There is no way back, so it comes last.

    An old node that a new one leads answers 503, until it is upgraded too (N16).
    """
    newer, too_old = scene.newer_records, 0
    for each in random.sample(NAMES, 3):
        scene.nodes.programs[each] = newer
        restart(scene, each, random)
        _while_down(LEASE / 4)
        too_old += sum(not scene.nodes.is_ready(other) for other in NAMES)
    return f"{too_old} times a node was too old"


FAULTS: tuple[Fault, ...] = (
    kill,
    stand_still,
    database_refuses,
    database_silent,
    nodes_apart,
    slow_database,
    no_database,
    full_database,
    lost_answer,
    restart,
    wall_clock_wrong,
)
"""Each hits the leader or another node. A rolling upgrade comes once in twenty rounds, newer records come last."""
