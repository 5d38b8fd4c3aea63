"""What goes wrong with networks, machines and disks."""

from random import Random
from typing import TYPE_CHECKING, Any

from simulator.disk import Trouble
from simulator.faults import act, fault

if TYPE_CHECKING:
    from simulator.world import World

LONE = ("lone",)


def _for_a_while(name: str, most: float) -> Any:
    """Messages meet this fault for some minutes; each that does is counted."""

    def do(world: "World", dice: Random) -> bool | None:
        network = world.network
        network.chances[name] = dice.uniform(0.05, most)
        network.longest_delay = dice.choice((0.5, 4.0, 20.0))
        world.later(dice.uniform(20, 400), lambda: network.chances.update({name: 0.0}))
        return True

    return do


fault("message-lost", "Requests are lost on their way.", 1.0)(_for_a_while("message-lost", 0.5))
fault("answer-lost", "Answers are lost after the commit.", 1.0)(_for_a_while("answer-lost", 0.5))
fault("message-late", "Messages come late and out of order.", 1.0)(_for_a_while("message-late", 0.6))
fault("message-doubled", "Messages come twice.", 1.0)(_for_a_while("message-doubled", 0.5))
fault("answer-cut-short", "Answers end in the middle.", 1.0)(_for_a_while("answer-cut-short", 0.3))
fault("connection-reset", "Connections are reset.", 1.0)(_for_a_while("connection-reset", 0.4))


def _cut(both: bool) -> Any:
    def do(world: "World", dice: Random) -> None:
        node = dice.choice(world.names)
        who = dice.choice(["*", "operator", *sorted(world.clients)])
        ways = {(who, node), (node, who)} if both else {dice.choice([(who, node), (node, who)])}
        world.network.cut |= ways
        world.later(dice.uniform(5, 300), lambda: world.network.cut.difference_update(ways))

    return do


fault("partition", "Nothing passes between a node and some clients, or all.", 1.0)(_cut(both=True))
fault("one-way-partition", "Nothing passes in one direction.", 1.0)(_cut(both=False))


@fault("node-killed", "A node is killed and started again a while later.", 1.5)
def node_killed(world: "World", dice: Random) -> bool | None:
    node = world.nodes[dice.choice(world.names)]
    if not node.is_there:
        return False
    world.kill(node, dice.choice((0.5, 3.0, 30.0, 300.0, 2000.0)) * dice.uniform(0.5, 1.5))
    return None


@fault("node-restarted", "A node is stopped as it should be, and started again.", 0.7)
def node_restarted(world: "World", dice: Random) -> bool | None:
    node = world.nodes[dice.choice(world.names)]
    if not node.is_up or not node.runs:
        return False
    world.begin(world.restart(node, dice.uniform(0.5, 60)))
    return None


@fault("node-paused", "A node stands still for minutes, and wakes up.", 1.5)
def node_paused(world: "World", dice: Random) -> bool | None:
    node = world.nodes[dice.choice(world.names)]
    if not node.runs or not node.is_up:
        return False
    world.pause(node, dice.choice((0.5, 3.0, 20.0, 200.0, 1000.0)) * dice.uniform(0.5, 1.5))
    return None


@fault("wall-jump-ahead", "Somebody sets the time of day of a machine forward.", 0.7)
def wall_jump_ahead(world: "World", dice: Random) -> None:
    world.observatory.walls_are_right = False
    world.nodes[dice.choice(world.names)].machine.set_wall(dice.choice((1, 60, 3600, 86_400 * 3)) * dice.random())


@fault("wall-jump-back", "Somebody sets the time of day of a machine back.", 0.7)
def wall_jump_back(world: "World", dice: Random) -> None:
    world.observatory.walls_are_right = False
    world.nodes[dice.choice(world.names)].machine.set_wall(-dice.choice((1, 60, 3600, 86_400 * 3)) * dice.random())


@fault("wall-wrong-for-a-moment", "The time of day of a machine is days off for five seconds.", 0.7)
def wall_wrong_for_a_moment(world: "World", dice: Random) -> None:
    world.observatory.walls_are_right = False
    machine, off = world.nodes[dice.choice(world.names)].machine, dice.choice((-2, 1.05, 2, 400)) * 86_400
    machine.set_wall(off)
    world.later(5.0, lambda: machine.set_wall(-off))


@fault("clock-drifts", "The steady clock of a machine is a little too fast or too slow.", 0.7)
def clock_drifts(world: "World", dice: Random) -> None:
    world.nodes[dice.choice(world.names)].machine.set_drift(dice.uniform(-1e-4, 1e-4))


@fault("another-boot", "The machine of a node loses power and boots again.", 1.0)
def another_boot(world: "World", dice: Random) -> bool | None:
    node = world.nodes[dice.choice(world.names)]
    if not node.is_there:
        return False
    world.kill(node, dice.uniform(20, 300), boot=True)
    return None


# --- the disk of a lone node ---


def _trouble(trouble: Trouble) -> Any:
    def do(world: "World", dice: Random) -> bool:
        """The next commit meets it; it is counted then."""
        world.disk.trouble = trouble
        return False

    return do


fault("crash-before-commit", "A node is killed before a commit is written.", 1.0, LONE)(_trouble(Trouble.KILL_BEFORE))
fault("crash-in-commit", "A node is killed while a commit is written: it is torn.", 1.0, LONE)(
    _trouble(Trouble.KILL_IN)
)
fault("crash-after-commit", "A node is killed after a commit, before anybody is told.", 1.0, LONE)(
    _trouble(Trouble.KILL_AFTER)
)
fault("fsync-error", "A commit cannot be synced; it may be found after the next start.", 1.0, LONE)(
    _trouble(Trouble.SYNC_FAILS)
)
fault("stored-but-unanswered", "A commit is stored, but the disk says that it failed.", 1.0, LONE)(
    _trouble(Trouble.SYNC_LIES)
)


@fault("power-loss", "Power is lost: what was not synced is gone, wholly or in part, and notes are older.", 1.0, LONE)
def power_loss(world: "World", dice: Random) -> bool | None:
    node = world.nodes[world.names[0]]
    if not node.is_there:
        return False
    world.kill(node, dice.uniform(20, 300), boot=True)
    world.disk.lose_power()
    return None


@fault("disk-full", "The disk is full for a while.", 0.7, LONE)
def disk_full(world: "World", dice: Random) -> bool:
    world.disk.is_full = True
    world.later(dice.uniform(5, 600), lambda: setattr(world.disk, "is_full", False))
    return False


@fault("disk-slow", "The disk takes its time for a while.", 0.7, LONE)
def disk_slow(world: "World", dice: Random) -> None:
    world.disk.slowness = dice.choice((0.3, 1.5, 10.0))
    world.later(dice.uniform(5, 300), lambda: setattr(world.disk, "slowness", 0.0))


@fault("record-damaged", "A stored record is damaged; an older backup is put in its place.", 0.4, LONE)
def record_damaged(world: "World", dice: Random) -> bool | None:
    if world.disk.backup is None or not world.nodes[world.names[0]].is_there:
        return False
    world.disk.damage(dice.randint(1, len(world.disk.rows)))
    world.begin(world.mend_disk(dice.uniform(1, 100)))
    return None


@fault("backup-restored", "An older copy of the journal is put in place.", 0.5, LONE)
def backup_restored(world: "World", dice: Random) -> bool | None:
    if world.disk.backup is None:
        return False
    world.begin(world.restore(dice.uniform(1, 100)))
    return None


@act("backup-made", "Somebody copies the journal.", 1.0, LONE)
def backup_made(world: "World", dice: Random) -> bool | None:
    if world.disk.is_damaged:  # a copy of that would be of no use to anybody, and the old one is still there
        return False
    world.disk.back_up()
    return None
