"""Plays a talk of the operator's client against a service that is a function, in time that passes only here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from duenotice.client.exchange import FAILURES, Show, Sleep
from duenotice.client.operator.request import OperatorRequest
from duenotice.client.operator.talks import AskOnce, HangUp, Hear, Listen, Manner, OperatorTalk
from duenotice.client.patience import Patience
from duenotice.http.http1 import Response

T = TypeVar("T")
Service = Callable[[OperatorRequest[Any]], Response | Exception | list[bytes | Exception]]
"""An answer, a failure on the way, or the pieces of an answer that does not end by itself."""


class Enough(Exception):
    """The play has lasted long enough."""


@dataclass
class OperatorStage:
    """Time, the requests that came with their moments, and what was shown."""

    service: Service
    now: float = 1000.0
    sent: list[tuple[float, OperatorRequest[Any]]] = field(default_factory=list)
    shown: list[Any] = field(default_factory=list)
    pieces: list[bytes | Exception] = field(default_factory=list)

    def manner(self, timeout: float = 30.0, budget: float = 10.0) -> Manner:
        """In this stage's time, with dice that always show the most; keys are numbered."""
        return Manner(
            "http://h", Patience(timeout, budget), lambda: self.now, lambda: 1.0, lambda: f"key-{len(self.sent)}"
        )

    def play(self, talk: OperatorTalk[T], seconds: float = 1e9, most: int = 10**9) -> T:
        """What the talk ends with; Enough if it goes on for longer or shows more."""
        end, reply, failure = self.now + seconds, None, None
        while True:
            try:
                step = talk.send(reply) if failure is None else talk.throw(failure)
            except StopIteration as done:
                value: T = done.value
                return value
            if isinstance(step, Show):
                self.shown.append(step.shown)
            if self.now >= end or len(self.shown) >= most:
                raise Enough
            try:
                reply, failure = self._do(step), None
            except FAILURES as error:
                failure = error

    @property
    def times(self) -> list[float]:
        """When each request was sent."""
        return [round(at - 1000, 6) for at, _ in self.sent]

    def _do(self, step: Any) -> Any:
        match step:
            case AskOnce(request, deadline) | Listen(request, deadline):
                return self._answered(request, deadline)
            case Hear(deadline):
                return self._heard(deadline)
            case HangUp():
                self.pieces = []
            case Sleep(seconds):
                self.now += seconds
        return None

    def _answered(self, request: OperatorRequest[Any], deadline: float) -> Response:
        self.sent.append((self.now, request))
        answer = self.service(request)
        if isinstance(answer, list):
            self.pieces = list(answer)
            return Response(200, {}, b"")
        if isinstance(answer, TimeoutError):
            self.now = deadline
        if isinstance(answer, Exception):
            raise answer
        self.pieces = [answer.body]
        return answer

    def _heard(self, deadline: float) -> bytes:
        piece = self.pieces.pop(0) if self.pieces else b""
        if isinstance(piece, TimeoutError):
            self.now = deadline
        if isinstance(piece, Exception):
            raise piece
        return piece
