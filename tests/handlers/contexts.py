"""Occasions for handlers: a real event, a deadline, and notes that can kill the handler where a crash would."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from duenotice.agent.handlers.base import HandlerContext
from duenotice.agent.handlers.loading import load
from duenotice.clock import monotonic
from duenotice.wire.seen_documents import SeenEvent

SECONDS = 15.0
EVENT = SeenEvent(
    event_id="0B6B4C2E-1C0A-4C5E-9E55-000000000001",
    status="Scheduled",
    type="Reboot",
    resources=("web-0", "web-1"),
    not_before=datetime(2026, 11, 15, 12, 0, tzinfo=UTC),
    description="Virtual machine is going to be restarted as requested by authorized user.",
    source="User",
    duration=600,
)


NOTES = dict[str, Any]


class Killed(BaseException):
    """Stands for kill -9: no handler can catch it as an error of its own."""


def context(
    notes: dict[str, Any], *, event: SeenEvent = EVENT, seconds: float = SECONDS, drill: bool = False, again: int = 0
) -> HandlerContext:
    """A context whose notes are kept in that dictionary."""

    async def note(key: str, value: Any) -> None:
        notes[key] = value

    return HandlerContext(event, "web-0", monotonic() + seconds, notes, note, drill, again=again)


def killed_at(notes: dict[str, Any], count: int, *, written: bool) -> HandlerContext:
    """A context that dies at that note, just before or just after it is durable."""
    left = count

    async def note(key: str, value: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0 and not written:
            raise Killed
        notes[key] = value
        if left == 0:
            raise Killed

    return HandlerContext(EVENT, "web-0", monotonic() + SECONDS, notes, note)


def prepare(kind: str, notes: dict[str, Any], **keys: Any) -> None:
    """Load a handler as a configuration does, and prepare."""
    asyncio.run(load("it", kind, keys).prepare(context(notes)))


def recover(kind: str, notes: dict[str, Any], **keys: Any) -> None:
    """Load it afresh, as after a restart of the agent, and recover."""
    asyncio.run(load("it", kind, keys).recover(context(notes)))


def undone(kind: str, notes: dict[str, Any], **keys: Any) -> str:
    """Load it afresh, and ask what of its work was undone."""
    said: str = asyncio.run(cast(Any, load("it", kind, keys)).undone(context(notes)))
    return said


async def prepare_killed(kind: str, notes: dict[str, Any], count: int, written: bool, **keys: Any) -> bool:
    """Prepare and die at a note; False when it never came so far."""
    try:
        await load("it", kind, keys).prepare(killed_at(notes, count, written=written))
    except Killed:
        return True
    return False


async def cancelled_when(verb: Awaitable[None], reached: Callable[[], bool]) -> None:
    """Cancel a verb as the agent does at the deadline, once something has come about."""
    task = asyncio.ensure_future(verb)
    while not reached():
        assert not task.done(), "it ended before it could be cancelled"
        await asyncio.sleep(0.01)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return
    raise AssertionError("it swallowed the cancel")


def wait_until(reached: Callable[[], Any], seconds: float = 4 * SECONDS) -> None:
    """Wait for something that another process is about to do."""
    deadline = monotonic() + seconds
    while not reached():
        assert monotonic() < deadline, "it never came about"
        time.sleep(0.02)


def script(path: Path, text: str) -> str:
    """An executable file that may be run as a hook."""
    path.write_text(text)
    path.chmod(0o755)
    return str(path)
