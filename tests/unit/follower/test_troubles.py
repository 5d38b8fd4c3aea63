"""What a follower says about nodes that it cannot follow."""

import asyncio

from structlog.testing import capture_logs

from duenotice.errors import Misconfigured, Unavailable
from duenotice.follower.troubles import Troubles

AWAY, NOT_LET_IN = Unavailable("a is away."), Misconfigured("b does not let us in.")


def test_each_reason_is_logged_once_until_a_node_works_again() -> None:
    async def story() -> list[str]:
        troubles = Troubles()
        with capture_logs() as lines:
            for _ in range(3):
                troubles.came("a", AWAY, is_last=False)
                troubles.came("b", NOT_LET_IN, is_last=False)
            assert str(troubles) == "a is away. b does not let us in."
            troubles.are_over("b")
            troubles.are_over("b")
            assert str(troubles) == ""
            troubles.came("a", AWAY, is_last=False)
        return [line["action"] for line in lines]

    assert asyncio.run(story()) == ["follow-failed", "follow-failed", "follow-again", "follow-failed"]


def test_a_start_waits_for_a_node_that_is_away_while_there_are_others_to_try() -> None:
    """It ends with what only a person can put right, or when all were tried."""

    async def story(error: Exception, is_last: bool) -> bool:
        troubles = Troubles()
        troubles.came("a", error, is_last)
        troubles.are_over("b")
        try:
            await troubles.first
        except (Unavailable, Misconfigured):
            return False
        return True

    assert asyncio.run(story(AWAY, is_last=False))
    assert not asyncio.run(story(AWAY, is_last=True))
    assert not asyncio.run(story(NOT_LET_IN, is_last=False))
