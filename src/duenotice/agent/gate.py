"""The look at a machine's health before a handler gives it back its work: `healthy` of `[handlers.NAME]`.

A load balancer that gets the machine back while its service still starts sends it requests that fail.
"""

from typing import Any

from duenotice.agent.handlers.base import Handler, HandlerFailed, Occasion
from duenotice.agent.handlers.deadline import seconds_left
from duenotice.agent.handlers.hook import run_hook
from duenotice.agent.handlers.options import Argv
from duenotice.errors import DuenoticeError
from duenotice.http.fetch import fetch

SECONDS = 10.0
LONGEST = 64 * 1024


class Gate(Handler[Any]):
    """The look as `agent check` sees it: its program is checked as those of handlers are (S33)."""

    def __init__(self, healthy: Argv | str) -> None:
        self._healthy = healthy

    def programs(self) -> list[Argv]:
        return [] if isinstance(self._healthy, str) or not self._healthy else [self._healthy]


async def require_healthy(healthy: Argv | str, occasion: Occasion) -> None:
    """Return when the machine is healthy: the command exits with 0, or the address answers with a 2xx."""
    hint = "It is asked again. duenotice agent skip goes on without this handler."
    try:
        if isinstance(healthy, str):
            timeout = min(SECONDS, seconds_left(occasion))
            answer = await fetch(healthy, timeout=timeout, longest=LONGEST, cut=True)
            if not 200 <= answer.status < 300:
                raise HandlerFailed(f"its address answers {answer.status}.")  # which may hold a secret
        else:
            await run_hook(healthy, "healthy", occasion)
    except DuenoticeError as error:
        raise HandlerFailed(f"This machine is not healthy yet: {error.message}", hint=hint) from None
