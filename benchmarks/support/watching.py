"""Somebody who asks again and again, in a thread, and notes when it worked: so one sees for how long it did not."""

import threading
from collections.abc import Callable
from itertools import pairwise
from time import monotonic, sleep
from types import TracebackType
from typing import Self


class Watcher:
    """`with Watcher(ask, pause) as watcher:`; `ask` says whether it worked."""

    def __init__(self, ask: Callable[[], bool], pause: float) -> None:
        self._ask, self._pause = ask, pause
        self._worked: list[float] = []
        self._begun = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            began = monotonic()
            if self._ask():
                self._begun = began
                self._worked.append(monotonic())
            sleep(self._pause)

    def has_worked_since(self, moment: float) -> bool:
        """Whether something has worked that was asked for after that."""
        return self._begun > moment

    def longest_pause(self) -> float:
        """Seconds."""
        moments = list(self._worked)
        return max((later - earlier for earlier, later in pairwise(moments)), default=0.0)
