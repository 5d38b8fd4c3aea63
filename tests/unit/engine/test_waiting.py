"""Who asks is told the result, once."""

import asyncio

import pytest

from duenotice.domain.apply import Touched
from duenotice.domain.commands import ApplyFleet, Command, DisableScopes, Tick
from duenotice.domain.fleet import Declaration
from duenotice.domain.records import Record, ScopeEnabled
from duenotice.domain.state import State
from duenotice.engine.waiting import FEW, SpentCommands, WaitingCommand
from duenotice.engine.writer import Ask, News, Records
from duenotice.errors import DuenoticeError, Unavailable
from tests.unit.domain.build import NOW
from tests.unit.engine.rig import in_loop

TICK = Tick()


def waiting(command: Command = TICK) -> WaitingCommand:
    return WaitingCommand(Ask(command, "test"), asyncio.get_running_loop().create_future())


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


LARGE = ApplyFleet(Declaration("a fleet"))


@in_loop
async def test_large_commands_that_are_done_are_let_go_together_a_moment_later_and_small_ones_at_once() -> None:
    freed: list[list[object]] = []
    spent, first, second, small = SpentCommands(freed.append), waiting(LARGE), waiting(LARGE), waiting()
    batches = [[first], [small, second], [waiting()]]
    for batch in batches:
        spent.add(batch)
    assert (batches, freed) == ([[], [], []], [])
    while not freed:  # noqa: ASYNC110 - a timer of the loop
        await asyncio.sleep(0)
    assert freed == [[LARGE, (), LARGE, ()]]


@in_loop
async def test_news_that_name_very_many_are_let_go_a_moment_later_and_others_at_once() -> None:
    freed: list[list[object]] = []
    spent = SpentCommands(freed.append)
    many = {f"vm/{number}" for number in range(FEW + 1)}
    large, small = Touched(many, set(), set()), Touched(set(), {"vm"}, {"10.0.0.1"})
    for touched in (small, large):
        spent.keep(News(State(), (), touched, None))
    while not freed:  # noqa: ASYNC110 - a timer of the loop
        await asyncio.sleep(0)
    assert freed == [[large]]


@in_loop
async def test_a_command_is_large_if_it_names_very_many_or_has_done_very_much() -> None:
    many = tuple(f"vm/{number}" for number in range(FEW + 1))
    record = Record(1, NOW.at, "test", ScopeEnabled("vm/1"))
    assert [waiting(each).is_large for each in (Tick(), LARGE, DisableScopes(many), DisableScopes(many[:FEW]))] == [
        False,
        True,
        True,
        False,
    ]
    outcomes: list[Records | DuenoticeError] = [(record,) * FEW, (record,) * (FEW + 1), Unavailable("away")]
    told = [waiting() for _ in outcomes]
    for one, outcome in zip(told, outcomes, strict=True):
        one.end(outcome)
    assert [one.is_large for one in told] == [False, True, False]
    given_up = waiting()
    given_up.answer.cancel()
    assert not given_up.is_large
