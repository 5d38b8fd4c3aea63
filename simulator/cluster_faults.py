"""What goes wrong where several nodes share a store."""

from random import Random
from typing import TYPE_CHECKING, Any

from simulator.faults import act, fault
from simulator.store import STORE

if TYPE_CHECKING:
    from simulator.world import World

CLUSTER = ("cluster",)


def _for_a_while(name: str, most: float) -> Any:
    def do(world: "World", dice: Random) -> bool:
        chances = world.network.chances
        chances[name] = dice.uniform(0.02, most)
        world.later(dice.uniform(20, 400), lambda: chances.update({name: 0.0}))
        return False  # each call or news that meets it counts

    return do


fault("store-call-lost", "Calls to the store are lost.", 1.0, CLUSTER)(_for_a_while("store-call-lost", 0.3))
fault("store-answer-lost", "Answers of the store are lost after the commit.", 1.0, CLUSTER)(
    _for_a_while("store-answer-lost", 0.3)
)
fault("news-lost", "News of the store are lost.", 1.0, CLUSTER)(_for_a_while("news-lost", 0.9))
fault("news-doubled", "News of the store come twice.", 1.0, CLUSTER)(_for_a_while("news-doubled", 0.9))
fault("news-late", "News of the store come late and out of order.", 1.0, CLUSTER)(_for_a_while("news-late", 0.9))


def _cut_store(both: bool) -> Any:
    def do(world: "World", dice: Random) -> None:
        node = dice.choice(world.names)
        ways = {(node, STORE), (STORE, node)} if both else {dice.choice([(node, STORE), (STORE, node)])}
        world.network.cut |= ways
        world.later(dice.uniform(0.1, 4) * world.shape.lease, lambda: world.network.cut.difference_update(ways))

    return do


fault("store-partition", "A node cannot reach the store.", 1.5, CLUSTER)(_cut_store(both=True))
fault("store-one-way-partition", "Nothing passes between a node and the store in one direction.", 1.5, CLUSTER)(
    _cut_store(both=False)
)


@fault("node-cut-off", "The other nodes cannot reach one of them.", 1.0, CLUSTER)
def node_cut_off(world: "World", dice: Random) -> None:
    node = dice.choice(world.names)
    ways = {(other, node) for other in world.names}
    world.network.cut |= ways
    world.later(dice.uniform(5, 200), lambda: world.network.cut.difference_update(ways))


@fault("store-slow", "The store takes its time for a while.", 1.0, CLUSTER)
def store_slow(world: "World", dice: Random) -> None:
    world.store.slowness = dice.choice((0.05, 0.5, 2.0))
    world.later(dice.uniform(5, 200), lambda: setattr(world.store, "slowness", 0.0))


@fault("store-fails-over", "The store is away, and comes back on another server with all it had.", 1.0, CLUSTER)
def store_fails_over(world: "World", dice: Random) -> bool | None:
    if world.store.is_away:
        return False
    world.fail_over(dice.uniform(0.5, 200), None)
    return None


@fault("store-loses-commits", "The store comes back on another server, without its last commits.", 0.7, CLUSTER)
def store_loses_commits(world: "World", dice: Random) -> bool | None:
    if world.store.is_away or not world.store.copies:
        return False
    back = dice.randrange(len(world.store.copies))
    world.fail_over(dice.uniform(0.5, 200), list(world.store.copies)[back])
    return None


@fault("store-restored", "An older copy of the store is put in place.", 0.4, CLUSTER)
def store_restored(world: "World", dice: Random) -> bool | None:
    if world.store.is_away or world.store.backup is None:
        return False
    world.fail_over(dice.uniform(5, 200), world.store.backup)
    return None


@act("store-backed-up", "Somebody copies the store.", 1.0, CLUSTER)
def store_backed_up(world: "World", dice: Random) -> None:
    world.store.backup = world.store.copy()


@fault("two-leaders", "The leader stands still until another node leads, and wakes up.", 1.5, CLUSTER)
def two_leaders(world: "World", dice: Random) -> bool | None:
    if (leader := world.leader()) is None or not leader.runs:
        return False
    world.pause(leader, world.shape.lease * dice.uniform(1.0, 2.5))
    return None


@fault("leader-killed", "The leader is killed.", 1.0, CLUSTER)
def leader_killed(world: "World", dice: Random) -> bool | None:
    if (leader := world.leader()) is None:
        return False
    world.kill(leader, dice.choice((0.5, 5.0, 100.0, 500.0)) * dice.uniform(0.5, 1.5))
    return None


@fault("leader-stopped", "The leader is stopped as it should be, and hands over.", 1.0, CLUSTER)
def leader_stopped(world: "World", dice: Random) -> bool | None:
    leader = world.leader()
    if leader is None or not leader.runs or not leader.is_up:
        return False
    world.begin(world.restart(leader, dice.uniform(0.5, 60)))
    return None


@fault("node-twice", "A node is started again while its old process stands still.", 0.7, CLUSTER)
def node_twice(world: "World", dice: Random) -> bool | None:
    node = world.nodes[dice.choice(world.names)]
    if not node.runs or not node.is_up or node.process is None:
        return False
    world.start_twin(node, world.shape.lease * dice.uniform(0.2, 2.5))
    return None
