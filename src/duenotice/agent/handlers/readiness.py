"""`readiness`: makes the agent's own `/readyz` say no, and waits so that load balancers notice."""

import asyncio

from msgspec import Struct

from duenotice.agent.handlers.base import Handler, Occasion
from duenotice.agent.handlers.options import Span
from duenotice.agent.handlers.waiting import seconds_left
from duenotice.agent.readiness import SWITCH


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """`settle` is how long load balancers take to notice: their interval times their failures, and some more."""

    settle: Span = Span(10)


class Readiness(Handler[Options]):
    """Each event is a reason of its own: of two at once, the first one to end does not make the machine ready."""

    options = Options

    async def prepare(self, occasion: Occasion) -> None:
        await occasion.note("drained", True)
        SWITCH.drain(self._reason(occasion))
        await asyncio.sleep(min(self._options.settle, seconds_left(occasion)))

    async def recover(self, occasion: Occasion) -> None:
        if occasion.notes.get("drained"):
            SWITCH.ready(self._reason(occasion))

    def _reason(self, occasion: Occasion) -> str:
        return f"{self.name} {occasion.event.event_id}"
