"""A command that waits for its turn, and the one who asked, who waits for its result."""

import asyncio
from typing import NamedTuple

from duenotice.engine.writer import Ask, Records
from duenotice.errors import DuenoticeError


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
