"""Trying again: how long, how often, after which pauses. Pure, except for the clock and random numbers it is given."""

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from duenotice.backoff import Backoff
from duenotice.client.exchange import Sleep, T
from duenotice.clock import monotonic
from duenotice.errors import DuenoticeError

TIMEOUT_SECONDS = 3.0
BUDGET_SECONDS = 10.0
AGAIN = Backoff(0.2, 2.0)
DICE = random.Random().random
"""Not the dice of the whole program: its owner may have seeded those, and expects nobody else to throw them."""

S = TypeVar("S")
LeastPause = Callable[[DuenoticeError], float | None]
"""How many seconds to wait at least after this error; None when asking again cannot help."""
IsWanted = Callable[[], bool]
"""Whether another try is wanted, when its time has come."""


def always() -> bool:
    """Every try is wanted."""
    return True


@dataclass(frozen=True, slots=True)
class Patience:
    """`timeout` is for one try, to its last byte; `budget` for all tries of a call, and 0 means one try.

    Notice may be as short as 30 s (D06, H06): by default a call gives up while 20 of them are still left.
    """

    timeout: float = TIMEOUT_SECONDS
    budget: float = BUDGET_SECONDS


def persistently(
    attempt: Callable[[float], Generator[S, Any, T]],
    least_pause: LeastPause,
    patience: Patience,
    now: Callable[[], float] = monotonic,
    dice: Callable[[], float] = DICE,
    failed: DuenoticeError | None = None,
    is_wanted: IsWanted = always,
) -> Generator[S | Sleep, Any, T]:
    """Try until it works, the budget is used up, or trying again cannot help; `failed` is a try made before."""
    begun, failures = now(), 0
    end, deadline = begun + patience.budget, begun + patience.timeout
    while True:
        if failed is None:
            try:
                return (yield from attempt(deadline))
            except DuenoticeError as error:
                failed = error
        least = least_pause(failed)
        if least is None or now() + (pause := pause_after(failures, least, dice)) >= end:
            raise failed
        yield Sleep(pause)
        if not is_wanted():
            raise failed
        failed, failures = None, failures + 1
        deadline = min(end, now() + patience.timeout)


def pause_after(failures: int, least: float, dice: Callable[[], float] = DICE) -> float:
    """The pause doubles, with jitter so that a fleet does not come back all at once.

    It is never shorter than asked for.
    """
    return max(AGAIN.after(failures) * (0.5 + dice() / 2), least)
