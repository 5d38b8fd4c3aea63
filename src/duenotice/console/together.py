"""Doing one thing to many that were chosen in a table, each for itself, and saying which were refused and why."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from duenotice.bounds import FORM_FIELDS, CallBounds
from duenotice.client.operator.errors import Denied
from duenotice.console.pages import Visit, fields_of
from duenotice.errors import DuenoticeError

MOST_CHOSEN = 500
TABLE = CallBounds(fields=MOST_CHOSEN + FORM_FIELDS)
"""What the form of a table may be: its rows that were chosen, and what is to be done."""
AT_ONCE = 20
"""How many are under way at the same time; the service stores those in one batch."""


class Outcomes(NamedTuple):
    """How many were done, and the others with the reason in the words of the service."""

    done: int
    refused: tuple[tuple[str, str], ...]
    answers: tuple[object, ...] = ()


async def chosen(visit: Visit) -> tuple[list[str], dict[str, str]]:
    """The rows that a form names, each once, and its other fields."""
    fields = await fields_of(visit.request)
    rows = [value for name, value in fields if name == "row"]
    return list(dict.fromkeys(rows)), {name: value for name, value in fields if name != "row"}


async def together(rows: Sequence[str], do: Callable[[str], Awaitable[object]]) -> Outcomes:
    """Do it to each; who may not do it at all is refused as a whole."""
    turns = asyncio.Semaphore(AT_ONCE)

    answers: list[object] = []

    async def one(row: str) -> str:
        async with turns:
            try:
                answers.append(await do(row))
            except Denied:
                raise
            except DuenoticeError as problem:
                return f"{problem.message} {problem.hint}"
        return ""

    said = await asyncio.gather(*map(one, rows))
    refused = tuple((row, why) for row, why in zip(rows, said, strict=True) if why)
    return Outcomes(len(answers), refused, tuple(answers))
