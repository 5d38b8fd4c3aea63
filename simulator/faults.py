"""All that can be done to a world, as one table: what goes wrong, and what people do; each has a name and is counted.

A world is a list of timed actions that is drawn from its seed first. An action is a name of this table and a moment;
what else it needs it draws from dice of its own, so actions can be left out and the others stay as they are.
"""

from collections import Counter
from collections.abc import Callable, Collection
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from simulator.world import World
else:
    World = Any

Do = Callable[[World, Random], bool | None]
"""Does it; False: it did not apply to this world at this moment, and does not count."""


class Kind(NamedTuple):
    """A row of the table; `weight` is how often it is drawn, `needs` which worlds have it."""

    name: str
    says: str
    do: Do
    is_fault: bool
    weight: float
    needs: frozenset[str]


TABLE: dict[str, Kind] = {}


def fault(name: str, says: str, weight: float = 1.0, needs: Collection[str] = ()) -> Callable[[Do], Do]:
    """Add something that goes wrong; `needs`: "lone", "cluster", "agents" or "drivers", what the world must have."""
    return _row(name, says, True, weight, needs)


def act(name: str, says: str, weight: float = 1.0, needs: Collection[str] = ()) -> Callable[[Do], Do]:
    """Add something that somebody does, and that is nobody's fault."""
    return _row(name, says, False, weight, needs)


def _row(name: str, says: str, is_fault: bool, weight: float, needs: Collection[str]) -> Callable[[Do], Do]:
    def add(do: Do) -> Do:
        assert name not in TABLE, f"{name} is in the table already"
        TABLE[name] = Kind(name, says, do, is_fault, weight, frozenset(needs))
        return do

    return add


class Action(NamedTuple):
    """What is done when; its number stays the same when other actions are left out."""

    number: int
    at: float
    kind: str


class Faults:
    """How often each fault has come true; one that is off never does."""

    def __init__(self, without: Collection[str] = ()) -> None:
        self.without = frozenset(without)
        self.counts: Counter[str] = Counter()

    def is_on(self, name: str) -> bool:
        """Whether it may happen at all."""
        return name not in self.without

    def happens(self, name: str, chance: float, dice: Random) -> bool:
        """Whether it happens now; if so, it is counted. Nothing is drawn while it cannot happen."""
        if chance <= 0.0 or name in self.without or dice.random() >= chance:
            return False
        self.counts[name] += 1
        return True

    def count(self, name: str) -> None:
        """It has come true once more."""
        self.counts[name] += 1


def drawn(
    dice: Random, seconds: float, count: int, has: Collection[str], without: Collection[str] = ()
) -> list[Action]:
    """The actions of a world, in order of time."""
    kinds = [kind for kind in TABLE.values() if kind.needs <= set(has)]
    kinds.sort(key=lambda kind: kind.name)
    weights = [kind.weight for kind in kinds]
    moments = sorted(dice.uniform(1.0, seconds) for _ in range(count))
    names = [dice.choices(kinds, weights)[0].name for _ in moments]
    actions = [Action(number, at, name) for number, (at, name) in enumerate(zip(moments, names, strict=True))]
    return [action for action in actions if action.kind not in without]
