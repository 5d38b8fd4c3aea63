"""How stories are kept and told: each by itself, and again where somebody had to wait too long."""

from collections.abc import Callable
from typing import NamedTuple

from tests.promises.stalls.moment import Moment
from tests.promises.stalls.world import Stuck, World


class Story(NamedTuple):
    """Something that happens, and which calls of the API are measured in it."""

    name: str
    tell: Callable[[World], None]
    routes: frozenset[str]


STORIES: dict[str, Story] = {}


def story(*routes: str) -> Callable[[Callable[[World], None]], Callable[[World], None]]:
    """Put a function among the stories."""

    def put(tell: Callable[[World], None]) -> Callable[[World], None]:
        name = tell.__name__
        STORIES[name] = Story(name, tell, frozenset(routes))
        return tell

    return put


def told(world: World, name: str) -> list[Moment]:
    """The moments of a story; one in which somebody waited too long is told again, and the best of each counts."""
    tale = STORIES[name]
    world.moments, world.routes = [], set()
    for _ in range(world.tries):
        try:
            world.open()
            tale.tell(world)
        except Stuck:
            world.close()
            break
        except BaseException:
            world.close()
            raise
        assert world.routes == tale.routes, f"{name} measures {sorted(world.routes ^ tale.routes)} or says so wrongly"
        if not any(moment.doubtful for moment in world.moments):
            break
    return world.moments
