"""Ends the process when its loop stands still (S26): nobody is answered then, and only a restart can help.

A thread asks the loop for a sign of life and counts its own short ticks while none comes. Time in which the thread
itself does not run is not counted, so a process that was stopped and continued, or a machine that slept, is not ended.
Only for processes that do nothing but serve; never for a node inside another program.
"""

import asyncio
import faulthandler
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import structlog

from duenotice.bootstrap.logs import drain

EXIT_CODE = 70
"""EX_SOFTWARE; systemd's `Restart=on-failure` and every supervisor start us again."""

LONGEST_TICK = 0.25
TICKS = 20
LAST_SECONDS = 2.0
"""How long the last message may take: perhaps nobody reads it."""

HINT = "The stack on standard error says where it stood still; please report it. Start the service again."


@contextmanager
def watching(loop: asyncio.AbstractEventLoop, seconds: float) -> Iterator[None]:
    """Watch over a loop; with 0 seconds there is no watch."""
    if not seconds:
        yield
        return
    watchdog = Watchdog(loop, seconds, end)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()


class Watchdog(threading.Thread):
    """Calls `bark` when a loop gives no sign of life for this many seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, bark: Callable[[float], None]) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._loop, self._seconds, self._bark = loop, seconds, bark
        self._tick = min(LONGEST_TICK, seconds / TICKS)
        self._over, self._alive = threading.Event(), threading.Event()

    def stop(self) -> None:
        """Stop watching."""
        self._over.set()
        self.join()

    def run(self) -> None:
        stood = 0
        self._alive.set()
        while not self._over.wait(self._tick):
            if self._alive.is_set():
                stood = 0
                self._alive.clear()
                with suppress(RuntimeError):  # it is closed, and somebody is about to stop us
                    self._loop.call_soon_threadsafe(self._alive.set)
            else:
                stood += 1
            if stood * self._tick >= self._seconds:
                self._bark(self._seconds)
                return


def end(seconds: float) -> None:
    """Write where every thread is, and end, even if nobody reads what is written."""
    try:
        last_words = threading.Thread(target=_say, args=(seconds, _stacks()), daemon=True)
        last_words.start()
        last_words.join(LAST_SECONDS)
    finally:
        os._exit(EXIT_CODE)


def _stacks() -> str:
    """Through a file: a full pipe would stop us here, and the whole interpreter too."""
    with os.fdopen(os.memfd_create("stacks"), "w+b") if sys.platform == "linux" else tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read().decode(errors="replace")


def _say(seconds: float, stacks: str) -> None:
    log = structlog.get_logger()
    log.critical("the loop stands still", action="watchdog", seconds=seconds, exit_code=EXIT_CODE, hint=HINT)
    drain()
    sys.stderr.write(stacks)
    sys.stderr.flush()
