"""What a follower tells about polls."""

import asyncio

from duenotice.clock import MICROS, ManualClock
from duenotice.domain.state import State
from duenotice.engine.publisher import Publisher
from duenotice.follower.polls import AT_ONCE, PollsToTell


def test_each_poll_is_told_once_and_a_crowd_in_parts() -> None:
    """How long ago it was, by the follower's own clock; who has not asked since is left out."""

    async def story() -> None:
        clock = ManualClock()
        publisher = Publisher(asyncio.get_running_loop().call_soon)
        publisher.open(State(), clock.now().steady)
        to_tell = PollsToTell(publisher, clock)
        assert to_tell.take() == {}
        for number in range(AT_ONCE + 1):
            publisher.open_page(f"vm/{number}").last_poll = clock.now().steady + number + 1
        clock.advance(MICROS)
        first, second = to_tell.take(), to_tell.take()
        assert (len(first), list(second)) == (AT_ONCE, [f"vm/{AT_ONCE}"])
        assert first["vm/0"] == MICROS - 1
        assert to_tell.take() == {}
        publisher.open_page("vm/7").last_poll = clock.now().steady
        assert to_tell.take() == {"vm/7": 0}
        to_tell.every = 3600 * MICROS
        publisher.open_page("vm/8").last_poll = clock.now().steady + 1
        assert to_tell.take() == {}, "not so soon"

    asyncio.run(story())
