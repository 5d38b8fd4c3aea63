"""A command that waits for its turn, and the one who asked, who waits for its result."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct, structs

from duenotice.engine.writer import Ask, News, Records
from duenotice.errors import DuenoticeError

SPENT_SECONDS = 0.05
"""How long large commands that are done are kept, at most."""

FEW = 1000
"""Things that a command names, or records that it has led to, if it is small."""


class WaitingCommand(NamedTuple):
    """Answered once; who has given up meanwhile is not told."""

    ask: Ask
    answer: "asyncio.Future[Records]"

    def end(self, outcome: Records | DuenoticeError) -> None:
        """Tell the one who asked."""
        if self.answer.done():
            return
        if isinstance(outcome, DuenoticeError):
            self.answer.set_exception(outcome)
        else:
            self.answer.set_result(outcome)

    @property
    def is_large(self) -> bool:
        """Whether it takes a while to give it back: it names very many things, or has done very much."""
        for part in structs.astuple(self.ask.command):
            if isinstance(part, Struct) or (isinstance(part, tuple) and len(part) > FEW):
                return True
        return len(self.records) > FEW

    @property
    def records(self) -> Records:
        """What it has led to, if it was done."""
        was_done = self.answer.done() and not self.answer.cancelled() and self.answer.exception() is None
        return self.answer.result() if was_done else ()


class SpentCommands:
    """Commands that are done, and news that are shown. What is large takes a while to give back: a thread does it.

    Not at once: to wake a thread after each commit would delay the next one. And no small ones: all together would.
    """

    def __init__(self, free: Callable[[list[Any]], None]) -> None:
        self._free = free
        self._spent: list[Any] = []

    def add(self, batch: list[WaitingCommand]) -> None:
        """Take over the large ones, and empty the list."""
        for each in batch:
            if each.is_large:
                self._keep(each.ask.command, each.records)
        batch.clear()

    def keep(self, news: News) -> None:
        """Take over what was shown, if it names very many things."""
        if sum(map(len, news.touched[:3])) > FEW:
            self._keep(news.touched)

    def _keep(self, *things: Any) -> None:
        if not self._spent:
            asyncio.get_running_loop().call_later(SPENT_SECONDS, self._let_go)
        self._spent += things

    def _let_go(self) -> None:
        spent, self._spent = self._spent, []
        self._free(spent)
