"""What tests of impacts need: started events, commands that leave traces, and patience for a condition."""

import asyncio
import functools
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from duenotice.domain.event import Cause, Event, EventType, Phase
from duenotice.impact.command import CommandDriver
from tests.unit.domain.build import NOW, id_of

SECONDS = 30


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in a loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), SECONDS))

    return run


def started(number: int = 1, **changes: Any) -> Event:
    """An event whose impact is to be brought about."""
    event = Event(id_of(number), EventType.REBOOT, Cause.MAINTENANCE, "vm/a", ("a",), NOW.at, NOW.steady)
    return event.with_(phase=Phase.STARTED, started_at=NOW.at, **changes)


def driver(tmp_path: Path, *command: str, timeout: float = SECONDS, **more: Any) -> CommandDriver:
    """A driver of a command just after its start, with the notes that earlier ones left of event 1."""
    made = CommandDriver(command, tmp_path / "impact", timeout, **more)
    made.sweep({id_of(1): started()})
    return made


def python(code: str) -> tuple[str, ...]:
    """A command that runs some code."""
    return (sys.executable, "-I", "-S", "-c", code)


async def until(condition: Callable[[], object]) -> None:
    """Wait for something outside this process."""
    while not condition():  # noqa: ASYNC110 (files and processes of others wake nobody)
        await asyncio.sleep(0.005)
