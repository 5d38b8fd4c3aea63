"""A command that waits for its turn, and the one who asked, who waits for its result."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from duenotice.engine.writer import Ask, Records
from duenotice.errors import DuenoticeError

SPENT_SECONDS = 0.2
"""How long commands that are done are kept, at most."""


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


class SpentCommands:
    """Commands that are done. A large one takes a while to give back, so a thread does it.

    Not at once: to wake a thread after each commit would delay the next one.
    """

    def __init__(self, free: Callable[[list[Any]], None]) -> None:
        self._free = free
        self._spent: list[WaitingCommand] = []

    def add(self, batch: list[WaitingCommand]) -> None:
        """Take them over, and empty the list."""
        if not self._spent:
            asyncio.get_running_loop().call_later(SPENT_SECONDS, self._let_go)
        self._spent += batch
        batch.clear()

    def _let_go(self) -> None:
        spent, self._spent = self._spent, []
        self._free(spent)
