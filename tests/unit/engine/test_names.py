"""Names in order, whatever comes and goes."""

import random

import pytest

from duenotice.engine.names import FEW, Names


def test_the_next_few_behind_a_name() -> None:
    """A name need not be there to go on from it."""
    names = Names({"b": 1, "a": 1, "d": 1})
    assert names.after("", 2) == ["a", "b"]
    assert names.after("b", 5) == ["d"]
    assert names.after("c", 5) == ["d"]
    assert names.after("d", 5) == []


@pytest.mark.parametrize("changes", [1, 7, FEW, FEW + 1, 5 * FEW])
def test_they_stay_in_order_whatever_comes_and_goes(changes: int) -> None:
    """Few changes are put in their place, many are sorted again: the same either way."""
    chance = random.Random(changes)
    fleet = {f"vm-{chance.randrange(1000)}": 1 for _ in range(300)}
    names = Names(fleet)
    for _ in range(5):
        assert names.after("", 2000) == sorted(fleet)
        for _ in range(changes):
            name = f"vm-{chance.randrange(1000)}"
            if fleet.pop(name, None) is None:
                fleet[name] = 1
            names.touch(name)
    assert names.after("", 2000) == sorted(fleet)
