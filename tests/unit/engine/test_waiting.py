"""Who asks is told the result, once."""

import asyncio

import pytest

from duenotice.domain.commands import Tick
from duenotice.engine.waiting import SpentCommands, WaitingCommand
from duenotice.engine.writer import Ask
from duenotice.errors import Unavailable
from tests.unit.engine.rig import in_loop


def waiting() -> WaitingCommand:
    return WaitingCommand(Ask(Tick(), "test"), asyncio.get_running_loop().create_future())


@in_loop
async def test_the_first_outcome_counts() -> None:
    done, failed = waiting(), waiting()
    for one, outcomes in ((done, ((), Unavailable("away"))), (failed, (Unavailable("away"), ()))):
        for outcome in outcomes:
            one.end(outcome)
    assert await done.answer == ()
    with pytest.raises(Unavailable, match="away"):
        await failed.answer


@in_loop
async def test_who_has_given_up_is_not_told() -> None:
    given_up = waiting()
    given_up.answer.cancel()
    given_up.end(())
    assert given_up.answer.cancelled()


@in_loop
async def test_commands_that_are_done_are_let_go_together_a_moment_later() -> None:
    freed: list[list[WaitingCommand]] = []
    spent, first, second = SpentCommands(freed.append), waiting(), waiting()
    batches = [[first], [second]]
    for batch in batches:
        spent.add(batch)
    assert (batches, freed) == ([[], []], [])
    while not freed:  # noqa: ASYNC110 - a timer of the loop
        await asyncio.sleep(0)
    assert freed == [[first, second]]
