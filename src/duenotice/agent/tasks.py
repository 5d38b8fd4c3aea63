"""Work in the background: one task per key, growing pauses after failures, and a wake-up when a task ends."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

from duenotice.agent.logs import complain
from duenotice.backoff import Backoff
from duenotice.clock import monotonic
from duenotice.errors import DuenoticeError

Work = Callable[[], Coroutine[Any, Any, None]]
USUAL = Backoff(1.0, 60.0)


class Later(DuenoticeError):
    """Raised by a task that did not fail, but must be tried again later."""


class Tasks:
    """Tasks by key; a task that hangs delays only its own key."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._running: dict[Hashable, asyncio.Task[None]] = {}
        self._failures: dict[Hashable, int] = {}
        self._paused_until: dict[Hashable, float] = {}

    def start(self, key: Hashable, work: Work, backoff: Backoff = USUAL) -> None:
        """Begin a task, unless it is running or must pause."""
        if key not in self._running and monotonic() >= self._paused_until.get(key, 0.0):
            task = asyncio.ensure_future(work())
            self._running[key] = task
            task.add_done_callback(lambda done: self._ended(key, done, backoff))

    def cancel(self, chosen: Callable[[Any], bool]) -> None:
        """Stop tasks that are no longer wanted; each is told once, so that it can clean up undisturbed."""
        for key, task in self._running.items():
            if chosen(key) and not task.cancelling():
                task.cancel()

    def forget(self, wanted: Callable[[Any], bool]) -> None:
        """Forget failures that nobody asks about any more (S24)."""
        for key in [key for key in self._failures if not wanted(key)]:
            del self._failures[key], self._paused_until[key]

    def is_running(self, key: Hashable) -> bool:
        return key in self._running

    def hurry(self, chosen: Callable[[Any], bool]) -> None:
        """Pause no longer."""
        for key in [key for key in self._paused_until if chosen(key)]:
            self._paused_until[key] = 0.0

    async def stop(self) -> None:
        """Cancel everything and wait until it has cleaned up."""
        self.cancel(lambda key: True)
        if self._running:
            await asyncio.wait(list(self._running.values()))

    def _ended(self, key: Hashable, task: "asyncio.Task[None]", backoff: Backoff) -> None:
        del self._running[key]
        error = None if task.cancelled() else task.exception()
        if error is None:
            self._failures.pop(key, None)
            self._paused_until.pop(key, None)
        else:
            self._pause(key, error, backoff)
        self._wake()

    def _pause(self, key: Hashable, error: BaseException, backoff: Backoff) -> None:
        if not isinstance(error, Later) and isinstance(error, Exception):
            complain("step-failed", error, step=str(key))
        failures = self._failures.get(key, 0)
        pause = backoff.after(failures)
        self._failures[key] = failures + 1
        self._paused_until[key] = monotonic() + pause
        asyncio.get_running_loop().call_later(pause, self._wake)
