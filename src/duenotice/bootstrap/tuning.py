"""Interpreter settings for a process that only serves: garbage collection when nobody waits, and short thread turns."""

import asyncio
import gc
import sys
from typing import Protocol

_SWITCH_SECONDS = 0.001
"""How long a busy thread may keep the loop waiting."""

_YOUNG, _MIDDLE = 10_000, 5
"""Thresholds of the garbage collector: a collection of young objects takes milliseconds."""

_NEVER = 1_000_000_000
_EVERY_SECONDS = 60.0
_MOST_PUT_OFF = 30


class Busy(Protocol):
    """What is under way in a process."""

    @property
    def is_busy(self) -> bool:
        """Whether something is that may have made very many things."""


class Tuning:
    """The collector walks everything while all threads stand still: with millions of objects in an answer under way
    that takes seconds. So it runs by itself only for young objects, and for old ones when no long query is running
    (S26).
    """

    def __init__(self, engine: Busy) -> None:
        self._engine = engine
        self._put_off = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """What is loaded by now lives as long as the process does: the collector need never walk it."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.collect()
        gc.freeze()
        gc.set_threshold(_YOUNG, _MIDDLE, _NEVER)
        self._again()

    def stop(self) -> None:
        """Do not collect the old ones."""
        if self._timer is not None:
            self._timer.cancel()

    def _again(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_EVERY_SECONDS, self._collect)

    def _collect(self) -> None:
        self._put_off = self._put_off + 1 if self._engine.is_busy else 0
        if self._put_off in (0, _MOST_PUT_OFF):
            self._put_off = 0
            gc.collect()
        self._again()
