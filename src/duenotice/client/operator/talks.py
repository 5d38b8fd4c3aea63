"""A call as a talk: says what to send and when to try again, and does no I/O itself.

A carrier does what each step says and sends the result back in, or throws one of the FAILURES that it met.
"""

import os
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from duenotice.client.exchange import FAILURES, Show, Sleep
from duenotice.client.operator.answer import failure_of, value_in
from duenotice.client.operator.errors import least_pause
from duenotice.client.operator.request import OperatorRequest
from duenotice.client.patience import DICE, Patience, persistently
from duenotice.clock import monotonic
from duenotice.http.http1 import Response

TIMEOUT_SECONDS = 30.0
BUDGET_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class AskOnce:
    """Send a request; the result is the whole answer."""

    request: OperatorRequest[Any]
    deadline: float


@dataclass(frozen=True, slots=True)
class Listen:
    """Send a request whose answer does not end; the result is the answer without its body."""

    request: OperatorRequest[Any]
    deadline: float


@dataclass(frozen=True, slots=True)
class Hear:
    """Wait for more of that answer; the result is empty at its end."""

    deadline: float


@dataclass(frozen=True, slots=True)
class HangUp:
    """Listen no longer."""


class FeedEnded(Exception):
    """Somebody has closed the feed while another thread or task waits for it."""


OperatorStep = AskOnce | Listen | Hear | HangUp | Sleep | Show
T = TypeVar("T")
OperatorTalk = Generator[OperatorStep, Any, T]


@dataclass(frozen=True, slots=True)
class Manner:
    """How a client asks: where, as errors name it, and how patiently."""

    where: str
    patience: Patience = field(default_factory=lambda: Patience(TIMEOUT_SECONDS, BUDGET_SECONDS))
    now: Callable[[], float] = monotonic
    dice: Callable[[], float] = DICE
    new_key: Callable[[], str] = lambda: os.urandom(16).hex()


def call(request: OperatorRequest[T], manner: Manner) -> OperatorTalk[T]:
    """The value of an answer; tried again only where that is safe: a GET, and a POST with a key of ours (S6)."""
    if request.takes_key and manner.patience.budget > 0:
        request = replace(request, key=manner.new_key())

    def attempt(deadline: float) -> OperatorTalk[T]:
        begun = manner.now()
        try:
            response: Response = yield AskOnce(request, deadline)
        except FAILURES as error:
            raise failure_of(error, manner.where, deadline - begun) from None
        return value_in(response, request.kind, manner.where)

    if not request.may_be_repeated:
        return attempt(manner.now() + manner.patience.timeout)
    return persistently(attempt, least_pause, manner.patience, manner.now, manner.dice)
