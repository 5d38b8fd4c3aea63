"""Scripted situations: with our sources as they are, none of them breaks a promise."""

import asyncio

import pytest

from simulator.clients import poll
from simulator.scenes import SCENES, main
from simulator.stage import ALONE, Scene, Stage, play
from simulator.store import STORE
from simulator.tiers import ENOUGH, scenes


@pytest.mark.parametrize("name", SCENES)
def test_nothing_is_broken_in_it(name: str) -> None:
    """All checkers look on, and the scene itself expects something."""
    assert play(1, SCENES[name])[0] == ()


def test_what_a_scene_expects_and_does_not_get_is_a_broken_promise() -> None:
    """Else a scene could see nothing."""

    async def wrong(stage: Stage) -> None:
        stage.expect(False, "S0: expected")

    broken, _ = play(1, Scene(wrong))
    assert "S0: expected" in broken[0]


def test_a_follower_may_turn_to_a_node_that_does_not_know_yet_what_the_store_has_lost() -> None:
    """What VMs read there was stored and shown before: nothing is broken by it, as long as no incarnation goes back."""
    words: list[str] = []
    answers: list[bytes] = []

    async def turns(stage: Stage) -> None:
        follower = stage.followers["u"]
        follower.begin()
        await stage.listen()
        await stage.schedule("alone")
        await asyncio.sleep(5)
        stage.network.cut |= {(name, STORE) for name in stage.names}
        stage.fail_over(0.1, stage.store.copies[-1])
        await asyncio.sleep(1)
        stage.kill(stage.nodes["a"], 200)
        await asyncio.sleep(2)
        assert follower.service is not None
        words.append(follower.service.following._let_by)
        answers.append(await stage.network.request(ALONE, "u", poll()))
        stage.network.cut.clear()

    assert play(1, Scene(turns, nodes=2, followers=1))[0] == ()
    assert words == ["b-1"]
    assert b'"EventStatus":"Scheduled"' in answers[0]


def test_every_scene_is_played_when_bugs_are_planted() -> None:
    """The tier knows how many there are without loading them."""
    assert ENOUGH["scenes"] == len(SCENES)


def test_the_command_that_a_round_names_plays_the_same_scene(capsys: pytest.CaptureFixture[str]) -> None:
    """With all that happens in it."""
    seed = len(SCENES) + 1
    assert main(scenes(seed).replay.split()[3:]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(next(iter(SCENES)))
