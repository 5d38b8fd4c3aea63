"""The network of the simulator: its clients leave no connections behind that no real client would leave."""

import asyncio

from simulator.stage import ALONE, Scene, Stage, play


def connections(stage: Stage) -> int:
    """How many the node has open."""
    assert stage.node.service is not None
    return stage.node.service.metadata.connections


def test_a_node_that_stood_still_has_no_connections_of_requests_that_were_given_up_meanwhile() -> None:
    """Nobody will use them again, and a real client has closed them (S24)."""
    counts: list[int] = []

    async def stands_still(stage: Stage) -> None:
        await stage.listen(ALONE)
        stage.pause(stage.node, 160.0)
        for _ in range(30):
            assert await stage.poll(ALONE) == (0, {})
        await stage.pass_by(20.0)
        counts.append(connections(stage))
        assert (await stage.poll(ALONE))[0] == 200
        counts.append(connections(stage))

    assert play(1, Scene(stands_still))[0] == ()
    assert counts == [0, 1]


def test_a_node_that_cannot_hear_that_a_client_has_left_closes_its_connection_when_it_was_idle_for_too_long() -> None:
    counts: list[int] = []

    async def cut_off(stage: Stage) -> None:
        await stage.listen(ALONE)
        stage.pause(stage.node, 10.0)
        given_up = asyncio.ensure_future(stage.poll(ALONE))
        await stage.pass_by(1.0)
        stage.network.cut.add((ALONE, "a"))
        assert await given_up == (0, {})
        for seconds in (20.0, 130.0):
            await stage.pass_by(seconds)
            counts.append(connections(stage))

    assert play(1, Scene(cut_off))[0] == ()
    assert counts == [1, 0]


def test_a_client_that_waited_for_three_answers_at_once_keeps_one_connection() -> None:
    counts: list[int] = []

    async def asks(stage: Stage) -> None:
        await stage.listen(ALONE)
        stage.pause(stage.node, 2.0)
        answers = await asyncio.gather(*(stage.poll(ALONE) for _ in range(3)))
        await stage.pass_by(1.0)
        assert {status for status, _ in answers} == {200}
        counts.append(connections(stage))

    assert play(1, Scene(asks))[0] == ()
    assert counts == [1]


def test_a_client_that_has_closed_a_connection_asks_on_a_new_one_also_if_the_node_has_not_heard_of_it() -> None:
    answers: list[int] = []

    async def asks_again(stage: Stage) -> None:
        await stage.listen(ALONE)
        stage.network.chances["answer-lost"] = 1.0
        given_up = asyncio.ensure_future(stage.poll(ALONE))
        await stage.pass_by(1.0)
        stage.network.chances["answer-lost"] = 0.0
        stage.pause(stage.node, 7.0)
        answers.append((await given_up)[0])
        answers.append((await stage.poll(ALONE))[0])
        assert connections(stage) == 1

    assert play(1, Scene(asks_again))[0] == ()
    assert answers == [0, 200]
