"""Waiting inside a verb: look, pause, look again, and give up with a clear error before the deadline."""

import asyncio
from collections.abc import Awaitable, Callable

from duenotice.agent.handlers.base import HandlerFailed, Occasion
from duenotice.clock import monotonic

PAUSE = 0.2


def seconds_left(occasion: Occasion) -> float:
    """How long the verb still has (H07)."""
    return max(0.0, occasion.deadline - monotonic())


async def until(
    occasion: Occasion,
    what: str | Callable[[], str],
    reached: Callable[[], Awaitable[bool]],
    pause: float = PAUSE,
) -> None:
    """Return when `reached`, or fail shortly before the deadline with an error that says what was waited for."""
    while not await reached():
        if seconds_left(occasion) <= pause:
            raise HandlerFailed(
                f"Gave up waiting for {what if isinstance(what, str) else what()}.",
                hint="Give the handler a longer timeout, or find out why it takes so long.",
            )
        await asyncio.sleep(pause)
