"""Waiting for the world inside a verb: look, pause, look again, and give up in words before the deadline."""

import asyncio
from collections.abc import Awaitable, Callable

from duenotice.agent.handlers.base import HandlerFailed, Occasion
from duenotice.clock import monotonic

PAUSE = 0.2


def seconds_left(occasion: Occasion) -> float:
    """How long the verb still has (H07)."""
    return max(0.0, occasion.deadline - monotonic())


async def until(occasion: Occasion, what: str, reached: Callable[[], Awaitable[bool]], pause: float = PAUSE) -> None:
    """Return when `reached`, or fail saying what was waited for while there is still time to say it."""
    while not await reached():
        if seconds_left(occasion) <= pause:
            raise HandlerFailed(f"Gave up waiting: {what}.", hint="Give the handler a longer timeout, or look there.")
        await asyncio.sleep(pause)
