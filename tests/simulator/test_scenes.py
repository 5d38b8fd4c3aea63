"""Scripted situations: with our sources as they are, none of them breaks a promise."""

import pytest

from simulator.scenes import SCENES
from simulator.stage import Scene, Stage, play
from simulator.tiers import ENOUGH


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


def test_every_scene_is_played_when_bugs_are_planted() -> None:
    """The tier knows how many there are without loading them."""
    assert ENOUGH["scenes"] == len(SCENES)
