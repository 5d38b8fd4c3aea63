"""A follower decides nothing itself."""

import asyncio

import pytest

from duenotice.clock import SystemClock
from duenotice.domain.commands import Tick
from duenotice.engine.publisher import Publisher
from duenotice.errors import InvariantBroken
from duenotice.follower.commands import PassedCommands
from duenotice.follower.following import Following
from duenotice.follower.line import Node, NodeLine


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
