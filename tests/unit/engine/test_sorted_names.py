"""Names in order, whatever comes and goes."""

import random

import pytest

from duenotice.engine.publisher import FEW, SortedNames
from duenotice.escape import natural
from tests.unit.engine.rig import in_loop


@pytest.mark.parametrize("changes", [1, 7, FEW, FEW + 1, 5 * FEW])
@in_loop
async def test_they_stay_in_order_whatever_comes_and_goes(changes: int) -> None:
    """Few changes are put in their place, many are sorted again: the same either way."""
    chance = random.Random(changes)
    fleet = {f"vm-{chance.randrange(1000)}": 1 for _ in range(300)}
    names = SortedNames(lambda: fleet)
    for _ in range(5):
        assert await names.put_in_order() == sorted(fleet)
        touched = {f"vm-{chance.randrange(1000)}" for _ in range(changes)}
        for name in touched:
            if fleet.pop(name, None) is None:
                fleet[name] = 1
        names.touch(touched)
    assert await names.put_in_order() == sorted(fleet)


@in_loop
async def test_another_key_gives_another_order() -> None:
    """`vm-9` before `vm-10`, also when it comes later; names with the same number are told apart."""
    fleet = {"vm-10": 1, "vm-1": 1, "vm-01": 1}
    names = SortedNames(lambda: fleet, lambda name: (natural(name), name))
    assert await names.put_in_order() == ["vm-01", "vm-1", "vm-10"]
    fleet["vm-9"] = 1
    del fleet["vm-1"]
    names.touch({"vm-9", "vm-1"})
    assert await names.put_in_order() == ["vm-01", "vm-9", "vm-10"]


@in_loop
async def test_a_list_that_was_handed_out_is_never_changed() -> None:
    fleet = {"a": 1}
    names = SortedNames(lambda: fleet)
    before = await names.put_in_order()
    fleet["b"] = 1
    names.touch({"b"})
    assert (before, await names.put_in_order()) == (["a"], ["a", "b"])
