"""Many nodes keep the promises: whatever happens to nodes, messages and clocks, nobody reads anything older (N01-N10).

What decides is real (`engine/standing.py`, `engine/shared_time.py`, the store in memory); see `cluster_world`.
"""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import Phase as Part
from hypothesis import strategies as st

from duenotice.clock import MICROS
from duenotice.engine import membership as m
from duenotice.engine.members import Deposed
from duenotice.engine.membership import NodePhase
from duenotice.testkit.journal_contract import record
from tests.promises.cluster_world import SCOPES, Node, World
from tests.promises.test_machine import EXAMPLES

UNSHRUNK = (Part.explicit, Part.reuse, Part.generate)
"""A failure is shown as it was found: to shrink it would take many minutes."""

LEASE = 6 * MICROS
Act = Callable[[World, Node], None]


def a_node(act: Callable[[Node], None]) -> Act:
    """Something that happens to a node that is not stopped."""
    return lambda world, node: None if node.is_stopped or node.is_dead else act(node)


def setting(name: str, value: float) -> Act:
    """How bad things are from now on."""
    return lambda world, node: setattr(world, name, value)


ACTS: dict[str, Act] = {
    "stop": lambda world, node: world.stop(node),
    "stop when it has sent a beat": lambda world, node: world.stop_after_beat(node),
    "wake": lambda world, node: world.wake(node),
    "kill": lambda world, node: world.kill(node),
    "begin a new life": lambda world, node: world.start(node),
    "cut off": lambda world, node: setattr(node, "is_cut", True),
    "join up": lambda world, node: setattr(node, "is_cut", False),
    "cannot read": lambda world, node: setattr(node, "is_blind", True),
    "can read": lambda world, node: setattr(node, "is_blind", False),
    "hand over": a_node(lambda node: node.tell(m.HandOver())),
    "leave": a_node(lambda node: node.tell(m.Stop())),
    "close doors": a_node(lambda node: node.tell(m.Closed())),
    "lose nothing": setting("losses", 0.0),
    "lose some": setting("losses", 0.1),
    "lose much": setting("losses", 0.4),
    "be fast": setting("lateness", 0.0),
    "be late": setting("lateness", 0.1),
    "be very late": setting("lateness", 0.4),
    "many commands": setting("commands_every", 30_000),
    "few commands": setting("commands_every", MICROS),
    "no commands": setting("commands_every", 0),
    "nothing": lambda world, node: None,
}

STORIES = st.lists(
    st.tuples(
        st.sampled_from(sorted(ACTS)), st.integers(0, 9), st.sampled_from([1000, 50_000, MICROS, LEASE, 3 * LEASE])
    ),
    max_size=25,
)


def play(seed: int, story: list[tuple[str, int, int]]) -> World:
    """Three nodes, and then what the story says; between its acts some time passes."""
    world = World(seed)
    world.run(MICROS)
    world.commands_every = MICROS // 5
    for name, number, micros in story:
        node = (world.alive or world.nodes)[number % len(world.alive or world.nodes)]
        ACTS[name](world, node)
        world.run(micros)
    return world


def make_well(world: World) -> None:
    """The faults are over, and of each node at least one life is there."""
    world.heal()
    for node in world.alive:
        node.tell(m.Closed()) if node.standing.phase is NodePhase.LEAVING else None
    for name in sorted({node.name for node in world.nodes} - {node.name for node in world.alive}):
        world.start(next(node for node in world.nodes if node.name == name))
    world.run(4 * LEASE)


@settings(max_examples=EXAMPLES or 3, deadline=None, phases=UNSHRUNK, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32), STORIES, st.booleans())
@example(1, [("many commands", 0, MICROS), ("lose much", 0, 3 * LEASE), ("be very late", 0, 3 * LEASE)], False)
def test_whatever_happens_nobody_reads_anything_older_and_all_is_well_again(
    seed: int, story: list[tuple[str, int, int]], is_quiet: bool
) -> None:
    """S3, S4, S21, S27, N05, N10 at every moment; and once the faults are over, all nodes answer with all there is."""
    world = play(seed, story)
    world.commands_every = 0 if is_quiet else world.commands_every
    make_well(world)
    world.commands_every = 0
    world.run(MICROS)
    world.check_all_is_well()
    world.check_journal()


def leader_of(world: World) -> Node:
    (leader,) = [node for node in world.alive if node.standing.phase is NodePhase.LEADING]
    return leader


def others(world: World) -> list[Node]:
    return [node for node in world.alive if node.standing.phase is not NodePhase.LEADING]


@pytest.fixture(params=range(5))
def world(request: pytest.FixtureRequest) -> World:
    """Three nodes, one of which leads, with something written."""
    world = World(request.param)
    world.commands_every = MICROS // 10
    world.run(3 * MICROS)
    assert len(world.writings) > 3
    return world


def progress(world: World, micros: int) -> int:
    """How many commands are done in some time."""
    before = world.store.look().head.shown
    world.run(micros)
    return world.store.look().head.shown - before


def test_commands_go_on_after_the_leader_is_killed(world: World) -> None:
    """Somebody else leads after a lease, and the polls at living nodes go on all the time (N04)."""
    world.kill(leader_of(world))
    for _ in range(20):
        assert all(node.may_answer() for node in world.alive)
        world.run(LEASE // 10)
    assert leader_of(world).epoch == 2
    assert progress(world, MICROS) > 3


def test_a_hand_over_takes_less_than_a_second(world: World) -> None:
    """Who handed over goes on as a member, and does not take it back at once (N07)."""
    old = leader_of(world)
    old.tell(m.HandOver())
    assert progress(world, MICROS) > 3
    assert leader_of(world) is not old
    assert all(node.may_answer() for node in world.alive)


def test_a_leader_that_leaves_hands_over_and_answers_until_its_doors_are_closed(world: World) -> None:
    old = leader_of(world)
    old.tell(m.Stop())
    assert progress(world, MICROS) > 3
    assert old.may_answer()
    old.tell(m.Closed())
    assert not old.may_answer()
    assert progress(world, MICROS) > 3
    assert {member.life for member in world.store.look().members} == {node.life for node in world.alive}


def test_a_killed_member_delays_changes_for_no_more_than_two_leases(world: World) -> None:
    world.kill(others(world)[0])
    world.run(2 * LEASE)
    assert progress(world, MICROS) > 3


def test_a_member_that_beats_but_cannot_read_is_put_out(world: World) -> None:
    """It would delay every change, so it does not beat while it cannot hide; when it can read, it joins again (N06)."""
    blind = others(world)[0]
    blind.is_blind = True
    world.run(2 * LEASE)
    assert progress(world, MICROS) > 3
    assert not blind.may_answer()
    blind.is_blind = False
    world.run(LEASE)
    assert blind.may_answer()


def test_a_leader_that_was_stopped_has_no_right_and_no_say_when_it_wakes(world: World) -> None:
    """Others lead and have shown newer documents: it answers nobody before it has beaten again (N05, S27)."""
    old = leader_of(world)
    epoch = old.epoch
    world.stop(old)
    world.run(3 * LEASE)
    assert progress(world, MICROS) > 3
    old.is_stopped = False
    assert not old.may_answer()
    with pytest.raises(Deposed):
        world.store.append(old.life, epoch or 0, [record(world.store.journal.last_position() + 1)])
    world.run(LEASE)
    assert old.may_answer()
    assert old.epoch is None


def test_a_cluster_without_its_store_answers_for_a_lease_and_then_nobody(world: World) -> None:
    """All comes back by itself (N15)."""
    for node in world.nodes:
        node.is_cut = True
    world.run(LEASE // 2)
    assert all(node.may_answer() for node in world.nodes)
    world.run(LEASE // 2)
    assert not any(node.may_answer() for node in world.nodes)
    world.run(5 * LEASE)
    world.heal()
    world.run(5 * MICROS)
    assert all(node.may_answer() for node in world.alive)
    assert progress(world, MICROS) > 3


def test_time_without_answers_is_not_notice_and_time_of_followers_is(world: World) -> None:
    """S25, N10: after a kill the time goes on with those who answer; while the store is away it stands still."""
    begin = leader_of(world).clock.now().steady
    world.kill(leader_of(world))
    world.run(4 * LEASE)
    after_kill = leader_of(world).clock.now().steady
    assert 0.9 * 4 * LEASE <= after_kill - begin <= 1.05 * 4 * LEASE
    for node in world.nodes:
        node.is_cut = True
    world.run(10 * LEASE)
    world.heal()
    world.run(2 * LEASE)
    assert leader_of(world).clock.now().steady - after_kill <= 1.05 * 3 * LEASE + 2 * MICROS
    world.check_journal()


def test_a_process_with_the_name_of_another_replaces_it(world: World) -> None:
    """N03: the old one ends, and until it is known not to answer, nothing is shown that it has not hidden."""
    old = others(world)[0]
    world.start(old)
    world.run(2 * LEASE)
    assert old.is_dead
    assert [node.name for node in world.alive].count(old.name) == 1
    assert progress(world, MICROS) > 3


def test_a_join_that_is_done_late_gives_no_right(world: World) -> None:
    """A call that its node gave up long ago may still be done, and make a member of a node that was put out.

    Then the beat tells that more is shown than it has hidden; the world checks at every moment what it shows.
    """
    node = others(world)[0]
    world.stop(node)
    folded = len(node.records)
    world.run(3 * LEASE)
    assert world.store.look().member(node.life) is None
    world.store.join(node.life, folded)
    node.is_stopped = False
    node.queue.clear()
    node.do(m.Beat())
    world.run(LEASE)
    assert node.may_answer()


def test_the_same_seed_gives_the_same_history() -> None:
    """So that what was found can be looked at again."""
    story = [("lose some", 0, LEASE), ("stop", 1, LEASE), ("wake", 0, MICROS), ("kill", 0, 3 * LEASE)]
    one, two = play(7, story), play(7, story)
    assert (one.writings, one.reads, one.read_before) == (two.writings, two.reads, two.read_before)
    assert set(one.read_before) == set(SCOPES)
