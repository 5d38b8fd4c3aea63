"""`readiness`: makes the agent's own `/readyz` say no, and waits so that load balancers notice.

Each drain has a reason, and the machine is ready again when no reason is left. The ledger has what was drained, so that
an agent that starts again answers as before.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from duenotice.agent.handlers.base import Handler, HandlerContext, SpanSeconds, seconds_left
from duenotice.agent.state import Events


class ReadinessState:
    """`drain(reason)` and `ready(reason)`; calling one again does no harm."""

    def __init__(self) -> None:
        self._reasons: set[str] = set()

    def drain(self, reason: str) -> None:
        """Take no more traffic, for this reason."""
        self._reasons.add(reason)

    def ready(self, reason: str) -> None:
        """This reason is over."""
        self._reasons.discard(reason)

    def go_on(self, events: Events, handlers: Mapping[str, Handler[Any]]) -> None:
        """Be as it was when the last agent ended: what a `readiness` handler has drained, and nobody has put back."""
        self._reasons = {
            _reason(name, event_id)
            for event_id, event in events.items()
            for name, run in event.runs.items()
            if run.state != "recovered" and run.notes.get(_NOTE) is True
            if name not in handlers or isinstance(handlers[name], Readiness)
        }

    @property
    def is_drained(self) -> bool:
        return bool(self._reasons)

    @property
    def reasons(self) -> list[str]:
        return sorted(self._reasons)


_NOTE = "drained"
READINESS = ReadinessState()
"""The switch of this process: a machine has only one."""


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """`settle` is how long load balancers take to notice: their interval times their failures, and some more."""

    settle: SpanSeconds = SpanSeconds(10)


class Readiness(Handler[Options]):
    """Each event is a reason of its own: of two at once, the first one to end does not make the machine ready."""

    options = Options

    async def prepare(self, context: HandlerContext) -> None:
        await context.note(_NOTE, True)
        READINESS.drain(_reason(self.name, context.event.event_id))
        await asyncio.sleep(min(self._options.settle, seconds_left(context)))

    async def recover(self, context: HandlerContext) -> None:
        if context.notes.get(_NOTE):
            READINESS.ready(_reason(self.name, context.event.event_id))


def _reason(handler: str, event_id: str) -> str:
    return f"{handler} {event_id}"
