"""Trying again: how long, how often, after which pauses. Pure, except for the clock and random numbers it is given."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from duenotice.backoff import Backoff
from duenotice.clock import monotonic
from duenotice.errors import DuenoticeError
from duenotice.http.flow import Flow, Sleep, T

TIMEOUT_SECONDS = 3.0
BUDGET_SECONDS = 10.0
AGAIN = Backoff(0.2, 2.0)
JITTER = random.Random().random
"""Not the random numbers of the whole program: its owner may have seeded those, and expects nobody else to use them."""

LeastPause = Callable[[DuenoticeError], float | None]
"""How many seconds to wait at least after this error; None when asking again cannot help."""
IsWanted = Callable[[], bool]
"""Whether another try is wanted, when its time has come."""


def always() -> bool:
    """Every try is wanted."""
    return True


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`timeout` is for one try, to its last byte; `budget` for all tries of a call, and 0 means one try.

    Notice may be as short as 30 s (D06, H06): by default a call gives up while 20 of them are still left.
    """

    timeout: float = TIMEOUT_SECONDS
    budget: float = BUDGET_SECONDS


def retry(
    attempt: Callable[[float], Flow[T]],
    least_pause: LeastPause,
    policy: RetryPolicy,
    now: Callable[[], float] = monotonic,
    jitter: Callable[[], float] = JITTER,
    failed: DuenoticeError | None = None,
    is_wanted: IsWanted = always,
) -> Flow[T]:
    """Try until it works, the budget is used up, or trying again cannot help; `failed` is a try made before."""
    begun, failures = now(), 0
    end, deadline = begun + policy.budget, begun + policy.timeout
    while True:
        if failed is None:
            try:
                return (yield from attempt(deadline))
            except DuenoticeError as error:
                failed = error
        least = least_pause(failed)
        if least is None or now() + (pause := pause_after(failures, least, jitter)) >= end:
            raise failed
        yield Sleep(pause)
        if not is_wanted():
            raise failed
        failed, failures = None, failures + 1
        deadline = min(end, now() + policy.timeout)


def pause_after(failures: int, least: float, jitter: Callable[[], float] = JITTER) -> float:
    """The pause doubles, with jitter so that a fleet does not come back all at once.

    It is never shorter than asked for.
    """
    return max(AGAIN.after(failures) * (0.5 + jitter() / 2), least)
