"""A thread with a loop of its own, for work that must not keep VMs waiting (S26): large pages, many deliveries."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Workroom:
    """Opened by the first work, closed for good by `close`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of some work, done in that thread."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._open()))

    def close(self) -> None:
        """End the thread; unfinished work is dropped."""
        if self._loop is not None and self._thread is not None:
            asyncio.run_coroutine_threadsafe(_drop_all(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = None

    def _open(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
            self._thread.start()
        return self._loop


async def _drop_all() -> None:
    """Cancelled, not forgotten: work that has not begun yet must not be reported as lost."""
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
