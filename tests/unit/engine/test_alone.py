"""An engine alone leads, may answer, and has nobody to hand over to."""

import asyncio

from duenotice.clock import ManualClock
from duenotice.engine.alone import Alone
from duenotice.engine.publisher import Publisher


def test_a_node_alone_always_leads_and_answers() -> None:
    """Also after it was asked to hand over: there is nobody else."""

    async def story() -> None:
        alone = Alone(ManualClock(), Publisher(asyncio.get_running_loop().call_soon))
        alone.hand_over()
        assert (alone.leads, alone.may_answer(), alone.keep_time()) == (True, True, 0)

    asyncio.run(story())
