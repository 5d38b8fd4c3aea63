"""Plays a flow against a service that is a function, in time that passes only here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from duenotice import SeenDocument
from duenotice.client.protocol import MetadataFlows
from duenotice.http import http1
from duenotice.http.flow import FAILURES, ConnectionClosed, Emit, Exchange, Flow, Sleep
from tests.support.evil import json_answer, reply

T = TypeVar("T")


class Request(NamedTuple):
    """What the client sent, and when."""

    at: float
    method: str
    target: str
    tag: str

    @property
    def version(self) -> str:
        return self.target.partition("api-version=")[2].partition("&")[0]

    @property
    def waits(self) -> bool:
        return "wait=" in self.target


Service = Callable[[Request], tuple[float, bytes]]
"""Seconds until the answer, and its bytes; none are a connection that ends."""


class Enough(Exception):
    """The play has lasted long enough."""


@dataclass
class Stage:
    """Time, the requests that came and the documents that were shown, with their moments."""

    service: Service
    now: float = 1000.0
    requests: list[Request] = field(default_factory=list)
    shown: list[tuple[float, SeenDocument]] = field(default_factory=list)

    def flows(self, **more: Any) -> MetadataFlows:
        """In this stage's time, with the longest pauses that jitter allows."""
        return MetadataFlows(now=lambda: self.now, jitter=lambda: 1.0, **more)

    def play(self, flow: Flow[T], seconds: float = 1e9) -> T:
        """What the flow ends with; Enough if it goes on for longer."""
        end, reply, failure = self.now + seconds, None, None
        while True:
            try:
                step = flow.send(reply) if failure is None else flow.throw(failure)
            except StopIteration as done:
                value: T = done.value
                return value
            if self.now >= end:
                raise Enough
            try:
                reply, failure = self._do(step), None
            except FAILURES as error:
                failure = error

    def _do(self, step: Any) -> Any:
        match step:
            case Exchange(request, deadline):
                return self._exchange(request, deadline)
            case Sleep(seconds):
                self.now += seconds
            case Emit(document):
                self.shown.append((self.now, document))
        return None

    def _exchange(self, request: http1.Request, deadline: float) -> http1.Response:
        tag = request.headers.get("If-None-Match", "")
        self.requests.append(Request(self.now, request.method, request.path, tag))
        delay, data = self.service(self.requests[-1])
        self.now = min(deadline, self.now + delay)
        if self.now == deadline:
            raise TimeoutError
        if not data:
            raise ConnectionClosed
        reading = http1.read_response()
        next(reading)
        try:
            reading.send(data)
            while True:
                reading.send(b"")
        except StopIteration as whole:
            found: http1.Response = whole.value
            return found


def answer(status: int = 200, content: Any = b"", *headers: str) -> bytes:
    """The bytes of a well-formed answer."""
    (whole,) = (
        reply(status, content, *headers)
        if isinstance(content, bytes)
        else json_answer(content, *headers, status=status)
    )
    assert isinstance(whole, bytes)
    return whole


def numbered(incarnation: int, *events: Any) -> dict[str, Any]:
    """A document."""
    return {"DocumentIncarnation": incarnation, "Events": list(events)}
