"""A follower decides nothing itself, and goes from node to node without ever showing anything older (S27)."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from duenotice.clock import SystemClock
from duenotice.domain.commands import EnableScope, Tick
from duenotice.domain.state import State
from duenotice.engine.publisher import Publisher
from duenotice.errors import InvariantBroken, Unavailable
from duenotice.follower.commands import PassedCommands
from duenotice.follower.following import Following
from duenotice.follower.line import Node, NodeLine
from duenotice.wire import replication as f
from tests.unit.follower.scripted import LEASE, Condition, ScriptedNode
from tests.unit.follower.test_line import PROBLEM, answer, node_that_says


def test_without_a_beat_there_is_no_right_and_what_vms_cannot_ask_is_not_passed_on() -> None:
    async def story() -> None:
        publisher = Publisher(asyncio.get_running_loop().call_soon)
        line = NodeLine(Node("http://127.0.0.1:1", "dn_token"))
        following = Following([line], publisher, SystemClock(), chosen=False)
        assert not following.may_answer()
        commands = PassedCommands(following)
        with pytest.raises(InvariantBroken, match="does not do Tick"):
            await commands.submit(Tick(), "test")
        commands.stop()
        await following.stop()

    asyncio.run(story())


def test_a_node_that_does_not_let_us_in_is_no_fault_of_the_vm_that_asks() -> None:
    """It may ask again: our token may be too new for that node, and another one may know it."""

    async def story() -> None:
        refusal = answer("401 Unauthorized", PROBLEM)
        with node_that_says(refusal) as line:
            publisher = Publisher(asyncio.get_running_loop().call_soon)
            commands = PassedCommands(Following([line], publisher, SystemClock(), chosen=False))
            with pytest.raises(Unavailable, match="does not let us follow it"):
                await commands.submit(EnableScope("db-0"), "vm/db-0")
            commands.stop()

    asyncio.run(story())


@asynccontextmanager
async def following(*nodes: ScriptedNode) -> AsyncIterator[tuple[Following, Publisher]]:
    """A follower of some nodes, the first one first."""
    publisher, clock = Publisher(asyncio.get_running_loop().call_soon), SystemClock()
    publisher.open(State(), clock.now().steady)
    made = Following([NodeLine(Node(node.url, "dn_token")) for node in nodes], publisher, clock, chosen=False)
    made.start()
    try:
        await made.troubles.first
        yield made, publisher
    finally:
        await made.stop()


async def until(condition: Condition) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 (it is about what another thread does)
            await asyncio.sleep(0.005)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_a_node_that_lags_and_has_no_right_is_not_shown_while_the_right_of_the_last_one_lasts() -> None:
    """Nor after that; its state and its right come together, and until then the VMs see what they saw."""

    async def story() -> None:
        with ScriptedNode("a", 5) as first, ScriptedNode("b", 3, right=0) as second:
            async with following(first, second) as (follower, publisher):
                assert (publisher.state.position, follower.may_answer()) == (5, True)
                first.die()
                await until(lambda: second.beats > 1)
                assert (publisher.state.position, follower.may_answer()) == (5, True), "by the right of the first"
                follower.right_until = 0  # its time is up
                beats = second.beats
                follower._beat_now.set()
                await until(lambda: second.beats > beats)
                assert (publisher.state.position, follower.may_answer()) == (5, False)
                second.says.put(f.Skipped(7))
                second.right = LEASE
                await until(lambda: follower._hidden == 7)
                assert (publisher.state.position, follower.may_answer()) == (5, False), "7 may not be shown yet"
                second.says.put(f.Visible(7))
                await until(follower.may_answer)
                assert follower.shown == 7

    run(story())


def test_a_node_that_says_good_bye_is_left_when_another_one_lets_us_answer() -> None:
    """VMs are answered all the time; the node hears that it need not wait for us any more (N07)."""

    async def story() -> None:
        with ScriptedNode("a", 5) as first, ScriptedNode("b", 5) as second:
            async with following(first, second) as (follower, _):
                first.says.put(f.Goodbye())
                await until(second.joined.is_set)
                await until(first.left.is_set)
                assert follower.may_answer()
                assert follower.wellbeing().node == second.url

    run(story())


def test_the_only_node_that_says_good_bye_is_left_at_once() -> None:
    async def story() -> None:
        with ScriptedNode("a", 5) as only:
            async with following(only) as (follower, _):
                only.right = 0
                only.says.put(f.Goodbye())
                await until(only.left.is_set)
                assert not follower.may_answer()

    run(story())


def test_back_at_a_node_whose_right_it_still_has_it_answers_nobody_until_it_has_a_new_one() -> None:
    """That node takes what it says now for what VMs see, so the old right must not count any more."""

    async def story() -> None:
        with ScriptedNode("a", 5) as only:
            async with following(only) as (follower, _):
                only.right = 0
                follower._replica = None
                only.says.put(None)
                await until(lambda: follower._replica is not None)
                assert not follower.may_answer()
                only.right = LEASE
                await until(follower.may_answer)

    run(story())


def test_it_beats_twelve_times_in_a_lease() -> None:
    """Who was silent for an eighth of a lease may be dead: a change that has waited is not held then (N19)."""
    lease, ours = 3_600_000, 0.3

    async def story() -> None:
        with ScriptedNode("a", 5, lease=lease) as node:
            async with following(node):
                await until(lambda: node.beats > 16)
        later = node.beaten_at[2:-1]  # the first ones come with the join, the last one leaves
        assert min((after - before) / 4 for before, after in zip(later, later[4:], strict=False)) < ours * 5 / 4

    run(story())


def test_a_start_at_a_node_without_the_right_says_so_and_does_not_wait_for_ever() -> None:
    async def story() -> None:
        with ScriptedNode("a", 5, right=0) as only, pytest.raises(Unavailable, match="may not answer VMs itself"):
            async with asyncio.timeout(10), following(only):
                pass

    run(story())
