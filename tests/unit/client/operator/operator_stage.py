"""Plays a flow of the operator's client against a service that is a function, in time that passes only here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from duenotice.client.operator.config import Settings
from duenotice.client.retry import RetryPolicy
from duenotice.http.flow import FAILURES, Close, Emit, Exchange, Flow, Open, Read, Sleep
from duenotice.http.http1 import Request, Response, ResponseHead

T = TypeVar("T")
Service = Callable[[Request], Response | Exception | list[bytes | Exception]]
"""An answer, a failure on the way, or the pieces of an answer that does not end by itself."""


class Enough(Exception):
    """The play has lasted long enough."""


@dataclass
class OperatorStage:
    """Time, the requests that came with their moments, and what was shown."""

    service: Service
    now: float = 1000.0
    sent: list[tuple[float, Request]] = field(default_factory=list)
    shown: list[Any] = field(default_factory=list)
    pieces: list[bytes | Exception] = field(default_factory=list)

    def settings(self, timeout: float = 30.0, budget: float = 10.0) -> Settings:
        """In this stage's time, with the longest pauses that jitter allows; keys are numbered."""
        return Settings(
            "http://h",
            policy=RetryPolicy(timeout, budget),
            now=lambda: self.now,
            jitter=lambda: 1.0,
            new_key=lambda: f"key-{len(self.sent)}",
        )

    def play(self, flow: Flow[T], seconds: float = 1e9, most: int = 10**9) -> T:
        """What the flow ends with; Enough if it goes on for longer or shows more."""
        end, reply, failure = self.now + seconds, None, None
        while True:
            try:
                step = flow.send(reply) if failure is None else flow.throw(failure)
            except StopIteration as done:
                value: T = done.value
                return value
            if isinstance(step, Emit):
                self.shown.append(step.value)
            if self.now >= end or len(self.shown) >= most:
                raise Enough
            try:
                reply, failure = self._do(step), None
            except FAILURES as error:
                failure = error

    def headers(self, name: str) -> list[str]:
        """What each request had in this header, empty where it was not there."""
        return [request.headers.get(name, "") for _, request in self.sent]

    @property
    def times(self) -> list[float]:
        """When each request was sent."""
        return [round(at - 1000, 6) for at, _ in self.sent]

    def _do(self, step: Any) -> Any:
        match step:
            case Exchange(request, deadline):
                return self._exchange(request, deadline)
            case Open(request, deadline):
                found = self._exchange(request, deadline)
                return ResponseHead(1, found.status, found.headers)
            case Read(deadline):
                return self._read(deadline)
            case Close():
                self.pieces = []
            case Sleep(seconds):
                self.now += seconds
        return None

    def _exchange(self, request: Request, deadline: float) -> Response:
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

    def _read(self, deadline: float) -> bytes:
        piece = self.pieces.pop(0) if self.pieces else b""
        if isinstance(piece, TimeoutError):
            self.now = deadline
        if isinstance(piece, Exception):
            raise piece
        return piece
